"""Runs in memory: readers over Arrow tables, their entries, and the plain model that scans are held to."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config import TableSettings
from lakehouse.format.keys.column_stats import stats_of
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import KIND_COLUMN, FileEntry, Position, RowKind
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files.reader import Piece

__all__ = ["MemoryRun", "MemoryRuns", "Row", "live_rows"]

Row = tuple[RowKind, dict[str, Any]]


class MemoryRun:
    """A run reader over a table in memory."""

    def __init__(self, runs: MemoryRuns, entry: FileEntry, table: pa.Table, piece_rows: int) -> None:
        self.entry = entry
        self._runs = runs
        self.table = table
        self._loaded: tuple[set[str], set[int], bool] | None = None
        """Columns and pieces that were fetched, and whether kinds were; None = anything may be read."""
        self._codec = RowKeyCodec(runs.schema.key_fields) if runs.schema.primary_key else None
        self._slices = [table.slice(at, piece_rows) for at in range(0, table.num_rows, piece_rows)]
        self.pieces: Sequence[Piece] = [
            Piece(
                rows=part.num_rows,
                first_row=number * piece_rows,
                size=max(1, part.nbytes),
                min_key=self._key(part, 0),
                max_key=self._key(part, -1),
                stats=stats_of(part, runs.schema.fields),
            )
            for number, part in enumerate(self._slices)
        ]

    def _key(self, table: pa.Table, at: int) -> bytes | None:
        if self._codec is None:
            return None
        row = table.slice(at % table.num_rows, 1)
        return self._codec.encode([row.column(name) for name in self._runs.schema.primary_key])[0].as_py()

    async def read(
        self,
        fields: Sequence[Field],
        pieces: Sequence[int] | None = None,
        *,
        kinds: bool = False,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Columns of pieces, and a line in the log of reads."""
        numbers = range(len(self._slices)) if pieces is None else pieces
        names = [one.name for one in fields]
        if self._loaded is not None:
            there, at_hand, with_kinds = self._loaded
            assert there.issuperset(names)
            assert at_hand.issuperset(numbers)
            assert with_kinds or not kinds
        self._runs.reads.append((self.entry.path, tuple(numbers), tuple(names), kinds))
        table = pa.concat_tables([self._slices[number] for number in numbers])
        if kinds and KIND_COLUMN not in table.column_names:
            table = table.append_column(KIND_COLUMN, pa.array([0] * table.num_rows, pa.int8()))
        table = table if rows is None else table.take(pa.array(rows))
        return table.select([*names, KIND_COLUMN] if kinds else names)

    async def load(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> MemoryRun:
        """The file, of which nothing else may be read."""
        numbers = range(len(self._slices)) if pieces is None else pieces
        loaded = copy.copy(self)
        loaded._loaded = ({one.name for one in fields}, set(numbers), kinds)
        return loaded

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """The row of a key with its kind."""
        assert self._codec is not None
        self._runs.gets.append((self.entry.path, key))
        keys = self._codec.encode([self.table.column(name) for name in self._runs.schema.primary_key])
        at = pc.index(keys, key).as_py()
        table = self.table.slice(max(at, 0), 1 if at >= 0 else 0)
        if KIND_COLUMN not in table.column_names:
            table = table.append_column(KIND_COLUMN, pa.array([0] * table.num_rows, pa.int8()))
        return table.select([*(one.name for one in fields), KIND_COLUMN])


@dataclass
class MemoryRuns:
    """A table's data files in memory; opens them and remembers what was asked of them."""

    schema: TableSchema
    piece_rows: int = 3
    files: dict[str, MemoryRun] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    reads: list[tuple[str, tuple[int, ...], tuple[str, ...], bool]] = field(default_factory=list)
    gets: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, rows: pa.Table, *, lo: Position, hi: Position, **facts: Any) -> FileEntry:
        """A file of these rows, which are sorted by key."""
        deletes = (
            pc.sum(pc.equal(rows.column(KIND_COLUMN), 2)).as_py() if KIND_COLUMN in rows.column_names else 0
        )
        entry = FileEntry(
            path=f"f{len(self.files)}",
            at=hi[0],
            lo=lo,
            hi=hi,
            size=max(1, rows.nbytes),
            rows=rows.num_rows,
            deletes=deletes or 0,
            stats=stats_of(rows, self.schema.fields),
            **facts,
        )
        run = MemoryRun(self, entry, rows, self.piece_rows)
        if self.schema.primary_key:
            entry = FileEntry(
                **{
                    name: getattr(entry, name)
                    for name in FileEntry.__slots__
                    if name not in ("min_key", "max_key")
                },
                min_key=run.pieces[0].min_key,
                max_key=run.pieces[-1].max_key,
            )
            run.entry = entry
        self.files[entry.path] = run
        return entry

    settings = TableSettings()
    """Bounds on reads."""

    async def open(self, entry: FileEntry, schema: TableSchema | None = None) -> MemoryRun:
        """The reader of a file."""
        self.opened.append(entry.path)
        return self.files[entry.path]


def live_rows(schema: TableSchema, runs: Iterable[pa.Table]) -> list[dict[str, Any]]:
    """What runs, oldest first, come to: the newest row of each key that does not delete it, by key."""
    state: dict[tuple[Any, ...], dict[str, Any]] = {}
    for run in runs:
        for row in run.to_pylist():
            kind = row.pop(KIND_COLUMN, 0)
            key = tuple(row[name] for name in schema.primary_key)
            state.pop(key, None)
            if kind != RowKind.DELETE:
                state[key] = row
    return [state[key] for key in sorted(state)]
