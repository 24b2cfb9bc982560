"""Sources without rows, for planning: what of a reference does a statement need?

DuckDB plans the statement over them (``EXPLAIN (FORMAT JSON)``). Each scan of the plan lists the columns it
reads and the conditions that were accepted; columns are called by the reference's own prefix and a number,
which tells whose scan it is, also where DuckDB reads one reference twice.

Invariant: rows that :class:`ScanNeeds` leaves out change no answer. Of a plan that cannot be read, all is
needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from duckdb._sources import ArrowScanSource
from duckdb._sources.nodes import Node

from lakehouse.errors import InternalError
from lakehouse.expr import Expr, any_of
from lakehouse.expr.nodes import all_given
from lakehouse.sql.providers.declared import Declared
from lakehouse.sql.providers.pushed_filters import to_expr

__all__ = ["PlanningSource", "ScanNeeds", "needs_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanNeeds:
    """Needs of all scans of one reference together."""

    columns: tuple[str, ...]
    """Columns that are read, in the order of the schema, without those that only the condition reads."""
    where: Expr | None
    """Which rows are needed: true for those of any scan, false if there is no scan. None = all."""


class PlanningSource(ArrowScanSource):  # type: ignore[misc]
    """Source that DuckDB registers in place of one reference while it plans.

    Args:
        schema: the reference's columns.
        rows: how many rows there may be.
        prefix: what its columns are called by, with a number behind it, and those of no other source.
    """

    schema_is_stable = True

    def __init__(self, schema: pa.Schema, rows: int, prefix: str) -> None:
        super().__init__(None)
        self._rows = rows
        self._schema = schema
        self._declared = Declared(schema, prefix)
        self.accepted: dict[str, Expr] = {}
        """Conditions by the text that plans show."""

    @property
    def prefix(self) -> str:
        """Beginning of its columns' names."""
        return self._declared.prefix

    def __arrow_c_schema__(self) -> object:
        """Returns the columns, the one of nothing first."""
        return self._declared.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Refuses to be read."""
        return self.stream(None, ())[0]

    def rows(self) -> int:
        """Returns the estimate."""
        return self._rows

    def accepts(self, predicate: Node) -> bool:
        """Takes every condition that has an expression, and keeps it by its text."""
        where = to_expr(predicate, self._schema, self.prefix)
        if where is not None:
            self.accepted[predicate.fragment()] = where
        return where is not None

    def stream(self, columns: Sequence[int] | None, filters: Sequence[Node]) -> tuple[object, bool]:
        """Refuses to be read."""
        raise InternalError("a source for planning was read: it has no rows")

    def needs(self, scans: Sequence[_Scan] | None) -> ScanNeeds:
        """Returns what these scans of it need together; None = nothing is known of them."""
        names = self._schema.names
        if scans is None:
            return ScanNeeds(columns=tuple(names), where=None)
        read = {name for scan in scans for name in scan.columns}
        wheres = [self._where(scan) for scan in scans]
        given = [where for where in wheres if where is not None]
        return ScanNeeds(
            columns=tuple(name for at, name in enumerate(names) if f"{self.prefix}{at}" in read),
            where=any_of(*given) if len(given) == len(wheres) else None,
        )

    def _where(self, scan: _Scan) -> Expr | None:
        """Returns the condition of a scan; None = it has none, or one whose constant has several lines."""
        if not set(scan.filters) <= set(self.accepted):
            return None
        return all_given(*(self.accepted[text] for text in scan.filters))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scan:
    """One scan of a source in a plan."""

    columns: tuple[str, ...]
    filters: tuple[str, ...]


def needs_of(
    plan: Sequence[Mapping[str, Any]], sources: Mapping[str, PlanningSource]
) -> dict[str, ScanNeeds]:
    """Returns what a statement needs of each reference.

    Args:
        plan: the plan of the statement over these sources, as ``EXPLAIN (FORMAT JSON)`` gives it.
        sources: the source of each reference, by any name.
    """
    scans: dict[str, list[_Scan]] = {source.prefix: [] for source in sources.values()}
    for scan in _scans(plan):
        owners = [prefix for prefix in scans if any(name.startswith(prefix) for name in scan.columns)]
        if len(owners) != 1:
            return {name: source.needs(None) for name, source in sources.items()}
        scans[owners[0]].append(scan)
    return {name: source.needs(scans[source.prefix]) for name, source in sources.items()}


def _scans(plan: Sequence[Mapping[str, Any]]) -> Iterator[_Scan]:
    pending = list(plan)
    while pending:
        node = pending.pop()
        pending += reversed(node["children"])
        if node["name"].strip() == "PYTHON_ARROW_SCAN":
            told = node["extra_info"]
            yield _Scan(columns=_texts(told.get("Projections")), filters=_texts(told.get("Filters")))


def _texts(told: str | list[str] | None) -> tuple[str, ...]:
    """Returns the lines of a plan's entry, which is a text where there is one line."""
    return () if told is None else (told,) if isinstance(told, str) else tuple(told)
