"""Upserts of some columns that keep the values of older rows in the others: ``missing="keep"``.

The rows of the call are held in memory; for those that lack a column the older rows of their keys are looked
up at a base, and whole rows are written. Others may commit meanwhile: when they may have added or removed
rows of these keys, the keys are looked up again, and the files are written anew if the result differs. Rows
that lack nothing are written without reading.

Invariant: the snapshot that is made equals the one that the upsert would have made by reading its parent.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import pyarrow as pa

from lakehouse.errors import ConflictError, InvalidInputError
from lakehouse.format.metadata import CommitKind, FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import in_thread
from lakehouse.storage.commit.changes import FilesChange
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.rows.input_tables import input_chunks
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.scan.lookup import Lookup
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from lakehouse.storage.write.given_rows import GivenChunk, GivenRows, given_chunk

__all__ = ["keeping_change"]


async def keeping_change(table: OpenTable, view: View, data: object, kind: CommitKind) -> FilesChange:
    """Returns the change that adds rows whose missing columns get the values of older rows of their keys.

    Args:
        table: a table with a primary key and without an engine that keeps values by itself.
        view: the state whose schema the rows are fitted to.
        data: rows; of several rows of a key, each column has the value of the last one that has it.
        kind: kind of the commit in its snapshot.
    """
    return _KeepMissing(table, view, await _collected_rows(table, view, data), kind)


async def _collected_rows(table: OpenTable, view: View, data: object) -> GivenRows:
    """Collects all rows of the call in memory; refuses more than ``table.keep_memory_bytes``."""
    most, held, first = table.settings.keep_memory_bytes, 0, 0
    chunks: list[GivenChunk] = []
    source = input_chunks(data, view.schema.fields, chunk_bytes=view.options.write_buffer_bytes, marks=True)
    async with aclosing(source) as tables:
        async for rows in tables:
            held += rows.nbytes
            if held > most:
                raise InvalidInputError(
                    f"missing='keep' holds the rows of a call in memory, and these are more than {most:,} "
                    "bytes: write them in several calls, through lakehouse.spark.write, or raise the setting "
                    "table.keep_memory_bytes",
                    setting="table.keep_memory_bytes",
                )
            chunks.append(await in_thread(partial(given_chunk, rows, view.schema, first_row=first)))
            first += rows.num_rows
    return await in_thread(GivenRows.of, chunks, view.schema)


class _KeepMissing(FilesChange):
    """Adds rows, filled from the older rows of their keys in the head it is committed on.

    Args:
        table: the table.
        view: the state whose schema the rows were fitted to.
        given: the rows.
        kind: kind of the commit in its snapshot.
    """

    def __init__(self, table: OpenTable, view: View, given: GivenRows, kind: CommitKind) -> None:
        self._table, self._view, self._given, self._kind = table, view, given, kind
        self._keys = given.keys_to_read()
        self._names: list[bytes] = sorted(_encoded(self._keys, given.schema))
        self._base: Base | None = None
        self._filled: pa.Table | None = None
        self._uploads: list[UploadedFiles] = []
        self.written = UploadedFiles()
        """Files that the last draft adds."""

    def uploaded(self) -> Sequence[str]:
        """Returns the paths of all files that were uploaded, for any base."""
        return UploadedFiles.joined(self._uploads).paths

    @property
    def blind(self) -> bool:
        """True when no key has to be looked up."""
        return not self._names

    async def draft(self, base: Base) -> Draft | None:
        """Returns the files of the last draft, or new ones when older rows of the keys may have changed.

        Raises:
            ConflictError: the schema was changed since the rows were fitted to it.
        """
        if not self._given.rows.num_rows and not base.must_commit:
            return None
        if base.snapshot.schema != self._view.snapshot.schema:
            raise ConflictError(
                f"the schema was changed with snapshot {base.snapshot.id} or before it, while rows were "
                "filled up under an older one: write them again",
                snapshot=base.snapshot.id,
            )
        if self._base is None or not await self._still_right(self._base, base):
            await self._write(await self._whole(base))
            self._base = base
        return Draft(
            kind=self._kind,
            added=self.written.entries,
            uploaded_ms=self.written.first_upload_ms,
        )

    async def _still_right(self, old: Base, new: Base) -> bool:
        """Returns whether lookups at ``new`` are sure to find the rows that were found at ``old``."""
        if not self._names:
            return True
        if self._view.shows is not None:
            return False  # which rows are too old depends on the time of the snapshot
        known, entries = {one.path for one in await old.entries()}, await new.entries()
        # Files are also removed by compaction; looking up again is harmless then and finds the same rows.
        if not known <= {one.path for one in entries}:
            return False
        return not any(self._may_have_keys(one) for one in entries if one.path not in known)

    def _may_have_keys(self, entry: FileEntry) -> bool:
        low, high = entry.min_key, entry.max_key
        if low is None or high is None:
            return True
        # The first of the keys, in order, that is not below the file's range decides.
        at = bisect_left(self._names, low)
        return at < len(self._names) and self._names[at] <= high

    async def _whole(self, base: Base) -> pa.Table:
        """Returns the rows, filled with the values that rows of their keys have at the base."""
        given = self._given
        if not self._names:
            return given.rows
        view = await self._table.view_of(base.snapshot)
        lookup = Lookup(await base.entries(), view.schema, self._table, shows=view.shows)
        found = await lookup.find(self._keys, given.lacking)
        return await in_thread(given.filled, found)

    async def _write(self, whole: pa.Table) -> None:
        """Uploads the rows, unless they equal those of the last draft."""
        if self._filled is not None and self._filled.equals(whole):
            return
        written = await self._table.write(self._view, whole)
        self._uploads.append(written)
        self.written = dataclasses.replace(written, rows=self._given.handed_in)
        self._filled = whole


def _encoded(keys: pa.Table, schema: TableSchema) -> Sequence[bytes]:
    if not keys.num_rows:
        return []
    encoded: list[bytes] = KeyColumns(schema.key_fields).encoded(keys).to_pylist()
    return encoded
