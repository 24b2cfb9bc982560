"""Writes that read: delete and overwrite by a condition, and inserts whose keys must be new.

Each is decided at a base. When others commit first, it checks what they added: files that cannot
match the condition, and hold no key it wrote, change nothing; otherwise it decides again.

Invariant: the snapshot that such a write makes is the one it would have made had it begun when its
parent was committed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lakehouse.errors import AlreadyExistsError, InvalidInputError
from lakehouse.expr import Expr, any_of, matching
from lakehouse.expr.bounds import Verdict
from lakehouse.expr.nodes import IsNull
from lakehouse.format.metadata import CommitKind, FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.commit.changes import FilesChange, ReplacePartitions, check_flushed
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.indexes.search import IndexQuestion
from lakehouse.storage.rows.duplicate_keys import refuse_repeated_keys
from lakehouse.storage.rows.input_tables import CheckNames, fitted_chunks
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.missing_columns import Missing, refusing_missing
from lakehouse.storage.scan.conditions import bind_where, partition_test
from lakehouse.storage.scan.lookup import Lookup
from lakehouse.storage.scan.pruner import Pruner
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.schema.row_ttl import shown_where
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from lakehouse.storage.write.table_write import TableWrite

__all__ = [
    "InsertingWrite",
    "ReplacingWrite",
    "matching_rows",
    "overwriting_change",
    "refuse_ignored_deletes",
]

_REWRITES = 4
"""Files of an append-only table that are rewritten at once."""


@dataclass(kw_only=True)
class ReplacingWrite(TableWrite):
    """Write that deletes the rows that match a condition, or replaces them by others that match too."""

    where: Expr
    deletes: bool = False
    """True for a delete: there are no new rows."""

    async def change(self, view: View) -> FilesChange:
        """Uploads the new rows; returns the change that replaces others by them."""
        where, table = self.where, self.table
        bind_where(where, view.schema)
        if self.deletes:
            refuse_ignored_deletes(table, view)
            return _ReplaceMatching(table, where, UploadedFiles(), kind=CommitKind.DELETE)
        data = self.data
        if partition_test(where, view.schema) is None:
            refuse_ignored_deletes(table, view)
            data = matching_rows(data, view.schema, where, chunk_bytes=view.options.write_buffer_bytes)
        return overwriting_change(table, where, await table.write(view, data), view.schema)


def overwriting_change(
    table: OpenTable, where: Expr, written: UploadedFiles, schema: TableSchema
) -> FilesChange:
    """Returns the change that replaces the rows that match by uploaded ones; whole partitions unread."""
    holds = partition_test(where, schema)
    if holds is not None:
        return ReplacePartitions(kind=CommitKind.OVERWRITE, holds=holds, written=written)
    return _ReplaceMatching(table, where, written, kind=CommitKind.OVERWRITE)


def refuse_ignored_deletes(table: OpenTable, view: View) -> None:
    """Raises if rows of the table cannot be removed by a condition."""
    if view.schema.merging.ignores_deletes:
        raise InvalidInputError(
            f"{table.name} ignores deletes (option 'ignore_delete'), so no rows can be taken away by a "
            "condition; overwrite the whole table or whole partitions",
            option="ignore_delete",
        )


async def matching_rows(
    data: object, schema: TableSchema, where: Expr, *, chunk_bytes: int
) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows handed in, each of which must match."""
    bound = bind_where(where, schema)
    async with aclosing(fitted_chunks(data, schema, chunk_bytes=chunk_bytes)) as chunks:
        async for rows in chunks:
            # A row for which the condition is null does not match.
            outside = rows.filter(pa.compute.invert(pa.compute.fill_null(matching(bound, rows), False)))
            if outside.num_rows:
                raise InvalidInputError(
                    f"{outside.num_rows:,} of the new rows do not match the condition of the overwrite, such "
                    f"as {_shown(outside)}: leave them out, or widen the condition"
                )
            yield rows


def _shown(rows: pa.Table) -> str:
    text = str(rows.slice(0, 1).to_pylist()[0])
    return text if len(text) <= 200 else text[:200] + "…"


class _ReplaceMatching(FilesChange):
    """Change that removes the rows that match a condition, and adds others.

    Args:
        table: the table.
        where: the condition.
        new: uploaded rows to add, which match.
        kind: kind of the snapshot.
    """

    blind: ClassVar[bool] = False

    def __init__(self, table: OpenTable, where: Expr, new: UploadedFiles, *, kind: CommitKind) -> None:
        self._table, self._where, self._new, self._kind = table, where, new, kind
        self._base: Base | None = None
        self._draft: Draft | None = None
        self._uploads = [new]
        self.written = new
        """Rows and files that the last draft adds; of a delete, the rows that it removes."""

    def uploaded(self) -> Sequence[str]:
        """Returns the paths of the new rows' files, and of all that were uploaded for any base."""
        return UploadedFiles.joined(self._uploads).paths

    async def draft(self, base: Base) -> Draft | None:
        """Returns the same draft as before when the commits made meanwhile cannot matter to it."""
        if self._base is None or not await self._still_right(self._base, base):
            self._draft = await self._decide(base)
            self._base = base
        return self._draft

    async def _still_right(self, old: Base, new: Base) -> bool:
        # Files to be removed may have been rewritten meanwhile: such a draft is decided anew.
        if self._draft is None or self._draft.removed or new.snapshot.schema != old.snapshot.schema:
            return False
        known, entries = {entry.path for entry in await old.entries()}, await new.entries()
        if not known <= {entry.path for entry in entries}:
            # A file that is gone may have hidden older rows, as after a rollback.
            return False
        view = await self._table.view_of(new.snapshot)
        pruner = Pruner(bind_where(self._where, view.schema), view.schema)
        folds = view.schema.merging.is_mergeable  # then a row may match together with those of other files
        return not any(
            pruner.judge(entry)[0] is not Verdict.NONE
            or _overlaps(entry, self.written.entries)
            or (folds and _overlaps(entry, [other for other in entries if other is not entry]))
            for entry in entries
            if entry.path not in known
        )

    async def _decide(self, base: Base) -> Draft | None:
        view = await self._table.view_of(base.snapshot)
        bound = bind_where(self._where, view.schema)
        entries = await base.entries()
        holds = partition_test(self._where, view.schema)
        if holds is not None:
            removed = tuple(entry for entry in entries if holds(entry.partition))
            check_flushed(removed)
            added: tuple[FileEntry, ...] = ()
            rows = sum(entry.rows for entry in removed)
        elif view.schema.primary_key:
            deletions = await self._deletions(view, entries)
            removed, added, rows = (), deletions.entries, deletions.rows
        else:
            removed, added = await self._rewritten(view, entries, bound)
            rows = sum(entry.rows for entry in removed) - sum(copy.rows for copy in added)
        # New rows come after the deletions of the same commit, which would hide them: higher run numbers.
        after = max((entry.run + 1 for entry in added if entry.lo is None), default=0)
        added += tuple(dataclasses.replace(entry, run=entry.run + after) for entry in self._new.entries)
        if self._kind is not CommitKind.DELETE:
            rows = self._new.rows
        self.written = dataclasses.replace(self._new, entries=added, rows=rows)
        if not added and not removed and not base.must_commit:
            return None
        uploaded_ms = UploadedFiles.joined(self._uploads).first_upload_ms
        return Draft(kind=self._kind, added=added, removed=removed, uploaded_ms=uploaded_ms)

    async def _deletions(self, view: View, entries: Sequence[FileEntry]) -> UploadedFiles:
        """Uploads rows that delete the keys of the rows that match."""
        scan = Scan(
            entries,
            view.schema,
            self._table,
            columns=view.schema.primary_key,
            where=shown_where(self._where, view.shows),
        )
        await scan.prune_by_indexes(self._table)
        return await self._write(view, scan.tables(), deletes=True)

    async def _rewritten(
        self, view: View, entries: Sequence[FileEntry], bound: Expr
    ) -> tuple[tuple[FileEntry, ...], tuple[FileEntry, ...]]:
        """Rewrites the files of a table without a key that hold matching rows, without those rows.

        Returns the files to remove and the files that hold their other rows.
        """
        pruner = Pruner(bound, view.schema)
        others = any_of(~self._where, IsNull(self._where))

        async def rewrite(entry: FileEntry) -> tuple[FileEntry, UploadedFiles] | None:
            scan = Scan([entry], view.schema, self._table, where=others)
            written = await self._write(view, scan.tables())
            # Bounds said that a row may match, and none did: the file stays, and its copy is given up.
            return None if written.rows == entry.rows else (entry, written)

        judged = zip(entries, pruner.judge_all(entries), strict=True)
        touched = [entry for entry, (verdict, _) in judged if verdict is not Verdict.NONE]
        answers = await self._table.ask_indexes(IndexQuestion(self._where, view.schema), touched)
        touched = [entry for entry in touched if not answers.excludes(entry)]
        check_flushed(touched)
        removed, added = [], []
        async for rewritten in map_bounded(rewrite, touched, _REWRITES):
            if rewritten is None:
                continue
            entry, written = rewritten
            removed.append(entry)
            # The rows stay where they were in the order of the table.
            added += [dataclasses.replace(copy, lo=entry.lo, hi=entry.hi) for copy in written.entries]
        return tuple(removed), tuple(added)

    async def _write(self, view: View, rows: object, *, deletes: bool = False) -> UploadedFiles:
        written = await self._table.write(view, rows, deletes=deletes)
        self._uploads.append(written)
        return written


def _overlaps(entry: FileEntry, others: Sequence[FileEntry]) -> bool:
    """Returns whether a file may hold a key of one of the other files."""
    low, high = entry.min_key, entry.max_key
    return any(
        low is None
        or high is None
        or candidate.min_key is None
        or candidate.max_key is None
        or (candidate.min_key <= high and low <= candidate.max_key)
        for candidate in others
    )


@dataclass(kw_only=True)
class InsertingWrite(TableWrite):
    """Write that adds rows whose keys must be new; AlreadyExistsError names one that exists.

    A key that two of the rows have is refused as well, however far apart they are, before the commit.
    """

    missing: Missing | None = None
    """``error`` to refuse rows without all columns; no older row can lose a value."""

    def __post_init__(self) -> None:
        if self.missing == "keep":
            raise InvalidInputError(
                "missing='keep' keeps values of older rows, and with on_conflict='error' there are none"
            )

    async def change(self, view: View) -> FilesChange:
        """Uploads the rows; returns the change that adds them, if the head has none of their keys."""
        keys: list[pa.Table] = []
        check = refusing_missing(view.schema, self.missing or "null")
        written = await self.table.write(view, _remembered(self.data, view, keys, check))
        return _InsertNew(self.table, written, keys)


async def _remembered(
    data: object, view: View, keys: list[pa.Table], check: CheckNames | None
) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows and collects their keys; refuses a key that comes twice."""
    limit = view.options.write_buffer_bytes
    async with aclosing(fitted_chunks(data, view.schema, chunk_bytes=limit, check=check)) as chunks:
        async for rows in chunks:
            keys.append(rows.select(view.schema.primary_key))
            yield rows
    if keys:
        await in_thread(_refuse_repeated, keys, view.schema)


def _refuse_repeated(keys: Sequence[pa.Table], schema: TableSchema) -> None:
    refuse_repeated_keys(pa.concat_tables(keys).combine_chunks(), KeyColumns(schema.key_fields))


class _InsertNew(FilesChange):
    """Change that adds files of rows whose keys the head must not have."""

    blind: ClassVar[bool] = False

    def __init__(self, table: OpenTable, written: UploadedFiles, keys: Collection[pa.Table]) -> None:
        self._table, self.written = table, written
        self._keys = pa.concat_tables(keys) if keys else None
        self._checked: frozenset[str] = frozenset()
        """Files that have been searched and hold none of the keys."""

    async def draft(self, base: Base) -> Draft | None:
        """Searches for the keys, unless the files are those of the last search."""
        if not self.written.entries and not base.must_commit:
            return None
        if self._keys is not None and self._keys.num_rows:
            await self._refuse_known(base)
        return Draft(kind=CommitKind.APPEND, added=self.written.entries)

    async def _refuse_known(self, base: Base) -> None:
        entries = await base.entries()
        paths = frozenset(entry.path for entry in entries)
        if paths == self._checked:
            return
        view = await self._table.view_of(base.snapshot)
        lookup = Lookup(entries, view.schema, self._table, shows=view.shows)
        existing = await lookup.get_many(self._keys, columns=view.schema.primary_key)
        if existing.num_rows:
            raise AlreadyExistsError(
                f"{existing.num_rows:,} of the new rows have keys that are there already, such as "
                f"{existing.slice(0, 1).to_pylist()[0]}: use upsert to replace them",
                rows=existing.num_rows,
                key=existing.slice(0, 1).to_pylist()[0],
            )
        self._checked = paths
