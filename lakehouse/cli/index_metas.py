"""``lakehouse index-metas``: every index of a bucket, as rows."""

from __future__ import annotations

import enum
import io
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, nullcontext
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from lakehouse.cli.arguments import Endpoint, Options, Url, parse_options, split_object, with_store
from lakehouse.cli.output import brief_json, console, error_console, print_table
from lakehouse.errors import FormatError, InvalidInputError
from lakehouse.index import (
    SHAPES,
    GreptimeListing,
    GreptimeManifests,
    IndexMetaScan,
    IndexSource,
    IndexType,
    PrefixSource,
    iterate_index_metas,
)
from lakehouse.index.greptime_layout import GreptimeFile
from lakehouse.io import ObjectStore, open_store

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


class _Source(enum.StrEnum):
    AUTO = "auto"
    PREFIX = "prefix"
    GREPTIME = "greptime"
    MANIFEST = "manifest"


def index_metas(
    url: Url,
    concurrency: Annotated[int, typer.Option(help="Files read at once.", min=1)] = 16,
    shape: Annotated[_Shape, typer.Option(help="Columns of a row.")] = _Shape.COMPACT,
    output_format: Annotated[_Format, typer.Option("--format", help="How rows are written.")] = _Format.TABLE,
    output: Annotated[
        str | None, typer.Option("--output", help="Path or URL to write to; needed for parquet.")
    ] = None,
    source: Annotated[
        _Source,
        typer.Option(help="What lies there: auto looks; manifest goes by GreptimeDB's manifests."),
    ] = _Source.AUTO,
    kind: Annotated[
        list[IndexType] | None, typer.Option("--kind", help="Only this kind of index; may be repeated.")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Say at the end what it cost.")] = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
) -> None:
    """List the metadata of every index in a bucket or prefix: one request per file.

    Exit code 4 says that some files could not be read; standard error names them.
    """
    if output_format is _Format.PARQUET and output is None:
        raise InvalidInputError("--format parquet needs --output: a path or URL to write to")

    async def work(store: ObjectStore) -> IndexMetaScan:
        found = await _source(store, source)
        scan = iterate_index_metas(found, concurrency=concurrency, kinds=kind)
        with _progress(scan, wanted=output_format is not _Format.NDJSON or output is not None) as tick:
            batches = _ticked(scan.batches(SHAPES[shape.value], rows=_BATCH_ROWS), tick)
            await _write(batches, shape, output_format, output)
        return scan

    scan = with_store(url, parse_options(options, endpoint_url), work)
    for problem in scan.problems:
        error_console().print(
            f"{problem.path}: {problem.message}", style="yellow", markup=False, soft_wrap=True
        )
    if stats:
        error_console().print_json(json.dumps(scan.stats.as_dict()))
    if scan.stats.failed_files or scan.stats.broken_blobs:
        raise typer.Exit(4)


async def _source(store: ObjectStore, wanted: _Source) -> IndexSource:
    if wanted is _Source.AUTO:
        wanted = _Source.PREFIX
        async for meta in store.list(limit=1000):
            if meta.key.endswith(".puffin"):
                try:
                    GreptimeFile.parse(meta.key)
                    wanted = _Source.GREPTIME
                except FormatError:
                    pass
                break
    if wanted is _Source.MANIFEST:
        return GreptimeManifests(store, "")
    return GreptimeListing(store, "") if wanted is _Source.GREPTIME else PrefixSource(store)


def _progress(scan: IndexMetaScan, *, wanted: bool) -> Any:
    """A progress line on a terminal; a function that moves it."""
    if not wanted or not error_console().is_terminal:
        return nullcontext(lambda: None)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=error_console(),
        transient=True,
    )
    task = bar.add_task("reading", total=None)

    class _Ticking:
        def __enter__(self) -> Any:
            bar.start()
            return self.tick

        def tick(self) -> None:
            text = f"{scan.stats.files:,} files, {scan.stats.entries.total():,} indexes"
            bar.update(task, description=text)

        def __exit__(self, *_: object) -> None:
            bar.stop()

    return _Ticking()


async def _ticked(batches: AsyncIterator[pa.RecordBatch], tick: Any) -> AsyncIterator[pa.RecordBatch]:
    async for batch in batches:
        tick()
        yield batch


async def _write(
    batches: AsyncIterator[pa.RecordBatch], shape: _Shape, output_format: _Format, output: str | None
) -> None:
    if output_format is _Format.TABLE and output is None:
        await _print_table(batches, shape)
    elif output is None:
        async for batch in batches:
            for row in batch.to_pylist():
                typer.echo(json.dumps(row, ensure_ascii=False))
    else:
        root, key = split_object(output if "/" in output else f"./{output}")
        async with open_store(root) as target, target.writer(key) as writer:
            encoded = _parquet(batches, shape) if output_format is _Format.PARQUET else _lines(batches)
            async with aclosing(encoded):  # type: ignore[type-var]
                async for chunk in encoded:
                    await writer.write(chunk)


async def _lines(batches: AsyncIterator[pa.RecordBatch]) -> AsyncIterator[bytes]:
    async for batch in batches:
        yield b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in batch.to_pylist())


async def _parquet(batches: AsyncIterator[pa.RecordBatch], shape: _Shape) -> AsyncIterator[bytes]:
    import pyarrow.parquet as pq

    sink = _Drain()
    schema = SHAPES[shape.value].schema
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:  # io-ok: into memory, drained below
        async for batch in batches:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Drain(io.RawIOBase):
    """A file that is emptied as it is written, so that output of any size needs little memory."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        """It takes bytes."""
        return True

    def tell(self) -> int:
        """Bytes written so far, taken ones included: Parquet's offsets count from the start."""
        return self._position

    def write(self, data: Any) -> int:
        """Keeps the bytes until they are taken."""
        chunk = bytes(data)
        self._chunks.append(chunk)
        self._position += len(chunk)
        return len(chunk)

    def take(self) -> bytes:
        """What was written since the last time."""
        taken = b"".join(self._chunks)
        self._chunks.clear()
        return taken


async def _print_table(batches: AsyncIterator[pa.RecordBatch], shape: _Shape) -> None:
    rows: list[dict[str, Any]] = []
    more = 0
    async for batch in batches:
        room = _TABLE_ROWS_MAX - len(rows)
        rows += batch.slice(0, room).to_pylist()
        more += max(0, batch.num_rows - room)
    if shape is _Shape.FLAT:
        columns = [name for name in SHAPES["flat"].schema.names if any(row[name] is not None for row in rows)]
    else:
        columns = ["file_id", "index_type", "target_key", "blob_size", "meta_json"]
    for row in rows:
        if "meta_json" in row:
            row["meta_json"] = brief_json(row["meta_json"])
    print_table(columns, [["" if row[name] is None else row[name] for name in columns] for row in rows])
    if more:
        console().print(f"… and {more:,} more rows; --format ndjson or parquet has all of them")
