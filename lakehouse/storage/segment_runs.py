"""WAL segments as runs: the rows of each merge unit, folded and in key order, in memory.

A segment holds rows as they were put. For reads it is cut by merge unit, and every part is described by
an entry like that of a data file, so that plans, scans and lookups need not know where rows come from.

Invariant: an entry made here has the format ``wal`` and a known position, stands in no manifest and no
snapshot, and is opened by nobody but :class:`SegmentRuns`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.cache import CacheRegion
from lakehouse.format.column_stats import stats_of
from lakehouse.format.file_entry import KIND_COLUMN, FileEntry, FileFormat, RowKind
from lakehouse.format.projection import project
from lakehouse.format.row_key import RowKeyCodec
from lakehouse.format.snapshot import SegmentRange
from lakehouse.format.table_schema import TableSchema
from lakehouse.format.types import Field
from lakehouse.format.wal_segment import WalSegment
from lakehouse.io.fanout import map_bounded
from lakehouse.io.threads import in_thread
from lakehouse.storage.cut import cut_rows, joined
from lakehouse.storage.key_arrays import KeyColumns
from lakehouse.storage.merge import kinds_of
from lakehouse.storage.merge_engines import folded_input
from lakehouse.storage.runs import Piece
from lakehouse.storage.wal import Wal, segment_path

__all__ = ["MemoryRun", "SegmentRuns", "segment_rows"]

_READS = 16
"""Segments that are read at once."""
_ENTRY_BYTES = 1_200


def segment_rows(segments: Iterable[WalSegment], schema: TableSchema) -> pa.Table:
    """The rows of segments in the order they were put, as a schema has them, kinds where there are any."""
    tables = [batch.rows for segment in segments for batch in segment.batches]
    has_kinds = any(KIND_COLUMN in table.column_names for table in tables)
    arrow = pa.schema([field.with_nullable(True) for field in schema.arrow()])
    found = []
    for table in tables:
        rows = project(table, schema.fields).cast(arrow)
        if has_kinds:
            kinds = kinds_of([table])
            filled = np.zeros(table.num_rows, np.int8) if kinds is None else kinds.astype(np.int8)
            rows = rows.append_column(pa.field(KIND_COLUMN, pa.int8(), nullable=False), pa.array(filled))
        found.append(rows)
    return joined(found) if found else arrow.empty_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The rows of one merge unit in a segment, and their entry without positions."""

    entry: FileEntry
    rows: pa.Table


class _Runs:
    """What a segment holds."""

    __slots__ = ("runs", "weight")

    def __init__(self, runs: Sequence[_Run]) -> None:
        self.runs = tuple(runs)
        self.weight = sum(one.rows.nbytes + _ENTRY_BYTES for one in runs)


class SegmentRuns:
    """Reads the segments of one table as runs.

    Args:
        wal: the table's log.
        root: its directory.
        cache: decoded rows by (root, path, …).
    """

    def __init__(self, wal: Wal, root: str, cache: CacheRegion) -> None:  # type: ignore[type-arg]
        self._wal, self._root, self._cache = wal, root, cache

    async def entries(self, ranges: Iterable[SegmentRange], schema: TableSchema) -> list[FileEntry]:
        """The runs of segments, oldest first, as entries for reads with a schema; ranges say ``at``."""
        places = [(number, one.at) for one in ranges for number in range(one.first, one.last + 1)]

        async def read(place: tuple[int, int | None]) -> list[FileEntry]:
            number, at = place
            assert at is not None
            found = await self._runs(number, schema, at)
            position = (at, 0, number)
            return [dataclasses.replace(one.entry, at=at, lo=position, hi=position) for one in found.runs]

        return [entry async for entries in map_bounded(read, places, _READS) for entry in entries]

    async def open(self, entry: FileEntry, schema: TableSchema) -> MemoryRun:
        """A reader of one of these runs."""
        path, _, place = entry.path.partition("#")
        assert entry.hi is not None
        found = await self._runs(entry.hi[2], schema, entry.hi[0])
        assert path == segment_path(entry.hi[2])
        return MemoryRun(entry, found.runs[int(place)].rows, schema)

    async def _runs(self, number: int, schema: TableSchema, snapshot: int) -> _Runs:
        async def load(_: object) -> _Runs:
            segment = await self._wal.read(number, snapshot=snapshot)
            return await in_thread(_cut, segment, schema)

        found: _Runs | None = await self._cache.get(
            (self._root, segment_path(number), schema.id, schema.buckets), load
        )
        assert found is not None
        return found

    def remember(self, segment: WalSegment, schema: TableSchema) -> None:
        """Keeps the runs of a segment that was just written; computes, for a thread."""
        number = segment.header.number
        self._cache.put((self._root, segment_path(number), schema.id, schema.buckets), _cut(segment, schema))


def _cut(segment: WalSegment, schema: TableSchema) -> _Runs:
    rows = folded_input(segment_rows([segment], schema), schema)
    if not rows.num_rows:
        return _Runs(())
    keyed = bool(schema.primary_key)
    parts = cut_rows(
        rows,
        schema,
        partition_fields=schema.partition_fields if not keyed or schema.key_holds_partition else (),
    )
    codec = RowKeyCodec(schema.key_fields) if keyed else None
    runs = []
    for place, part in enumerate(parts):
        table = part.rows()
        kinds = kinds_of([table])
        counts = np.bincount(kinds, minlength=len(RowKind)) if kinds is not None else np.zeros(3, int)
        low, high = (None, None) if codec is None else part.key_range(codec, schema.primary_key)
        runs.append(
            _Run(
                entry=FileEntry(
                    path=f"{segment_path(segment.header.number)}#{place}",
                    partition=part.partition,
                    bucket=part.bucket,
                    total_buckets=schema.buckets,
                    format=FileFormat.WAL,
                    size=table.nbytes,
                    rows=table.num_rows,
                    deletes=int(counts[RowKind.DELETE]),
                    updates=int(counts[RowKind.UPDATE]),
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
    """Rows in memory, sorted by key, as a run."""

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
        """What it was opened as."""
        return self._entry

    async def read(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> pa.Table:
        """These columns, and ``_VALUE_KIND`` last when asked for."""
        rows = self._rows if pieces is None or len(pieces) else self._rows.slice(0, 0)
        return self._columns(rows, fields, kinds)

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """The row of that row key with its ``_VALUE_KIND``, as a table of one row, or of none."""
        assert self._keys is not None
        begin = self._keys.rows_below(self._rows, key)
        end = self._keys.rows_below(self._rows, key, included=True)
        return self._columns(self._rows.slice(begin, end - begin), fields, True)

    def _columns(self, rows: pa.Table, fields: Sequence[Field], kinds: bool) -> pa.Table:
        found = project(rows, fields)
        if not kinds:
            return found
        if KIND_COLUMN in rows.column_names:
            column = rows.column(KIND_COLUMN)
        else:
            column = pa.chunked_array([np.zeros(rows.num_rows, np.int8)], pa.int8())
        return found.append_column(pa.field(KIND_COLUMN, pa.int8(), nullable=False), column)
