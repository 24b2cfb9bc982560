"""A provider as DuckDB registers it: a source of its private protocol (``duckdb._sources``).

DuckDB offers each condition of a scan to :meth:`ProviderSource.accepts` while it plans, and opens a stream
for each scan; that of a join's probe side after the build side has been read.

Invariant: a source keeps nothing between scans. Offers of two scans of one source come mixed, so only the
filters that are handed to :meth:`ProviderSource.stream` count.
"""

from __future__ import annotations

from collections.abc import Sequence

from duckdb._sources import ArrowScanSource
from duckdb._sources.nodes import Node

from lakehouse.config import SqlSettings
from lakehouse.errors import InternalError
from lakehouse.expr import Expr
from lakehouse.expr.nodes import all_given
from lakehouse.sql.engine.loop_bridge import LoopBridge
from lakehouse.sql.providers.declared import Declared
from lakehouse.sql.providers.handover import Handover
from lakehouse.sql.providers.provider import TableProvider
from lakehouse.sql.providers.pushed_filters import to_expr

__all__ = ["ProviderSource", "arrow_source"]


def arrow_source(
    provider: TableProvider, bridge: LoopBridge, *, bytes_max: int = SqlSettings().source_bytes
) -> ProviderSource:
    """Returns what DuckDB's ``register`` takes, for one reference of one statement.

    Its first column is one of nothing: define a view over it, with
    :func:`~lakehouse.sql.providers.select_list`.

    Args:
        provider: has the rows.
        bridge: leads from threads of DuckDB to the loop of the provider.
        bytes_max: bytes that are read ahead in each scan.

    Raises:
        InvalidInputError: DuckDB cannot read a column of such a type.
    """
    declared = Declared(provider.schema)
    return ProviderSource(Handover(provider=provider, bridge=bridge, declared=declared, bytes_max=bytes_max))


class ProviderSource(ArrowScanSource):  # type: ignore[misc]
    """The source of one provider; made by :func:`arrow_source`."""

    schema_is_stable = True

    def __init__(self, handover: Handover) -> None:
        super().__init__(handover.provider)
        self._handover = handover

    def __arrow_c_schema__(self) -> object:
        """Returns the columns, the one of nothing first."""
        return self._handover.declared.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns all rows; DuckDB registers nothing that lacks this method."""
        return self.stream(None, ())[0]

    def rows(self) -> int:
        """Returns the provider's estimate."""
        return self._handover.provider.rows

    def accepts(self, predicate: Node) -> bool:
        """Returns whether the provider applies the condition, which then leaves DuckDB's plan."""
        where = to_expr(predicate, self._handover.provider.schema)
        return where is not None and self._handover.provider.applies(where)

    def stream(self, columns: Sequence[int] | None, filters: Sequence[Node]) -> tuple[object, bool]:
        """Returns a stream of these columns and of the rows that pass the filters."""
        where = all_given(*map(self._taken, filters))
        places = self._handover.declared.places(columns)
        return self._handover.reader(places, where).__arrow_c_stream__(), True

    def _taken(self, node: Node) -> Expr:
        where = to_expr(node, self._handover.provider.schema)
        if where is None:
            raise InternalError(f"DuckDB hands over {node.fragment()}, which was not accepted")
        return where
