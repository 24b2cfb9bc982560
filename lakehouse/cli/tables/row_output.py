"""Rows as commands print them: a table for people, one JSON object per line for programs.

Invariant: a cell shows its value as it is; what looks like markup is not taken for it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from lakehouse.cli.escapes import json_text
from lakehouse.cli.output import complain, print_table
from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import TableSchema, arrow_type, type_text

__all__ = ["as_table", "cell", "plain", "print_lines", "print_rows", "print_some", "total", "typed"]


def print_rows(
    rows: pa.Table,
    columns: Sequence[str] = (),
    formats: Mapping[str, Callable[[Any], str]] | None = None,
    *,
    wraps: Collection[str] | None = None,
    rest: str = "--json",
) -> None:
    """Prints a table of some of the columns, or of all of them.

    Args:
        rows: the rows.
        columns: the names of those shown; none = all.
        formats: how the values of a column are shown.
        wraps: columns whose cells may be wrapped; None = those of text and of nested values.
        rest: options that show the columns which do not fit.
    """
    names = [*columns] or rows.schema.names
    kinds = {name: rows.schema.field(name).type for name in names}
    show = formats or {}
    shown = [
        [None if row[name] is None else show.get(name, cell)(row[name]) for name in names]
        for row in rows.to_pylist()
    ]
    whole = [name for name in names if (_is_short(kinds[name]) if wraps is None else name not in wraps)]
    right = [name for name in names if _is_number(kinds[name])]
    print_table(names, shown, right=right, whole=whole, rest=rest)


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _is_short(kind: pa.DataType) -> bool:
    """Returns whether values have about the same width, so that they are not to be wrapped."""
    return _is_number(kind) or any(test(kind) for test in (pa.types.is_temporal, pa.types.is_boolean))


def print_lines(rows: pa.Table | pa.RecordBatch) -> None:
    """Prints a line with a JSON object for each row."""
    for row in rows.to_pylist():
        typer.echo(json_text(row, default=plain))


async def print_some(
    rows: AsyncGenerator[pa.Table, None], *, as_json: bool, most: int, rest: str = "--json"
) -> None:
    """Prints rows as they come: all of them as lines, or the first as a table and a word on the others."""
    tables: list[pa.Table] = []
    async with aclosing(rows):
        async for table in rows:
            if as_json:
                print_lines(table)
                continue
            tables.append(table)
            if sum(table.num_rows for table in tables) > most:
                break
    if not as_json:
        shown = pa.concat_tables(tables) if tables else pa.table({})
        if shown.num_rows:
            print_rows(shown.slice(0, most), rest=rest)
        if shown.num_rows > most:
            complain("… and more rows; --json prints all of them")
        if not shown.num_rows:
            complain("no rows")


def cell(value: object) -> str:
    """Returns a value as people read it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case Mapping():
            return " ".join(f"{name}={cell(item)}" for name, item in value.items())
        case (name, item) if isinstance(value, tuple):  # of a map
            return f"{name}={cell(item)}"
        case [*values]:
            return ", ".join(cell(item) for item in values)
        case bytes() | dt.date() | dt.time():
            return str(plain(value))
    return str(value)


def plain(value: object) -> object:
    """Returns the value as JSON has it; what JSON has no type for is text."""
    if value is None or isinstance(value, str | bool | int | float | list | dict):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "auto" if value.microsecond else "seconds")
    return str(value)


def typed(words: dict[str, str], schema: TableSchema) -> dict[str, Any]:
    """The words as values of their columns' types; others are left for the table to refuse."""
    kinds = {one.name: one.type for one in schema.key_fields}
    typed: dict[str, Any] = {}
    for name, text in words.items():
        try:
            typed[name] = pa.scalar(text).cast(arrow_type(kinds[name])).as_py() if name in kinds else text
        except pa.ArrowInvalid as error:
            raise InvalidInputError(
                f"{name} is {type_text(kinds[name])}, and {text!r} is not", column=name
            ) from error
    return typed


def as_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """The rows of batches of one schema, at least one."""
    return pa.Table.from_batches(batches)


def total(column: pa.ChunkedArray) -> int:
    """The sum of a column of numbers, 0 where there is none."""
    return int(pc.sum(column).as_py() or 0)
