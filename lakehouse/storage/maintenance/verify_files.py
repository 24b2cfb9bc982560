"""Check of one data file: reads it from its first byte to its last and compares it with its entry.

Invariant: a file without a problem here holds the rows that its entry describes: as many, of these
kinds, in the order of their keys, in this partition and bucket, within these bounds. Memory holds a piece.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.cache import CacheBudget
from lakehouse.config import CacheSettings, IndexSettings
from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.keys import NAN_BYTES, buckets_of, encode_values, stats_of
from lakehouse.format.metadata import KIND_COLUMN, ColumnStats, FileEntry, RowKind
from lakehouse.format.schema import Primitive, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread
from lakehouse.kernels.arrays import U8
from lakehouse.storage.files.open import open_run
from lakehouse.storage.indexes.reader import open_index
from lakehouse.storage.maintenance.verify_report import Problem
from lakehouse.storage.merge.ordering import kinds_of
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.storage.metadata.paths import join
from lakehouse.storage.rows.key_arrays import KeyColumns

__all__ = ["FileCheck", "FileChecker", "FileFindings", "fresh_caches"]

_STEP_BYTES = 8 * 1024 * 1024
"""Bytes of a read when a whole file's checksum is computed."""
_WHOLE_BYTES = 256 * 1024
"""Size up to which opening a file reads it whole, and so compares its checksum."""
_ALL_TEXT = 1 << 30
"""Length up to which bounds of text are kept in full, to be compared with the entry's."""
_FLOATS = (Primitive("float"), Primitive("double"))

FileFindings = tuple[str, Problem, str]
"""Path, problem and detail."""
FileChecker = Callable[[FileEntry, TableSchema], Awaitable[list[FileFindings]]]
"""Returns the problems of a data file and of its index."""


def fresh_caches(max_bytes: int = 64 * 1024 * 1024) -> RunCaches:
    """Returns empty caches, so that everything they hand out was read since."""
    return RunCaches(CacheBudget(CacheSettings(max_bytes=max_bytes)))


class FileCheck:
    """Reads data files of one table in full, and compares them with their entries.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        settings: bounds for index files.
    """

    def __init__(self, store: ObjectStore, root: str, settings: IndexSettings) -> None:
        self._store, self._root, self._settings = store, root, settings

    async def file(self, entry: FileEntry, schema: TableSchema) -> list[FileFindings]:
        """Returns the problems of a data file and of its index."""
        problems: list[FileFindings] = []
        try:
            if entry.size > _WHOLE_BYTES and entry.checksum is not None:
                await self._check_bytes(entry.path, entry.size, entry.checksum)
            problems += await self._rows(entry, schema)
        except NotFoundError:
            problems.append((entry.path, Problem.MISSING, "there is no such object"))
        except FormatError as error:
            problems.append((entry.path, Problem.UNREADABLE, error.message))
        return problems + await self._index(entry)

    async def _check_bytes(self, path: str, size: int, checksum: int) -> None:
        key, crc = join(self._root, path), 0
        for begin in range(0, size, _STEP_BYTES):
            part = await self._store.get_range(key, begin, min(size, begin + _STEP_BYTES))
            crc = google_crc32c.extend(crc, part.data)
        if crc != checksum:
            raise FormatError(f"its CRC32C is {crc:08x}, the snapshot says {checksum:08x}", key=key)

    async def _rows(self, entry: FileEntry, schema: TableSchema) -> list[FileFindings]:
        reader = await open_run(self._store, self._root, entry, schema, fresh_caches())
        check = _RowCheck(entry, schema)
        for number in range(len(reader.pieces)):
            table = await reader.read(schema.fields, [number], kinds=True)
            await in_thread(check.add, table)
        return check.found()

    async def _index(self, entry: FileEntry) -> list[FileFindings]:
        if entry.index is None:
            return []
        try:
            index = await open_index(self._store, self._root, entry.index, fresh_caches(), self._settings)
            await index.footer()
            for begin in range(0, index.footer_start, _STEP_BYTES):
                await index.ranges([(begin, min(index.footer_start, begin + _STEP_BYTES))])
        except NotFoundError:
            return [(entry.index.path, Problem.MISSING, "there is no such object")]
        except FormatError as error:
            return [(entry.index.path, Problem.UNREADABLE, error.message)]
        return []


class _RowCheck:
    """Check of the rows of one file, piece by piece."""

    def __init__(self, entry: FileEntry, schema: TableSchema) -> None:
        self._entry, self._schema = entry, schema
        self._keys = KeyColumns(schema.key_fields) if schema.primary_key else None
        self._kinds = np.zeros(len(RowKind), np.int64)
        self._ends: list[bytes] = []
        self._wrong: dict[Problem, str] = {}
        self._stats: dict[int, ColumnStats] = {}

    def add(self, table: pa.Table) -> None:
        """Checks the next rows; computes, for a thread."""
        kinds = kinds_of([table])
        if kinds is None:
            kinds = np.zeros(table.num_rows, np.uint8)
        self._kinds += np.bincount(kinds, minlength=len(RowKind))[: len(RowKind)]
        if self._keys is not None and table.num_rows:
            self._check_keys(self._keys, table)
        self._check_partition(table, kinds)
        # Deleted rows have no values but those of their keys.
        deletes = kinds == RowKind.DELETE
        rows = table.filter(pa.array(~deletes)) if deletes.any() else table
        if KIND_COLUMN in rows.column_names:
            rows = rows.drop_columns([KIND_COLUMN])
        if rows.num_rows:
            self._add_stats(stats_of(rows, self._schema.fields, text_bytes=_ALL_TEXT))

    def found(self) -> list[FileFindings]:
        """Returns the problems found, after the last rows were added."""
        entry = self._entry
        said = (entry.rows, entry.updates, entry.deletes)
        kinds = self._kinds.tolist()
        counted = (sum(kinds), kinds[RowKind.UPDATE], kinds[RowKind.DELETE])
        if said != counted:
            self._note(Problem.ROWS, f"rows, updates and deletions are {counted}, the snapshot says {said}")
        if self._ends and (entry.min_key, entry.max_key) != (self._ends[0], self._ends[-1]):
            self._note(Problem.ROWS, "its first and last key are not those the snapshot says")
        self._check_stats()
        return [(entry.path, problem, detail) for problem, detail in self._wrong.items()]

    def _note(self, problem: Problem, detail: str) -> None:
        self._wrong.setdefault(problem, detail)

    def _check_keys(self, keys: KeyColumns, table: pa.Table) -> None:
        encoded = keys.encoded(table)
        if len(encoded) > 1 and not pc.all(pc.less(encoded[:-1], encoded[1:])).as_py():
            self._note(Problem.ROWS, "its keys do not ascend")
        first, last = encoded[0].as_py(), encoded[-1].as_py()
        if self._ends and first <= self._ends[-1]:
            self._note(Problem.ROWS, "its keys do not ascend from piece to piece")
        self._ends += [first, last]
        columns = [table.column(name) for name in self._schema.primary_key]
        buckets = buckets_of(columns, self._schema.key_fields, self._entry.total_buckets)
        if (buckets != self._entry.bucket).any():
            self._note(Problem.ROWS, f"some rows are not of bucket {self._entry.bucket}")

    def _check_partition(self, table: pa.Table, kinds: U8) -> None:
        if len(self._entry.partition) != len(self._schema.partition_by) or not table.num_rows:
            return
        in_key = set(self._schema.partition_by) <= set(self._schema.primary_key)
        rows = table if in_key else table.filter(pa.array(kinds != RowKind.DELETE))
        for field, value in zip(self._schema.partition_fields, self._entry.partition, strict=True):
            values = encode_values(rows.column(field.name).combine_chunks(), field.type)
            if not pc.all(pc.equal(values, pa.scalar(value, values.type))).as_py() and len(values):
                self._note(Problem.ROWS, f"some rows have another {field.name} than their partition")

    def _add_stats(self, stats: dict[int, ColumnStats]) -> None:
        for number, column_stats in stats.items():
            before = self._stats.get(number)
            if before is None:
                self._stats[number] = column_stats
                continue
            lows = [bound for bound in (before.low, column_stats.low) if bound is not None]
            highs = [bound for bound in (before.high, column_stats.high) if bound is not None]
            self._stats[number] = dataclasses.replace(
                column_stats,
                nulls=before.nulls + column_stats.nulls,
                low=min(lows, default=None),
                high=max(highs, default=None),
            )

    def _check_stats(self) -> None:
        for field in self._schema.fields:
            said, got = self._entry.stats.get(field.id), self._stats.get(field.id)
            if said is None or got is None:
                continue
            low, high = got.low, got.high
            if field.type in _FLOATS:
                low, high = (None if bound == NAN_BYTES else bound for bound in (low, high))
            wrong = (
                said.nulls != got.nulls
                or (said.low is not None and low is not None and low < said.low)
                or (
                    said.high is not None and high is not None and high > said.high and said.high != NAN_BYTES
                )
                or (said.exact and field.type not in _FLOATS and (said.low, said.high) != (low, high))
            )
            if wrong:
                self._note(Problem.STATS, f"column {field.name!r} has values outside what the snapshot says")
