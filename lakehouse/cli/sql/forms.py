"""Forms of results: a table for people; CSV, JSON, Markdown or Parquet for programs, written as rows come.

Invariant: forms for programs need memory for one batch of rows; a table shows the first rows, and says so.
"""

from __future__ import annotations

import csv
import enum
import io
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from lakehouse.cli import tables
from lakehouse.cli.arguments import split_file
from lakehouse.cli.escapes import json_text, visible
from lakehouse.cli.output import complain, write_bytes
from lakehouse.cli.row_stream import json_lines, parquet_bytes
from lakehouse.errors import InvalidInputError
from lakehouse.io import open_store

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.sql.session import SqlResult

__all__ = ["Form", "saved", "shown"]

_TABLE_ROWS = 1_000
"""Rows of a table at most; its widths are those of all of them."""


class Form(enum.StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"
    MARKDOWN = "markdown"
    PARQUET = "parquet"


async def shown(result: SqlResult, form: Form, *, most: int = _TABLE_ROWS) -> int:
    """Writes the rows of a result to standard output; returns how many."""
    if not result.schema.names:
        await result.aclose()
        return 0
    if form is Form.TABLE:
        rows = await _as_table(result, most)
    else:
        counted = _Counted(result)
        async with aclosing(_written(counted.each(), result.schema, form)) as chunks:
            async for chunk in chunks:
                write_bytes(chunk)
        rows = counted.rows
    _tell_missing(result)
    return rows


async def saved(result: SqlResult, form: Form, output: str, options: dict[str, Any]) -> int:
    """Writes the rows of a result to a path or URL; returns how many."""
    if form is Form.TABLE:
        raise InvalidInputError("--format table is for the screen: take csv, ndjson or parquet with --output")
    root, key = split_file(output)
    counted = _Counted(result)
    async with (
        open_store(root, storage_options=options) as store,
        store.writer(key) as writer,
        aclosing(_written(counted.each(), result.schema, form)) as chunks,
    ):
        async for chunk in chunks:
            await writer.write(chunk)
    _tell_missing(result)
    return counted.rows


def _tell_missing(result: SqlResult) -> None:
    """Says which tables have no rows in a system table."""
    for warning in result.warnings:
        complain(f"its rows are missing: {warning}")


class _Counted:
    """Batches of a result, counted as they pass."""

    def __init__(self, result: SqlResult) -> None:
        self._result = result
        self.rows = 0

    async def each(self) -> AsyncGenerator[pa.RecordBatch, None]:
        async with aclosing(self._result.batches()) as batches:
            async for batch in batches:
                self.rows += batch.num_rows
                yield batch


async def _as_table(result: SqlResult, most: int) -> int:
    batches: list[pa.RecordBatch] = []
    rows = 0
    async with aclosing(result.batches()) as found:
        async for batch in found:
            batches.append(batch)
            rows += batch.num_rows
            if rows > most:
                break
    if not rows:
        complain("no rows")
        return 0
    tables.print_rows(tables.as_table(batches).slice(0, most), rest="--format ndjson")
    if rows > most:
        complain(f"… the first {most:,} rows; --format csv, ndjson or parquet has all of them")
    return min(rows, most)


def _written(
    batches: AsyncGenerator[pa.RecordBatch, None], schema: pa.Schema, form: Form
) -> AsyncGenerator[bytes, None]:
    if form is Form.PARQUET:
        return parquet_bytes(batches, schema)
    if form is Form.NDJSON:
        return json_lines(batches, default=tables.plain)
    writers: dict[Form, Callable[[AsyncIterator[pa.RecordBatch], list[str]], AsyncGenerator[bytes, None]]] = {
        Form.CSV: _csv,
        Form.JSON: _json,
        Form.MARKDOWN: _markdown,
    }
    return writers[form](batches, schema.names)


async def _csv(batches: AsyncIterator[pa.RecordBatch], names: list[str]) -> AsyncGenerator[bytes, None]:
    yield _separated([names])
    async for batch in batches:
        yield _separated([[_field(value) for value in row.values()] for row in _dicts(batch)])


def _separated(rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _field(value: object) -> object:
    """Returns a value as a field; null is empty, and what has parts is JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return json_text(value, default=tables.plain) if isinstance(value, list | dict) else tables.plain(value)


def _dicts(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    # Columns of one name are told apart: a dict has each once.
    names = [f"{at}:{name}" for at, name in enumerate(batch.schema.names)]
    rows: list[dict[str, Any]] = batch.rename_columns(names).to_pylist(maps_as_pydicts="lossy")
    return rows


async def _json(batches: AsyncIterator[pa.RecordBatch], names: list[str]) -> AsyncGenerator[bytes, None]:
    before = b"["
    async for batch in batches:
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            yield before + b"\n  " + json_text(row, default=tables.plain).encode()
            before = b","
    yield b"[]\n" if before == b"[" else b"\n]\n"


async def _markdown(batches: AsyncIterator[pa.RecordBatch], names: list[str]) -> AsyncGenerator[bytes, None]:
    yield _line(names) + _line(["---"] * len(names))
    async for batch in batches:
        yield b"".join(_line([tables.cell(value) for value in row.values()]) for row in _dicts(batch))


def _line(cells: list[str]) -> bytes:
    shown = (visible(cell).replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(shown)} |\n".encode()
