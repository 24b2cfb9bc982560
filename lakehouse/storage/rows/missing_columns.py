"""Columns that incoming rows lack, in tables where a row replaces an older one of its key.

A column that is left out would become null, and with it the value that the older row has there. So rows
that lack such a column are refused unless the caller says what to do: ``missing="null"`` writes null,
``missing="keep"`` reads the older rows and keeps their values
(:mod:`lakehouse.storage.write.keeping_writes`).

A column is missing where a table, batch or frame has no column of its name, and in each dict that has no
such key. A value of null is a value. A column with a default is never missing: its owner has declared the
value of rows that lack it. A struct is one value: fields that it lacks are null.

==========================================  ==========================================================
table                                       columns that may not be missing unless the caller allows it
==========================================  ==========================================================
without primary key, or engine first-row    none: no older row loses anything
engine deduplicate                          all
engines partial-update and aggregation      those of ``last_value``; members of a sequence group whose
                                            sequence is given; others are left as they are by the engine
==========================================  ==========================================================

Invariant: without ``missing="null"`` no write replaces a value by the null of a column that nobody gave.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Aggregate, Engine, TableSchema
from lakehouse.storage.rows.input_tables import CheckNames

__all__ = ["Missing", "check_missing", "columns_lost", "refuse_keep", "refusing_missing"]

Missing = Literal["error", "null", "keep"]
"""Treatment of columns that rows lack: refuse the rows, write null, or keep the older row's value."""
_CHOICES = ("error", "null", "keep")
_SHOWN = 5
"""Names of columns in an error message at most."""


def check_missing(missing: object) -> None:
    """Refuses any value that is neither a choice nor None, which leaves it to the table."""
    if missing is not None and missing not in _CHOICES:
        raise InvalidInputError(
            f"missing is 'error', 'null' or 'keep', not {missing!r:.80}", missing=repr(missing)[:80]
        )


def refuse_keep(missing: object, why: str) -> None:
    """Refuses ``keep`` in writes that read nothing; ``why`` names the write and what to call instead."""
    check_missing(missing)
    if missing == "keep":
        raise InvalidInputError(
            f"missing='keep' reads older rows: {why}. Tables of merge engine partial-update leave missing "
            "columns as they are without reading",
            missing="keep",
        )


def columns_lost(schema: TableSchema, names: Collection[str]) -> tuple[str, ...]:
    """Returns the columns whose values would become null if rows had no more than these columns.

    Columns that must not be null are not among them: rows without these are refused anyway.
    """
    merging = schema.merging
    if not schema.primary_key or merging.engine is Engine.FIRST_ROW:
        return ()
    lacking = _columns_lacking(schema, names)
    if merging.engine is Engine.DEDUPLICATE:
        return lacking
    given = {name.casefold() for name in names}
    lost = []
    for name in lacking:
        rule = merging.rules[name]
        counts = not rule.only_given or any(member.casefold() in given for member in rule.sequence)
        if rule.aggregate is Aggregate.LAST_VALUE and counts:
            lost.append(name)
    return tuple(lost)


def _columns_lacking(schema: TableSchema, names: Collection[str]) -> tuple[str, ...]:
    """Returns the columns outside the key that would be null in rows with no more than these columns."""
    given = {name.casefold() for name in names}
    return tuple(
        field.name
        for field in schema.fields
        if field.name.casefold() not in given
        and field.name not in schema.primary_key
        and field.write_default is None
        and not field.required
    )


def refusing_missing(schema: TableSchema, missing: Missing | None) -> CheckNames | None:
    """Returns a check of the columns that rows have; None where nothing is checked.

    Args:
        schema: of the table.
        missing: ``error`` refuses rows without any column, whatever the table does with them; None
            and ``keep`` refuse those with which a value would be lost.
    """
    if missing == "null":
        return None
    lost_columns = _columns_lacking if missing == "error" else columns_lost
    known = {field.name.casefold() for field in schema.fields}

    def check(names: Collection[str], row: int | None) -> None:
        lost = lost_columns(schema, names)
        # A misspelt name deserves its own error, and that comes when the rows are fitted to the schema.
        if lost and known.issuperset(name.casefold() for name in names):
            raise _missing_columns_error(schema, lost, row)

    return check


def _missing_columns_error(schema: TableSchema, lost: tuple[str, ...], row: int | None) -> InvalidInputError:
    shown = ", ".join(map(repr, lost[:_SHOWN])) + (
        f" and {len(lost) - _SHOWN:,} more" if lost[_SHOWN:] else ""
    )
    who = "the rows have" if row is None else f"row {row:,} has"
    context: dict[str, Any] = {"column": lost[0], "columns": lost, **({} if row is None else {"row": row})}
    if not schema.primary_key:
        why, ways = "missing='error' takes none for null", "give it, null where there is no value"
    elif schema.merging.engine is Engine.DEDUPLICATE:
        why = "an older row of the same key would lose its value there"
        ways = (
            "give all columns, or say what to do: upsert(…, missing='keep') reads the older rows and keeps "
            "their values, missing='null' writes null"
        )
    else:
        why = "a null there counts as a value in this table"
        ways = "give it too, or say missing='null'"
    return InvalidInputError(f"{who} no column {shown}, and {why}: {ways}", **context)
