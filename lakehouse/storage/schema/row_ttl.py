"""Lifetime of rows: a condition on merged rows that hides those too old at the snapshot's time.

Invariant: the rows that a snapshot shows are fixed by its own time, so it reads the same for ever. A
hidden row is still there: it hides older rows and takes part in later merges.
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
"""Bound on the distance from 1970: Python has no years before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Condition of the rows that a snapshot shows."""

    field: Field
    """Column that holds the time of a row."""
    where: Expr
    """Condition that shown rows match."""
    hidden_to: object
    """Last value of the column that hides a row; a row without a value is shown."""

    def differs(self, other: Lifetime | None) -> Expr:
        """Returns the condition of rows that only one of two lifetimes shows."""
        if other is None:
            return ~self.where
        return all_of(self.where, ~other.where) | all_of(other.where, ~self.where)

    def shown(self, rows: pa.Table) -> pa.Array:
        """Returns for each row whether it is shown; the rows have the time column."""
        return matching(bind(self.where, rows.schema), rows)


def lifetime(schema: TableSchema, time_ms: int, *, later: TableSchema | None = None) -> Lifetime | None:
    """Returns the condition of the rows that a snapshot shows; None = all.

    Args:
        schema: the snapshot's schema.
        time_ms: the snapshot's time.
        later: the schema that its rows are read with, if it is another.
    """
    merging = schema.merging
    if not merging.ttl_ms or merging.time_column is None:
        return None
    # By id, since a later schema may have renamed the column.
    number = schema.field(merging.time_column).id
    field = next((candidate for candidate in (later or schema).fields if candidate.id == number), None)
    if field is None:
        return None
    column, last = col(field.name), _cutoff(field, time_ms - merging.ttl_ms)
    return Lifetime(field=field, where=IsNull(column) | (column > last), hidden_to=last)


def shown_where(where: Expr | None, shows: Lifetime | None) -> Expr | None:
    """Returns a reader's condition restricted to the rows that a snapshot shows; None = all rows."""
    return all_given(where, None if shows is None else shows.where)


def may_drop_hidden(schema: TableSchema) -> bool:
    """Returns whether a bottom run may leave out rows that its base does not show.

    Not where rows are folded: a later row of the key would be merged with them.
    """
    return lifetime(schema, 0) is not None and not schema.merging.is_mergeable


def _cutoff(field: Field, time_ms: int) -> object:
    """Returns the last hidden value: rows whose time is at or before it are hidden; typed like the column."""
    if field.type == Primitive("int64"):
        return time_ms
    moment = _EPOCH + max(dt.timedelta(milliseconds=time_ms), -_YEARS_MAX)
    if field.type == Primitive("date"):
        return moment.date()
    return moment if field.type == Primitive("timestamp") else moment.replace(tzinfo=None)
