"""The metadata of every index, enumerated by executors: the driver lists files, tasks read their tails.

The driver names the index files: those of the newest snapshots of tables, from manifests, or those of a
prefix, from a listing. A task gets some hundred of them and reads many at once, with one ranged request
for a file. Rows are those of ``lake.index_metas``; Spark has no unsigned numbers, so what may need 64 bits
(``region_id``, ``target_expr_hash``) is a decimal of 20 digits, and others are signed.

Invariant: every file is read by one task, and none by the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakehouse.cache import CacheBudget
from lakehouse.clock import SystemClock
from lakehouse.errors import InvalidInputError, LakehouseError
from lakehouse.index import (
    SHAPES,
    FileProblem,
    GreptimeListing,
    GreptimeManifests,
    IndexFile,
    IndexMetaScan,
    IndexSource,
    IndexType,
    PrefixSource,
    ScanStats,
    iterate_index_metas,
)
from lakehouse.io import Cost, ObjectStore, measure
from lakehouse.spark.runtime.arguments import with_arguments_of
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.spark.runtime.errors import carried, plain_errors
from lakehouse.spark.runtime.session_connection import connection_of
from lakehouse.spark.runtime.tasks import cores_of, run_tasks
from lakehouse.spark.runtime.types import struct_of_arrow
from lakehouse.storage.metadata import TableCaches, TableName
from lakehouse.storage.tables import Environment, Names, TableIndexSource

__all__ = ["IndexMetas", "collect_index_metas", "index_metas"]

_FILES_PER_CHUNK = 500
"""Files that a task reads in one go; their rows are in memory together."""
_TASKS = 200
"""Tasks that files are divided among where Spark does not say how many run at once."""
_WIDE = ("region_id", "target_expr_hash")
"""Columns of unsigned 64-bit numbers, which no integer of Spark can hold."""
_Layout = Literal["prefix", "greptime", "manifest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMetas:
    """Rows of an enumeration, what it cost, and the problems it met."""

    rows: pa.Table
    stats: ScanStats
    """Totals of all tasks; ``seconds`` are theirs added up, and the cost includes the driver's listing."""
    problems: tuple[FileProblem, ...]
    """Problems, one for each file that could not be read in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A request, as it travels to tasks."""

    connection: Connection
    shape: str
    kinds: tuple[str, ...] | None
    errors: Literal["collect", "raise"]
    concurrency: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """Files that the driver listed for tasks, and what that cost."""

    spark: SparkSession
    wanted: _Wanted
    chunks: list[bytes]
    """Files of one task each."""
    stats: ScanStats
    problems: tuple[FileProblem, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return _signed(SHAPES[self.wanted.shape].schema)


def _listed(
    spark: SparkSession,
    name: str | None = None,
    *,
    kinds: Collection[IndexType | str] | None = None,
    prefix: str | None = None,
    layout: _Layout = "prefix",
    shape: Literal["compact", "flat", "greptime"] = "compact",
    errors: Literal["collect", "raise"] = "collect",
    concurrency: int | None = None,
    connection: Connection | None = None,
) -> _Listing:
    """Lists the files and divides them into chunks for tasks."""
    if shape not in SHAPES:
        raise InvalidInputError(f"shape is one of {', '.join(SHAPES)}, not {shape!r}")
    if name is not None and prefix is not None:
        raise InvalidInputError("give the name of tables or a prefix, not both")
    chosen = connection_of(spark, connection)
    lake = warehouse(chosen)
    wanted = _Wanted(
        connection=chosen,
        shape=shape,
        kinds=None if kinds is None else tuple(map(str, kinds)),
        errors=errors,
        concurrency=concurrency,
    )
    source = _tables(lake, name) if prefix is None else _files_below(lake, prefix, layout)
    # Refuses what is mistaken before anything is listed.
    _scan(wanted, source, lake)

    async def gather() -> tuple[list[IndexFile], list[FileProblem], Cost]:
        files: list[IndexFile] = []
        problems: list[FileProblem] = []
        with measure() as cost:
            async for item in source.files():
                if isinstance(item, IndexFile):
                    files.append(item)
                elif errors == "raise":
                    raise item.error or LakehouseError(item.message, kind=item.kind, key=item.path)
                else:
                    problems.append(replace(item, error=None))
        return files, problems, cost

    files, problems, cost = lake.call(gather)
    tasks = max(1, min(len(files), cores_of(spark) or _TASKS))
    step = min(_FILES_PER_CHUNK, -(-len(files) // tasks)) or 1
    chunks = [pickle.dumps(files[at : at + step]) for at in range(0, len(files), step)]
    stats = ScanStats(failed_files=len(problems), cost=cost)
    return _Listing(spark=spark, wanted=wanted, chunks=chunks, stats=stats, problems=tuple(problems))


@with_arguments_of(_listed)
def index_metas(listing: _Listing) -> DataFrame:
    """The metadata of every index as a data frame, one row per file, index and target.

    Files are listed when this is called, and read when the data frame is used.

    Args:
        spark: the session.
        name: only of this ``database`` or this ``database.table``; None = all tables.
        kinds: only indexes of these kinds.
        prefix: instead of tables, files whose keys begin so, below the URL of the connection.
        layout: what lies under the prefix: ``prefix`` any puffin files; ``greptime`` regions of GreptimeDB,
            as a listing finds them; ``manifest`` the same, as their manifests say.
        shape: columns of the rows.
        errors: ``raise`` ends with the first file that cannot be read; ``collect`` goes on, and says so in
            the log. :func:`collect_index_metas` returns such problems.
        concurrency: files that a task reads at once; ``index.concurrency`` when not given.
        connection: the warehouse; None = the one that was registered.

    Example::

        index_metas(spark, "sales", kinds=["inverted"]).groupBy("table_dir").count().show()
    """
    spark, wanted, chunks = listing.spark, listing.wanted, listing.chunks
    struct = struct_of_arrow(listing.schema)
    if not chunks:
        return spark.createDataFrame([], struct)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            for batch in batches:
                for chunk in batch.column(0).to_pylist():
                    rows, _, _ = _read(wanted, chunk)
                    yield from rows.to_batches()

    files = spark.createDataFrame(pa.table({"files": pa.array(chunks, pa.binary())}), "files binary")
    return files.repartition(len(chunks)).mapInArrow(read, struct)


@with_arguments_of(_listed)
def collect_index_metas(listing: _Listing) -> IndexMetas:
    """The rows of :func:`index_metas`, with requests counted and problems named; the same arguments."""
    tables = [listing.schema.empty_table()]
    problems = list(listing.problems)
    stats = listing.stats
    with plain_errors():
        for done in run_tasks(listing.spark, partial(_read, listing.wanted), listing.chunks):
            rows, more, bad = done.value
            tables.append(rows)
            problems += bad
            stats = _added(stats, more)
    return IndexMetas(rows=pa.concat_tables(tables), stats=stats, problems=tuple(problems))


def _tables(lake: Warehouse, name: str | None) -> IndexSource:
    store = lake.lake.store
    database, dot, _ = (name or "").partition(".")
    table = TableName.parse(name).table if name is not None and dot else None
    # With caches of its own: manifests are read once.
    caches = TableCaches(CacheBudget.of(lake.lake.settings))
    env = Environment(store, lake.lake.settings, SystemClock(), caches)
    return TableIndexSource(env, Names(store, env.settings.table), database=database or None, table=table)


def _files_below(lake: Warehouse, prefix: str, layout: str) -> IndexSource:
    store = lake.lake.store
    if layout == "prefix":
        return PrefixSource(store, prefix)
    if layout == "greptime":
        return GreptimeListing(store, prefix)
    if layout == "manifest":
        return GreptimeManifests(store, prefix)
    raise InvalidInputError(f"layout is prefix, greptime or manifest, not {layout!r}")


class _Chunk:
    """Files that the driver listed, as a source."""

    def __init__(self, store: ObjectStore, files: Sequence[IndexFile]) -> None:
        self.store = store
        self._files = files

    async def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """Yields the files, in the order of the list."""
        for file in self._files:
            yield file


def _scan(wanted: _Wanted, source: IndexSource, lake: Warehouse) -> IndexMetaScan:
    return iterate_index_metas(
        source,
        concurrency=wanted.concurrency,
        kinds=wanted.kinds,
        errors=wanted.errors,
        order="listing",
        settings=lake.lake.settings.index,
    )


def _read(wanted: _Wanted, chunk: bytes) -> tuple[pa.Table, ScanStats, list[FileProblem]]:
    """Reads the metadata of a chunk of files; runs in an executor."""
    files: list[IndexFile] = pickle.loads(chunk)  # noqa: S301 - written by the driver
    lake = warehouse(wanted.connection)
    scan = _scan(wanted, _Chunk(lake.lake.store, files), lake)
    rows = lake.call(scan.to_arrow, SHAPES[wanted.shape])
    return rows.cast(_signed(rows.schema)), scan.stats, scan.problems


def _added(left: ScanStats, right: ScanStats) -> ScanStats:
    return ScanStats(
        files=left.files + right.files,
        entries=left.entries + right.entries,
        cache_hits=left.cache_hits + right.cache_hits,
        failed_files=left.failed_files + right.failed_files,
        broken_blobs=left.broken_blobs + right.broken_blobs,
        hidden_files=left.hidden_files + right.hidden_files,
        seconds=left.seconds + right.seconds,
        cost=left.cost + right.cost,
    )


def _signed(schema: pa.Schema) -> pa.Schema:
    """Returns the columns with types that Spark has: it knows no unsigned numbers."""
    return pa.schema([pa.field(field.name, _signed_type(field), nullable=field.nullable) for field in schema])


def _signed_type(field: pa.Field) -> pa.DataType:
    if field.name in _WIDE:
        return pa.decimal128(20, 0)
    if pa.types.is_list(field.type):
        return pa.list_(pa.field("element", _signed_type(field.type.value_field)))
    return pa.int64() if pa.types.is_unsigned_integer(field.type) else field.type
