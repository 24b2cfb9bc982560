"""Columns that rows come without, in tables where a row replaces an older one of its key.

A column that is left out would become null, and with it the value that the older row has there. So rows
that lack such a column are refused unless the caller says what to do: ``missing="null"`` writes null,
``missing="keep"`` reads the older rows and keeps their values
(:mod:`lakehouse.storage.write.keeping_writes`).

A column is missing where a table, batch or frame has no column of its name, and in each dict that has no
such key. A value of null is a value. A column with a default is never missing: its owner has said what
rows have that come without it. A struct is one value: fields that it lacks are null.

==========================================  ==========================================================
table                                       columns that may not be missing unless the caller says so
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
"""What becomes of columns that rows come without."""
_CHOICES = ("error", "null", "keep")
_SHOWN = 5


def check_missing(missing: object) -> None:
    """Refuses whatever says neither what to do nor, with None, that the table decides."""
    if missing is not None and missing not in _CHOICES:
        raise InvalidInputError(
            f"missing is 'error', 'null' or 'keep', not {missing!r:.80}", missing=repr(missing)[:80]
        )


def refuse_keep(missing: object, why: str) -> None:
    """Refuses ``keep`` in a way of writing that reads nothing: ``why`` names it, and what to call instead."""
    check_missing(missing)
    if missing == "keep":
        raise InvalidInputError(
            f"missing='keep' reads older rows: {why}. Tables of merge engine partial-update leave missing "
            "columns as they are without reading",
            missing="keep",
        )


def columns_lost(schema: TableSchema, names: Collection[str]) -> tuple[str, ...]:
    """Columns whose values rows with no more than these columns would replace by null.

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
        counts = not rule.only_given or any(one.casefold() in given for one in rule.sequence)
        if rule.aggregate is Aggregate.LAST_VALUE and counts:
            lost.append(name)
    return tuple(lost)


def _columns_lacking(schema: TableSchema, names: Collection[str]) -> tuple[str, ...]:
    """Columns outside the key that would be null in rows with no more than these columns."""
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
    """A check of the columns that rows come with; None where none is to be made.

    Args:
        schema: of the table.
        missing: ``error`` refuses rows without any column, whatever the table does with them; None
            and ``keep`` refuse those with which a value would be lost.
    """
    if missing == "null":
        return None
    found = _columns_lacking if missing == "error" else columns_lost
    known = {field.name.casefold() for field in schema.fields}

    def check(names: Collection[str], row: int | None) -> None:
        lost = found(schema, names)
        # Who misspells a name wants to know that; rows of the schema say so.
        if lost and known.issuperset(name.casefold() for name in names):
            raise _refusal(schema, lost, row)

    return check


def _refusal(schema: TableSchema, lost: tuple[str, ...], row: int | None) -> InvalidInputError:
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
