"""Rows that are hidden once they are old: a filter on what the merge leaves, told by the snapshot's time.

Invariant: what a snapshot shows is fixed by its own time, so it reads the same for ever. A row that is
hidden is still there: it hides older rows and takes part in later merges.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.expr import Expr, all_of, bind, col, matching
from lakehouse.expr.nodes import IsNull, all_given
from lakehouse.format.schema import Field, Primitive, TableSchema

__all__ = ["Lifetime", "lifetime", "may_drop_hidden", "shown_where"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_YEARS_MAX = dt.timedelta(days=1960 * 365)
"""Python counts no years before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Which rows a snapshot shows."""

    field: Field
    """The column that tells."""
    where: Expr
    """The condition that they match."""

    def differs(self, other: Lifetime | None) -> Expr:
        """The condition of rows that one of both shows, and the other does not."""
        if other is None:
            return ~self.where
        return all_of(self.where, ~other.where) | all_of(other.where, ~self.where)

    def shown(self, rows: pa.Table) -> pa.Array:
        """Of each row, whether it is shown; the table has the column."""
        return matching(bind(self.where, rows.schema), rows)


def lifetime(schema: TableSchema, time_ms: int, *, later: TableSchema | None = None) -> Lifetime | None:
    """Which rows a snapshot shows; None = all.

    Args:
        schema: of the snapshot.
        time_ms: when it was made.
        later: the schema that its rows are read with, if that is another.
    """
    merging = schema.merging
    if not merging.ttl_ms or merging.time_column is None:
        return None
    number = schema.field(merging.time_column).id
    field = next((one for one in (later or schema).fields if one.id == number), None)
    if field is None:
        return None
    column = col(field.name)
    return Lifetime(field=field, where=IsNull(column) | (column > _cutoff(field, time_ms - merging.ttl_ms)))


def shown_where(where: Expr | None, shows: Lifetime | None) -> Expr | None:
    """The condition of what a reader asks for, of the rows that a snapshot shows; None = all rows."""
    return all_given(where, None if shows is None else shows.where)


def may_drop_hidden(schema: TableSchema) -> bool:
    """Whether a bottom run may leave out rows that its base does not show.

    Only where a later row of the key would not be merged with them, nor lose against them.
    """
    return lifetime(schema, 0) is not None and not schema.merging.folds


def _cutoff(field: Field, time_ms: int) -> object:
    """The last moment of which rows are hidden, as the column has it."""
    if field.type == Primitive("int64"):
        return time_ms
    moment = _EPOCH + max(dt.timedelta(milliseconds=time_ms), -_YEARS_MAX)
    if field.type == Primitive("date"):
        return moment.date()
    return moment if field.type == Primitive("timestamp") else moment.replace(tzinfo=None)
