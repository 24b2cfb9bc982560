"""Scans: the rows of a snapshot that match a condition, as a sequence of tables.

A scan is planned without I/O when it is made. Executing it opens the files in the order of their
keys, cuts them into sections (:mod:`lakehouse.storage.scan.sections`) and reads some of these at once,
while the results are handed out in order: by merge unit, and by key within one.

Invariant: work under way keeps to ``table.scan_concurrency`` and ``table.scan_memory_bytes``, except for a
single section and the pieces at its border; when the iteration ends, no work goes on.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

import pyarrow as pa

from lakehouse.config import TableSettings
from lakehouse.expr import Expr
from lakehouse.expr.bounds import Verdict
from lakehouse.format.metadata import KIND_COLUMN, FileEntry
from lakehouse.format.schema import TableSchema, arrow_field
from lakehouse.index.search import RowSelection
from lakehouse.io.cost import counting
from lakehouse.io.work import map_bounded
from lakehouse.storage.files.reader import (
    EVERY_KEY,
    EVERY_ROW,
    KeyRange,
    Piece,
    RowRange,
    RunReader,
    RunSource,
    has_keys,
)
from lakehouse.storage.indexes.search import IndexAnswers, IndexQuestion
from lakehouse.storage.merge.engines import merge_engine
from lakehouse.storage.rows.row_size import RowSize
from lakehouse.storage.scan.admission import Gate, Work
from lakehouse.storage.scan.conditions import bind_where
from lakehouse.storage.scan.file_plan import FilePlan, PlannedFile, PlannedUnit, Prunes, plan_files
from lakehouse.storage.scan.pruner import IndexedPruner, Pruner
from lakehouse.storage.scan.report import ScanReport
from lakehouse.storage.scan.section_reader import ScanOutput, SectionReader
from lakehouse.storage.scan.sections import Chunk, SectionSweep
from lakehouse.storage.schema.columns import fields_named
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["Scan"]

_PLACE = struct.Struct(">QQ")


class Scan:
    """One scan of the live files of a snapshot.

    Args:
        entries: the files, with their positions filled in.
        schema: the snapshot's schema.
        source: opens the files.
        columns: names, in order; None = all.
        where: a condition; its names are looked up in the schema.
        limit: maximum rows to return; None = all.
        deletions: whether to return keys whose newest row deletes them as well. With the column
            ``_VALUE_KIND`` in the schema, rows keep their kinds for older ones: operands stay operands.
        pruner: judge of the files by the condition; None = one that uses their entries alone.
        keys: range of keys to return, in a table with a key.
        rows: range of row numbers whose pieces are read, in files that share no key with another.
        settings: bounds on memory and concurrency; None = those of the source.

    Raises:
        InvalidInputError: a column is unknown, or the condition does not fit the schema.
    """

    def __init__(
        self,
        entries: Sequence[FileEntry],
        schema: TableSchema,
        source: RunSource,
        *,
        columns: Sequence[str] | None = None,
        where: Expr | None = None,
        limit: int | None = None,
        deletions: bool = False,
        pruner: Prunes | None = None,
        keys: KeyRange = EVERY_KEY,
        rows: RowRange = EVERY_ROW,
        settings: TableSettings | None = None,
    ) -> None:
        arrow = schema.arrow()
        bound = None if where is None else bind_where(where, schema)
        named = bound.columns() if bound is not None else frozenset[str]()
        # To know which keys exist, the newest row of each is enough.
        folds = schema.merging.is_mergeable and (not deletions or schema.fields[-1].name == KIND_COLUMN)
        looked_at = {name if name in arrow.names else name.split(".")[0] for name in named}
        self._source = source
        self._settings = settings or source.settings
        self._limit = limit
        self._every = schema.fields
        self._keys, self._rows = keys, rows
        if keys != EVERY_KEY:
            entries = [entry for entry in entries if has_keys(entry, keys)]
        self._entries, self._schema, self._condition = entries, schema, where
        if pruner is None and bound is not None:
            pruner = Pruner(bound, schema)
        self._pruner = pruner
        self.selections: Mapping[str, RowSelection] = {}
        """Rows that may match by the indexes, by path of the file, where these are not all."""
        self.wanted = ScanOutput(
            fields=fields_named(schema, columns),
            where=bound,
            where_fields=tuple(field for field in schema.fields if field.name in looked_at),
            key_fields=schema.key_fields,
            deletions=deletions,
            engine=merge_engine(schema) if folds else None,
        )
        self.report = ScanReport(files=len(entries))
        self._plan()

    def _plan(self) -> None:
        self.files: FilePlan = plan_files(self._entries, self._schema, self._pruner)
        self.report.files_pruned = self.files.pruned
        self.report.files_keys_only = self.files.keys_only

    async def prune_by_indexes(self, table: OpenTable) -> None:
        """Leaves out files that their indexes exclude, asking only for files that statistics keep."""
        if self._condition is None or self._limit == 0:
            return
        units = self.files.units
        files = [file.entry for unit in units for file in unit.files if file.wanted and not file.matches]
        with counting(self.report.cost):
            answers = await table.ask_indexes(IndexQuestion(self._condition, self._schema), files)
        self.use_answers(answers)

    def use_answers(self, answers: IndexAnswers) -> None:
        """Leaves out files and rows that indexes exclude."""
        self.report.indexes_read = len(answers.rows) - len(answers.failed)
        self.report.indexes_failed = len(answers.failed)
        self.selections = {path: rows for path, rows in answers.rows.items() if not rows.is_all}
        if self.selections and self._pruner is not None:
            self._pruner = IndexedPruner(self._pruner, answers)
            # A file that an index excludes may free others from being read for their keys.
            if any(rows.is_empty for rows in self.selections.values()):
                self._plan()
            kept = [file.entry.path for unit in self.files.units for file in unit.files if file.wanted]
            selections = [self.selections[path] for path in kept if path in self.selections]
            self.report.rows_pruned_by_index = sum(rows.total_rows - rows.row_count for rows in selections)

    async def pieces(self, files_max: int) -> dict[str, Sequence[Piece]]:
        """Returns the pieces that the condition keeps of the files that it keeps, by path.

        A file is missing in the result if all its rows match, and every file is if more than ``files_max``
        would have to be opened.
        """
        pruner = self._pruner
        files = [file for unit in self.files.units for file in unit.files if not file.matches]
        if pruner is None or len(files) > files_max:
            return {}
        pieces: dict[str, Sequence[Piece]] = {}
        async with aclosing(self._opened(files)) as opened:
            at = 0
            async for reader in opened:
                file, entry, at = files[at], reader.entry, at + 1
                pieces[entry.path] = [
                    piece
                    for piece in reader.pieces
                    if not pruner.excludes_piece(entry, piece)
                    # A piece without a row that matches may hide older rows of its keys.
                    and not (file.alone and pruner.judge_piece(entry, piece) is Verdict.NONE)
                ]
        return pieces

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the tables that the scan returns."""
        return pa.schema([arrow_field(field) for field in self.wanted.fields])

    def tables(self) -> AsyncGenerator[pa.Table, None]:
        """Yields the rows, a table for each section that has any."""
        return self._tables(self.files.units)

    async def count(self) -> int:
        """Returns the number of rows; files whose entries determine it are not opened."""
        known = 0
        units: Sequence[PlannedUnit] = self.files.units
        # Entries count whole files: not a limit's rows, nor deleted keys, nor a part of the keys.
        if (
            self._limit is None
            and not self.wanted.deletions
            and (self._keys, self._rows) == (EVERY_KEY, EVERY_ROW)
        ):
            files = [file for unit in self.files.units for file in unit.files]
            known = sum(file.entry.rows - file.entry.deletes for file in files if file.answered_by_stats)
            units = [
                replace(unit, files=tuple(file for file in unit.files if not file.answered_by_stats))
                for unit in self.files.units
            ]
        self.report.rows += known
        async for table in self._tables(units):
            known += table.num_rows
        return known

    async def _tables(self, units: Sequence[PlannedUnit]) -> AsyncGenerator[pa.Table, None]:
        left = self._limit
        if left == 0:
            return
        size = RowSize(
            (*self.wanted.key_fields, *self.wanted.with_needed(self.wanted.where_fields, self.wanted.fields)),
            self._every,
            (file.entry for unit in units for file in unit.files),
        )
        reader = SectionReader(
            self.wanted,
            size,
            self.report,
            self.selections,
            concurrency=self._settings.read_concurrency,
        )
        gate = Gate(self._settings, size, left)

        async def read(work: Work) -> Work:
            work.table = await reader.read(work.take_section())
            return work

        results = map_bounded(read, self._sections(units, gate), self._settings.scan_concurrency)
        async with aclosing(results):
            async for work in results:
                # Rows that are handed out are the caller's memory, so they leave room for others.
                gate.leave(work.weight)
                table = work.take_table()
                if left is not None:
                    table = table.slice(0, min(left, table.num_rows))
                    left -= table.num_rows
                self.report.rows += table.num_rows
                if table.num_rows:
                    yield table
                if left == 0:
                    return

    async def _sections(self, units: Sequence[PlannedUnit], gate: Gate) -> AsyncGenerator[Work, None]:
        """Yields the sections of all merge units, each when there is room for it."""
        files = [(number, file) for number, unit in enumerate(units) for file in unit.files]
        folds = self.wanted.engine is not None
        sweep = SectionSweep(gate.target_rows, folds=folds, keys=self._keys)
        opened = self._opened([file for _, file in files])
        async with aclosing(opened):
            at = 0
            async for reader in opened:
                unit, file = files[at]
                sweep.add(self._chunks(at, file, reader))
                at += 1
                is_last = at == len(files) or files[at][0] != unit
                for section in sweep.sections(None if is_last else self._first_key(at, files[at][1])):
                    work = Work(section, gate.weight(section))
                    # Not held here: the rows of a section must be free to go once it is handed out.
                    del section
                    await gate.enter(work.weight)
                    yield work
                    sweep.target_rows = gate.target_rows
                if is_last:
                    sweep = SectionSweep(gate.target_rows, folds=folds, keys=self._keys)

    async def _opened(self, files: Sequence[PlannedFile]) -> AsyncGenerator[RunReader, None]:
        """Yields the readers of the files, in order; with a limit, opens few ahead of the reading."""

        async def open_file(file: PlannedFile) -> RunReader:
            with counting(self.report.cost):
                return await self._source.open(file.entry, self._schema)

        # With a limit the first files often suffice: one is opened, then twice as many each time.
        begin, count = 0, 1 if self._limit is not None else len(files)
        while begin < len(files):
            readers = map_bounded(open_file, files[begin : begin + count], self._settings.read_concurrency)
            async with aclosing(readers):
                async for reader in readers:
                    yield reader
            begin, count = begin + count, count * 2

    def _first_key(self, number: int, file: PlannedFile, piece: int = 0) -> bytes:
        """Returns the first key of a file in its merge unit; in append-only tables, its place instead."""
        if self.wanted.key_fields:
            return file.entry.min_key or b""
        return _PLACE.pack(number, piece)

    def _chunks(self, number: int, file: PlannedFile, reader: RunReader) -> list[Chunk]:
        """Returns the pieces of a file that may take part."""
        self.report.pieces += len(reader.pieces)
        chunks = []
        for at, piece in enumerate(reader.pieces):
            if not has_keys(piece, self._keys):
                continue
            if not self._rows[0] <= piece.first_row < self._rows[1]:
                continue
            verdict = Verdict.ALL if file.matches else Verdict.SOME
            if self._pruner is not None and verdict is Verdict.SOME:
                if self._pruner.excludes_piece(reader.entry, piece):
                    continue
                verdict = self._pruner.judge_piece(reader.entry, piece) if file.wanted else Verdict.NONE
            low, high = piece.min_key, piece.max_key
            if not self.wanted.key_fields:
                low = high = self._first_key(number, file, at)
                if verdict is Verdict.NONE:
                    continue
            chunks.append(
                Chunk(
                    reader=reader,
                    number=at,
                    rows=piece.rows,
                    low=low or b"",
                    high=high or b"",
                    age=file.age,
                    wanted=verdict is not Verdict.NONE,
                    matches=verdict is Verdict.ALL,
                )
            )
        return chunks
