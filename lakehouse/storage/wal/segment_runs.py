"""WAL segments as runs: the rows of each merge unit, folded and in key order, in memory.

A segment holds rows as they were put. For reads it is divided by merge unit, and every part is described by
an entry like that of a data file, so that plans, scans and lookups need not know where rows come from.
Small neighbours share a run: each run has a cost, and a busy log has a thousand segments.

Invariant: no other run lies between segments that share a run, as one snapshot covered them and
none of them is missing. An entry made here has the format ``wal`` and a known position, is listed in no
manifest and no snapshot, and is opened by nobody but :class:`SegmentRuns`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.cache import CacheRegion
from lakehouse.config import TableSettings
from lakehouse.format.keys import RowKeyCodec, stats_of
from lakehouse.format.metadata import KIND_COLUMN, FileEntry, FileFormat, SegmentRange, WalSegment
from lakehouse.format.schema import Field, TableSchema, project
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.merge.engines import folded_input
from lakehouse.storage.merge.ordering import kind_counts, kinds_of, with_kinds
from lakehouse.storage.metadata.paths import segment_path
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.partitioner import joined, partition_rows
from lakehouse.storage.wal.log import Wal

__all__ = ["MemoryRun", "SegmentRuns", "segment_rows"]

_TOGETHER = (64, 8, 1)
"""Sizes of the groups of segments that share a run: numbers with the same quotient by a size are a group.

The newest are in small groups, so that one more segment makes few of the known ones be read again.
"""
_SMALL_BYTES = 64 * 1024
"""Average bytes of a segment above which each segment is a run of its own."""
_ENTRY_BYTES = 1_200
"""Estimated bytes of an entry in memory."""


def segment_rows(segments: Iterable[WalSegment], schema: TableSchema) -> pa.Table:
    """Returns the rows of segments in the order they were put, as a schema has them, with kinds if any."""
    tables = [batch.rows for segment in segments for batch in segment.batches]
    has_kinds = any(KIND_COLUMN in table.column_names for table in tables)
    # Rows that delete have a key and nothing else, whatever the schema requires.
    arrow = pa.schema([field.with_nullable(True) for field in schema.arrow()])
    projected = []
    for table in tables:
        rows = project(table, schema.fields).cast(arrow)
        if has_kinds:
            rows = with_kinds(rows, kinds_of([table]))
        projected.append(rows)
    return joined(projected) if projected else arrow.empty_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The rows of one merge unit in a segment, and their entry without positions."""

    entry: FileEntry
    rows: pa.Table


class _Runs:
    """Runs of one segment or group, decoded."""

    __slots__ = ("runs", "weight")

    def __init__(self, runs: Sequence[_Run]) -> None:
        self.runs = tuple(runs)
        self.weight = sum(run.rows.nbytes + _ENTRY_BYTES for run in runs)


class SegmentRuns:
    """Reads of one table's segments as runs.

    Args:
        wal: the table's log.
        root: the table's directory.
        cache: decoded rows by (root, path, …).
        settings: bound on concurrency; None = the default.
    """

    def __init__(
        self,
        wal: Wal,
        root: str,
        cache: CacheRegion,  # type: ignore[type-arg]
        settings: TableSettings | None = None,
    ) -> None:
        self._wal, self._root, self._cache = wal, root, cache
        self._concurrency = (settings or TableSettings()).read_concurrency
        self.held: Mapping[int, WalSegment] = {}
        """Segments in memory by their numbers, which are not read."""

    async def entries(
        self, ranges: Iterable[SegmentRange], schema: TableSchema, *, together: bool = False
    ) -> list[FileEntry]:
        """Returns the runs of segments, oldest first, as entries for reads with a schema.

        Args:
            ranges: covered segments, with the snapshot that covers them.
            schema: the schema that the runs are read with.
            together: whether small segments share runs. To compare the runs of two states by their paths,
                each must be by itself.
        """

        async def read(place: tuple[int, int, int | None]) -> list[FileEntry]:
            first, last, at = place
            assert at is not None
            made = await self._runs(first, last, schema, at)
            # Kind 0: segments stand below the rows of the commit that covers them.
            lo, hi = (at, 0, first), (at, 0, last)
            return [dataclasses.replace(run.entry, at=at, lo=lo, hi=hi) for run in made.runs]

        sizes = _TOGETHER if together else (1,)
        places = [place for segments in ranges for place in _groups(segments, sizes)]
        return [entry async for entries in map_bounded(read, places, self._concurrency) for entry in entries]

    async def open(self, entry: FileEntry, schema: TableSchema) -> MemoryRun:
        """Returns a reader of one of these runs."""
        place = entry.path.rpartition("#")[2]
        assert entry.lo is not None
        assert entry.hi is not None
        made = await self._runs(entry.lo[2], entry.hi[2], schema, entry.hi[0])
        return MemoryRun(entry, made.runs[int(place)].rows, schema)

    async def _runs(self, first: int, last: int, schema: TableSchema, snapshot: int) -> _Runs:
        async def load(_: object) -> _Runs:
            async def read(number: int) -> WalSegment:
                return self.held.get(number) or await self._wal.read(number, snapshot=snapshot)

            reads = map_bounded(read, range(first, last + 1), self._concurrency)
            segments = [segment async for segment in reads]
            return await in_thread(_cut, segments, schema)

        # Rows are cast to a schema and divided by its buckets, so both belong to the key.
        made: _Runs | None = await self._cache.get(
            (self._root, segment_path(first), last, schema.id, schema.buckets), load
        )
        assert made is not None
        return made


def _groups(segments: SegmentRange, sizes: Sequence[int]) -> Iterator[tuple[int, int, int | None]]:
    """Yields first and last number of each group, and ``at``; sizes are from large to 1.

    A group stays as it is when the range grows.
    """
    first, last = segments.first, segments.last
    if segments.size > _SMALL_BYTES * (last - first + 1):
        sizes = (1,)
    while first <= last:
        # Groups begin at multiples of their size, so that what is cached of them serves as the log grows.
        ends = (first - first % size + size - 1 for size in sizes)
        end = next(end for end in ends if end <= last)
        yield first, end, segments.at
        first = end + 1


def _cut(segments: Sequence[WalSegment], schema: TableSchema) -> _Runs:
    rows = folded_input(segment_rows(segments, schema), schema)
    if not rows.num_rows:
        return _Runs(())
    keyed = bool(schema.primary_key)
    parts = partition_rows(
        rows,
        schema,
        partition_fields=schema.partition_fields if not keyed or schema.key_holds_partition else (),
    )
    codec = RowKeyCodec(schema.key_fields) if keyed else None
    # No object has this path: it identifies the run in caches, plans and reports.
    path = segment_path(segments[0].header.number) + (f"+{len(segments) - 1}" if len(segments) > 1 else "")
    runs = []
    for place, part in enumerate(parts):
        table = part.rows()
        deletes, updates = kind_counts(table)
        low, high = (None, None) if codec is None else part.key_range(codec, schema.primary_key)
        runs.append(
            _Run(
                entry=FileEntry(
                    path=f"{path}#{place}",
                    partition=part.partition,
                    bucket=part.bucket,
                    total_buckets=schema.buckets,
                    format=FileFormat.WAL,
                    size=table.nbytes,
                    rows=table.num_rows,
                    deletes=deletes,
                    updates=updates,
                    min_key=low,
                    max_key=high,
                    stats=stats_of(table, schema.fields),
                    schema_id=schema.id,
                ),
                rows=table,
            )
        )
    return _Runs(runs)


class MemoryRun:
    """A run of rows in memory, sorted by key."""

    def __init__(self, entry: FileEntry, rows: pa.Table, schema: TableSchema) -> None:
        self._entry, self._rows = entry, rows
        self._keys = KeyColumns(schema.key_fields) if schema.primary_key else None
        self.pieces: Sequence[Piece] = (
            Piece(
                rows=rows.num_rows,
                first_row=0,
                size=rows.nbytes,
                min_key=entry.min_key,
                max_key=entry.max_key,
                stats=entry.stats,
            ),
        )

    @property
    def entry(self) -> FileEntry:
        """The entry that it was opened with."""
        return self._entry

    async def read(
        self,
        fields: Sequence[Field],
        pieces: Sequence[int] | None = None,
        *,
        kinds: bool = False,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Returns these columns, with ``_VALUE_KIND`` last when asked for."""
        part = self._rows if pieces is None or len(pieces) else self._rows.slice(0, 0)
        return self._columns(part if rows is None else part.take(pa.array(rows)), fields, kinds)

    async def load(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> MemoryRun:
        """Returns the run itself: there is nothing to fetch."""
        return self

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """Returns the row of that row key, with its ``_VALUE_KIND``, as a table of one row, or of none."""
        assert self._keys is not None
        begin = self._keys.rows_below(self._rows, key)
        end = self._keys.rows_below(self._rows, key, included=True)
        return self._columns(self._rows.slice(begin, end - begin), fields, True)

    def _columns(self, rows: pa.Table, fields: Sequence[Field], kinds: bool) -> pa.Table:
        columns = project(rows, fields)
        return with_kinds(columns, kinds_of([rows])) if kinds else columns
