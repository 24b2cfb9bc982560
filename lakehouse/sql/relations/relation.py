"""Relations: what a reference of a statement reads, as files for DuckDB and as rows of ours.

Words: *relation* (one reference) → *branch* (plain files of one shape, or a provider) → *file*. *Plain* is a
file whose rows are shown as they stand in it, so that DuckDB reads it by itself.

Invariant: the branches of a relation have the same columns, in order, and no row is in two of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lakehouse.expr import Expr
from lakehouse.io import ObjectStore
from lakehouse.io.work import Report
from lakehouse.sql.providers import TableProvider

__all__ = ["PinnedRows", "PlainFile", "PlainFiles", "Relation", "RelationReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFile:
    """An object that DuckDB reads by itself."""

    store: ObjectStore
    key: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFiles:
    """Plain files with the same columns."""

    files: tuple[PlainFile, ...] = ()
    columns: tuple[str, ...]
    """Expressions that make the relation's columns of those in the files, in order."""
    where: str = ""
    """Condition of the rows that are shown; empty = all."""


@dataclass(slots=True, kw_only=True)
class RelationReport(Report):
    """Files of one reference: which of them DuckDB reads, which are merged, and why not the rest."""

    name: str
    """Full name of the table or view."""
    at: str = ""
    """Snapshot that is read."""
    files: int = 0
    """Live files of the snapshot."""
    plain: int = 0
    """Files that DuckDB reads by itself."""
    merged: int = 0
    """Files whose rows are merged, filtered or converted before DuckDB sees them."""
    pruned: Mapping[str, int] = field(default_factory=dict)
    """Files left out, by reason."""
    where: str = ""
    """Condition that files were left out by; empty = there was none to plan with."""

    def __str__(self) -> str:
        left_out = ", ".join(f"{count} by {why}" for why, count in sorted(self.pruned.items())) or "none"
        text = f"{self.name}{f' at {self.at}' if self.at else ''}: {self.files} files"
        text += f", {self.plain} plain, {self.merged} merged, {left_out} pruned"
        return f"{text} ({self.where})" if self.where else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Branches of one reference."""

    plain: tuple[PlainFiles, ...] = ()
    provider: TableProvider | None = None
    """Rows of all other files."""
    report: RelationReport


class PinnedRows(Protocol):
    """Rows of one table at the snapshot of a query, before it is known which of them a statement needs."""

    @property
    def name(self) -> str:
        """Full name of the table."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Columns that are shown."""
        ...

    @property
    def files(self) -> int:
        """Number of live files; 0 = planning would gain nothing."""
        ...

    @property
    def known_rows(self) -> int | None:
        """Number of rows, where metadata alone tell; else None."""
        ...

    async def relation(self, where: Expr | None) -> Relation:
        """Returns the branches that hold all rows that match; None = all rows."""
        ...

    def reading(self) -> Any:
        """Protects what is read from deletion while the block runs."""
        ...
