"""``lakehouse load``: rows of a file into a table, by one commit.

Files are read piece by piece, CSV and JSON in the types of the table. What cannot be read is said with its
line and column, and then nothing is committed.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from lakehouse.cli.arguments import TableArgument, split_file
from lakehouse.cli.frame import Outcome, on_lake
from lakehouse.cli.tables import row_files
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pyarrow as pa

    from lakehouse.lake import Lake
    from lakehouse.storage.table import Table

__all__ = ["load"]


class _Format(enum.StrEnum):
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    PARQUET = "parquet"


class _OnConflict(enum.StrEnum):
    UPDATE = "update"
    ERROR = "error"


class _Missing(enum.StrEnum):
    ERROR = "error"
    NULL = "null"
    KEEP = "keep"


_MESSAGE_MAX = 200
_SUFFIXES = {
    "csv": _Format.CSV,
    "tsv": _Format.TSV,
    "tab": _Format.TSV,
    "parquet": _Format.PARQUET,
    **dict.fromkeys(("json", "jsonl", "ndjson"), _Format.JSON),
}


@on_lake
async def load(
    lake: Lake,
    table: TableArgument,
    file: Annotated[str, typer.Argument(help="Path or URL of a file; - is standard input.")],
    file_format: Annotated[
        _Format | None, typer.Option("--format", help="How rows are written; else by the file's name.")
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Make the table where there is none, with the file's columns.")
    ] = False,
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", metavar="NAME", help="With --create: column of the key; repeatable."),
    ] = None,
    on_conflict: Annotated[
        _OnConflict, typer.Option(help="Whether rows replace older ones of their keys, or are refused.")
    ] = _OnConflict.UPDATE,
    missing: Annotated[
        _Missing | None,
        typer.Option(help="What becomes of columns that the file has not: null, or kept as they are."),
    ] = None,
    *,
    url: str,
    storage_options: dict[str, Any],
) -> Outcome:
    """Load the rows of a CSV, JSON or Parquet file into a table, all of them or none."""
    if keys and not create:
        raise InvalidInputError("--key is for --create: a table that is there has its key")
    kind = file_format or _format_of(file)
    same_place = file.partition("://")[0] == url.partition("://")[0]
    async with _opened(file, storage_options if same_place else {}) as source:
        found = await _table(lake, table, must_be=not create)
        schema = None if found is None else (await found.schema()).arrow()
        batches = row_files.read(source, kind.value, schema, name=file)
        if found is None:
            made = await row_files.first_of(batches)
            found = await lake.create_table(table, made.schema, primary_key=keys or ())
            batches = row_files.joined(made, batches)
        counted = _Counted(batches)
        done = await found.append(
            counted.each(),
            on_conflict=on_conflict.value,
            missing=None if missing is None else missing.value,
            message=f"load {file}"[:_MESSAGE_MAX],
        )
    told = f"{found.name} is at snapshot {done.snapshot}: {counted.rows:,} rows of {file}"
    return Outcome(told, {"table": found.name, "snapshot": done.snapshot, "rows": counted.rows})


def _format_of(file: str) -> _Format:
    if file == "-":
        raise InvalidInputError("standard input has no name that says how rows are written: add --format")
    found = _SUFFIXES.get(file.rpartition(".")[2].lower())
    if found is None:
        raise InvalidInputError(
            f"the name of {file!r} says not how rows are written: add --format csv, tsv, json or parquet",
            file=file,
        )
    return found


async def _table(lake: Lake, name: str, *, must_be: bool) -> Table | None:
    """Opens the table; None where there is none and one is to be made."""
    try:
        found: Table = await lake.table(name)
    except NotFoundError as error:
        if must_be:
            text = f"{error.message}; with --create it is made, with the columns of the file"
            raise NotFoundError(text, **error.context) from None
        return None
    return found


@asynccontextmanager
async def _opened(file: str, options: dict[str, Any]) -> AsyncIterator[BinaryIO]:
    """Opens a file, through the store of its place."""
    if file == "-":
        yield sys.stdin.buffer
        return
    root, key = split_file(file)
    async with open_store(root, storage_options=options) as store:
        size = (await store.head(key)).size
        yield row_files.opened(store, key, size)


class _Counted:
    """Rows on their way into a table, counted."""

    def __init__(self, batches: AsyncGenerator[pa.Table, None]) -> None:
        self._batches = batches
        self.rows = 0

    async def each(self) -> AsyncGenerator[pa.Table, None]:
        async with aclosing(self._batches) as batches:
            async for batch in batches:
                self.rows += batch.num_rows
                yield batch
