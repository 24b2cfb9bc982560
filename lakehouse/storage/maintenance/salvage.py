"""Salvage: reads, file by file, the rows of a state that are still sound.

Invariant: rows handed out were checked by their checksums. Rows that are left out are named as a loss, with
the range of keys they may have had. Nothing is deleted or overwritten.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lakehouse.config import Settings
from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.metadata import FileEntry, Level
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread
from lakehouse.storage.files.file_cutter import FileCutter
from lakehouse.storage.files.open import open_run
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.maintenance.repair_report import Loss, LossKind
from lakehouse.storage.maintenance.verify_files import FileCheck, fresh_caches
from lakehouse.storage.rows.partitioner import joined, partition_rows

__all__ = ["Salvaged", "Salvager"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """Result for one data file."""

    entries: tuple[FileEntry, ...]
    """Entries that replace it: itself, or a file of its sound rows, or none."""
    losses: tuple[Loss, ...] = ()
    rewritten: int = 0
    """Number of entries that are new files."""
    uploaded: UploadedFiles = field(default_factory=UploadedFiles)
    """New files among them."""


class Salvager:
    """Reads data files that may be damaged, and rewrites their sound rows.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        schema: the schema of the state.
        settings: bounds on reads and writes.
        dry_run: whether to read only, and write nothing.
    """

    def __init__(
        self, store: ObjectStore, root: str, schema: TableSchema, settings: Settings, *, dry_run: bool
    ) -> None:
        self._store, self._root, self._schema, self._dry_run = store, root, schema, dry_run
        self._check = FileCheck(store, root, settings.index)
        self._codec = RowKeyCodec(schema.key_fields) if schema.primary_key else None

    async def file(self, entry: FileEntry) -> Salvaged:
        """Salvages one file, read in full."""
        problems = await self._check.file(entry, self._schema)
        of_index = [problem for problem in problems if problem[0] != entry.path]
        of_data = [problem for problem in problems if problem[0] == entry.path]
        losses = [Loss(kind=LossKind.INDEX, object=path, reason=detail) for path, _, detail in of_index]
        if of_index:
            entry = dataclasses.replace(entry, index=None)
        if not of_data:
            return Salvaged(entries=(entry,), losses=tuple(losses))
        reason = of_data[0][2]
        try:
            # Without the checksum of the whole file, its sound pieces can be read.
            bare = dataclasses.replace(entry, checksum=None)
            reader = await open_run(self._store, self._root, bare, self._schema, fresh_caches())
        except (FormatError, NotFoundError):
            losses.append(self._loss(entry, entry.rows, entry, reason))
            return Salvaged(entries=(), losses=tuple(losses))
        tables: list[pa.Table] = []
        for number, piece in enumerate(reader.pieces):
            try:
                kinds = bool(entry.deletes + entry.updates)
                tables.append(await reader.read(self._schema.fields, [number], kinds=kinds))
            except FormatError as error:
                losses.append(self._loss(entry, piece.rows, piece, error.message))
        if not tables:
            return Salvaged(entries=(), losses=tuple(losses))
        if self._dry_run:
            return Salvaged(entries=(entry,), losses=tuple(losses), rewritten=1)
        return dataclasses.replace(await self._rewritten(entry, tables), losses=tuple(losses))

    def missing(self, entry: FileEntry, reason: str) -> Salvaged:
        """Returns the result for a file that is missing or has another size."""
        return Salvaged(entries=(), losses=(self._loss(entry, entry.rows, entry, reason),))

    def _loss(self, entry: FileEntry, rows: int, part: FileEntry | Piece, reason: str) -> Loss:
        first = last = None
        if self._codec is not None and part.min_key is not None and part.max_key is not None:
            first, last = self._codec.decode_one(part.min_key), self._codec.decode_one(part.max_key)
        return Loss(
            kind=LossKind.FILE, object=entry.path, rows=rows, first_key=first, last_key=last, reason=reason
        )

    async def _rewritten(self, entry: FileEntry, tables: Sequence[pa.Table]) -> Salvaged:
        """Writes these rows into a file at the place of the damaged one in the order of runs."""
        schema = dataclasses.replace(self._schema, buckets=entry.total_buckets)
        options = TableOptions.parse(schema.options)
        level = entry.level if entry.level is Level.BOTTOM else min(entry.level, Level.COMPACTED)
        cutter = FileCutter(self._store, self._root, schema, options, format=entry.format, level=level)
        parts = await in_thread(partial(partition_rows, joined(list(tables)), schema, partition_fields=()))
        rows = []
        for part in parts:
            bucket = part.bucket if schema.primary_key else entry.bucket
            part = dataclasses.replace(part, partition=entry.partition, bucket=bucket)
            rows.append(cutter.file(part, run=entry.run))
        files = await cutter.upload(rows)
        entries = tuple(
            dataclasses.replace(uploaded, lo=entry.lo, hi=entry.hi, at=None) for uploaded in files.entries
        )
        return Salvaged(
            entries=entries, rewritten=len(entries), uploaded=dataclasses.replace(files, entries=entries)
        )
