"""``lakehouse index-metas``: every index of a bucket, as rows."""

from __future__ import annotations

import enum
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

import pyarrow as pa
import typer
from rich.progress import ProgressColumn, SpinnerColumn, Task
from rich.text import Text

from lakehouse.cli.arguments import split_file
from lakehouse.cli.frame import Outcome, on_store
from lakehouse.cli.output import brief_json, complain, console, error_console, print_table
from lakehouse.cli.progress import moving_line
from lakehouse.cli.row_stream import json_lines, parquet_bytes
from lakehouse.errors import InvalidInputError
from lakehouse.index import (
    FLAT,
    SHAPES,
    GreptimeListing,
    GreptimeManifests,
    IndexMetaScan,
    IndexSource,
    IndexType,
    PrefixSource,
    RowShape,
    ScanStats,
    iterate_index_metas,
)
from lakehouse.io import ObjectStore, open_store
from lakehouse.lake import Lake
from lakehouse.storage.indexes import SourceKind, source_kind

__all__ = ["index_metas"]

_TABLE_ROWS_MAX = 1000
_BATCH_ROWS = 1024


class _Shape(enum.StrEnum):
    COMPACT = "compact"
    GREPTIME = "greptime"
    FLAT = "flat"


class _Format(enum.StrEnum):
    TABLE = "table"
    NDJSON = "ndjson"
    PARQUET = "parquet"


@on_store(json=False)
async def index_metas(
    store: ObjectStore,
    concurrency: Annotated[int, typer.Option(help="Files read at once.", min=1)] = 16,
    shape: Annotated[_Shape, typer.Option(help="Columns of a row.")] = _Shape.COMPACT,
    output_format: Annotated[_Format, typer.Option("--format", help="How rows are written.")] = _Format.TABLE,
    output: Annotated[
        str | None, typer.Option("--output", help="Path or URL to write to; needed for parquet.")
    ] = None,
    source: Annotated[
        SourceKind,
        typer.Option(
            help="What lies there: auto looks; tables are those of a warehouse, by their newest "
            "snapshots; manifest goes by GreptimeDB's manifests."
        ),
    ] = SourceKind.AUTO,
    table: Annotated[
        str | None,
        typer.Option(help="Of a warehouse, only this database, or this database.table.", metavar="NAME"),
    ] = None,
    kind: Annotated[
        list[IndexType] | None, typer.Option("--kind", help="Only this kind of index; may be repeated.")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Say at the end what it cost.")] = False,
    *,
    url: str,
    storage_options: dict[str, Any],
) -> Outcome:
    """List the metadata of every index in a bucket or prefix: one request per file.

    Exit code 4 says that some files could not be read; standard error names them.
    """
    _check(output_format, output, source, table)
    rows_shape = SHAPES[shape.value]
    wanted = await source_kind(store) if source is SourceKind.AUTO and table is None else source
    files = None if table is not None or wanted is SourceKind.TABLES else _source(store, wanted)
    if files is None:
        scan = Lake(store).index_metas(table, concurrency=concurrency, kinds=kind)
    else:
        scan = iterate_index_metas(files, concurrency=concurrency, kinds=kind)
    lines_on_terminal = output_format is _Format.NDJSON and output is None and console().is_terminal
    # Rows and a line that moves would tear each other: a table is printed when the line is gone.
    shown: _Table | None = None
    with nullcontext() if lines_on_terminal else moving_line(SpinnerColumn(), _Counts(scan.stats)):
        async with aclosing(scan.batches(rows_shape, rows=_BATCH_ROWS)) as batches:
            if output is not None:
                same_place = urlsplit(output).scheme == urlsplit(url).scheme
                as_parquet = output_format is _Format.PARQUET
                encoded = parquet_bytes(batches, rows_shape.schema) if as_parquet else json_lines(batches)
                await _save(encoded, output, storage_options if same_place else {})
            elif output_format is _Format.NDJSON:
                async for chunk in json_lines(batches):
                    typer.echo(chunk, nl=False)
            else:
                shown = await _collected(batches)
    if shown is not None:
        _print(shown, rows_shape)
    if isinstance(files, GreptimeManifests) and files.unreferenced:
        count, first = files.unreferenced_count, files.unreferenced[0]
        complain(f"{count:,} index files are named by no manifest, the first of them is {first}")

    def tell() -> None:
        _complain_of(scan)
        if stats:
            error_console().print_json(json.dumps(scan.stats.as_dict()))

    return Outcome(tell, code=4 if scan.stats.failed_files or scan.stats.broken_blobs else 0)


def _check(output_format: _Format, output: str | None, source: SourceKind, table: str | None) -> None:
    """Refuses options that do not go together."""
    if output_format is _Format.PARQUET and output is None:
        raise InvalidInputError("--format parquet needs --output: a path or URL to write to")
    if output_format is _Format.TABLE and output is not None:
        raise InvalidInputError("--format table is for the screen: take ndjson or parquet with --output")
    if table is not None and source not in (SourceKind.AUTO, SourceKind.TABLES):
        raise InvalidInputError(
            f"--table names a table of a warehouse, which --source {source} does not read"
        )


def _complain_of(scan: IndexMetaScan) -> None:
    """Names what could not be read."""
    for problem in scan.problems:
        about = "" if problem.path in problem.message else f"{problem.path}: "
        complain(f"{about}{problem.message}")


def _source(store: ObjectStore, wanted: SourceKind) -> IndexSource:
    if wanted is SourceKind.MANIFEST:
        return GreptimeManifests(store, "")
    return GreptimeListing(store, "") if wanted is SourceKind.GREPTIME else PrefixSource(store)


class _Counts(ProgressColumn):
    """Counts of what was read so far, looked up whenever the line is drawn."""

    def __init__(self, stats: ScanStats) -> None:
        super().__init__()
        self._stats = stats

    def render(self, task: Task) -> Text:
        """Returns the counts as text."""
        stats = self._stats
        return Text(f"{stats.files:,} files, {stats.entries.total():,} indexes, {stats.failed_files:,} bad")


async def _save(encoded: AsyncGenerator[bytes, None], output: str, options: dict[str, Any]) -> None:
    """Writes bytes to a path or URL as they come."""
    root, key = split_file(output)
    async with (
        aclosing(encoded),
        open_store(root, storage_options=options) as target,
        target.writer(key) as writer,
    ):
        async for chunk in encoded:
            await writer.write(chunk)


@dataclass(slots=True)
class _Table:
    """Rows to print, and how many more there are."""

    rows: list[dict[str, Any]]
    more: int = 0


async def _collected(batches: AsyncIterator[pa.RecordBatch]) -> _Table:
    table = _Table([])
    async for batch in batches:
        room = _TABLE_ROWS_MAX - len(table.rows)
        table.rows += batch.slice(0, room).to_pylist()
        table.more += max(0, batch.num_rows - room)
    return table


def _print(table: _Table, shape: RowShape) -> None:
    rows = table.rows
    if shape is FLAT:
        columns = [name for name in shape.schema.names if any(row[name] is not None for row in rows)]
    else:
        columns = ["file_id", "index_type", "target_key", "blob_size", "meta_json"]
    for row in rows:
        if "meta_json" in row:
            row["meta_json"] = brief_json(row["meta_json"])
    print_table(
        columns,
        [[row[name] for name in columns] for row in rows],
        right=[name for name in columns if pa.types.is_integer(shape.schema.field(name).type)],
        whole=("file_id", "index_type"),
        rest="--format ndjson",
    )
    if table.more:
        complain(f"… and {table.more:,} more rows; --format ndjson or parquet has all of them")
