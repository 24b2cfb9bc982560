"""How commands print rows: a table for people, one JSON object per line for programs.

Invariant: a cell shows its value as it is; what looks like markup is not taken for it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import typer
from rich.markup import escape

from lakehouse.cli.output import console, print_table

__all__ = ["SHOWN", "cell", "plain", "print_lines", "print_rows", "print_some"]

SHOWN = 100
"""Rows that people are shown unless they ask for a number."""


def print_rows(
    rows: pa.Table, columns: Sequence[str] = (), formats: Mapping[str, Callable[[Any], str]] | None = None
) -> None:
    """A table of some of the columns, or of all of them; ``formats`` says how a column is shown."""
    names = [*columns] or rows.schema.names
    is_number = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    right = [name for name in names if any(test(rows.schema.field(name).type) for test in is_number)]
    show = formats or {}
    shown = [[escape(show.get(name, cell)(row[name])) for name in names] for row in rows.to_pylist()]
    print_table([escape(name) for name in names], shown, right=[escape(name) for name in right])


def print_lines(rows: pa.Table | pa.RecordBatch) -> None:
    """One JSON object per row and line."""
    for row in rows.to_pylist():
        typer.echo(json.dumps(row, ensure_ascii=False, default=plain))


async def print_some(rows: AsyncGenerator[pa.Table, None], *, as_json: bool, most: int = SHOWN) -> None:
    """Rows as they come: all of them as lines, or the first of them as a table and a word on the others."""
    found: list[pa.Table] = []
    async with aclosing(rows):
        async for table in rows:
            if as_json:
                print_lines(table)
                continue
            found.append(table)
            if sum(one.num_rows for one in found) > most:
                break
    if not as_json:
        shown = pa.concat_tables(found) if found else pa.table({})
        if shown.num_rows:
            print_rows(shown.slice(0, most))
        if shown.num_rows > most:
            console().print("… and more rows; --json prints all of them")
        if not shown.num_rows:
            console().print("no rows")


def cell(value: object) -> str:
    """A value as people read it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case Mapping():
            return " ".join(f"{name}={cell(one)}" for name, one in value.items())
        case (name, one) if isinstance(value, tuple):  # of a map
            return f"{name}={cell(one)}"
        case [*values]:
            return ", ".join(cell(one) for one in values)
        case bytes() | dt.date() | dt.time():
            return str(plain(value))
    return str(value)


def plain(value: object) -> object:
    """The value as JSON has it; what JSON has no type for is text."""
    if value is None or isinstance(value, str | bool | int | float | list | dict):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "auto" if value.microsecond else "seconds")
    return str(value)
