"""Writes that read: delete and overwrite by a condition, and inserts whose keys must be new.

Each is decided at a base. When others commit first, it checks what they added: files that cannot
match the condition, and hold no key it wrote, change nothing; otherwise it decides again.

Invariant: the snapshot that such a write makes is the one it would have made had it begun when its
parent was committed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Collection, Sequence
from contextlib import aclosing
from typing import ClassVar

import pyarrow as pa

from lakehouse.errors import AlreadyExistsError, InvalidInputError
from lakehouse.expr import Expr, any_of, matching
from lakehouse.expr.bounds import Verdict
from lakehouse.expr.nodes import IsNull
from lakehouse.format.metadata import CommitKind, FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.commit.changes import check_flushed
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.commit.spilled_manifest import SpilledManifest
from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files, object_paths
from lakehouse.storage.indexes.search import IndexQuestion
from lakehouse.storage.rows.duplicate_keys import refuse_repeated_keys
from lakehouse.storage.rows.input_tables import CheckNames, fitted_chunks
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.missing_columns import Missing, refusing_missing
from lakehouse.storage.scan.conditions import bind_where
from lakehouse.storage.scan.lookup import Lookup
from lakehouse.storage.scan.partitions import partition_test
from lakehouse.storage.scan.pruner import Pruner
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.schema.row_ttl import shown_where
from lakehouse.storage.tables.commit_result import CommitResult, delete_unless_committed, result_of
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from lakehouse.storage.wal.tail import Tail
from lakehouse.storage.write.blind_writes import WriterId, replace_partitions, with_current_schema

__all__ = [
    "commit_replacing",
    "delete_matching",
    "insert_rows",
    "matching_rows",
    "overwrite_matching",
    "refuse_ignored_deletes",
]

_REWRITES = 4
"""Files of an append-only table that are rewritten at once."""


async def delete_matching(
    table: OpenTable, where: Expr, *, writer: WriterId | None = None, message: str | None = None
) -> CommitResult:
    """Deletes the rows that match a condition."""
    return await _replace_matching(table, where, None, CommitKind.DELETE, writer, message)


async def overwrite_matching(
    table: OpenTable, data: object, where: Expr, *, writer: WriterId | None = None, message: str | None = None
) -> CommitResult:
    """Replaces the rows that match a condition by others, which must match too."""
    view = await table.known()
    if partition_test(where, view.schema) is not None:

        def holds(view: View):  # type: ignore[no-untyped-def]
            return partition_test(where, view.schema)

        return await replace_partitions(table, data, holds=holds, writer=writer, message=message)
    return await _replace_matching(table, where, data, CommitKind.OVERWRITE, writer, message)


async def _replace_matching(
    table: OpenTable,
    where: Expr,
    data: object | None,
    kind: CommitKind,
    writer: WriterId | None,
    message: str | None,
) -> CommitResult:

    async def attempt(view: View, tail: Awaitable[Tail | None]) -> CommitResult:
        bind_where(where, view.schema)
        refuse_ignored_deletes(table, view)
        new = UploadedFiles()
        if data is not None:
            rows = matching_rows(data, view.schema, where, chunk_bytes=view.options.write_buffer_bytes)
            new = await table.write(view, rows)
        async with delete_unless_committed(table, lambda: object_paths(new.entries)) as fate:
            done = await commit_replacing(
                table, where, new, view=view, tail=tail, kind=kind, writer=writer, message=message
            )
            fate.committed = done.changed
        return done

    return await with_current_schema(table, data if data is not None else (), attempt)


async def commit_replacing(
    table: OpenTable,
    where: Expr,
    new: UploadedFiles,
    *,
    view: View,
    tail: Awaitable[Tail | None],
    kind: CommitKind,
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Removes the rows that match, and adds others that are uploaded.

    If nothing is committed, the files of the added rows are left to the caller to delete.
    """
    change = _ReplaceMatching(table, where, new, kind=kind, must_commit=writer is not None, message=message)
    async with delete_unless_committed(table, lambda: change.uploaded) as fate:
        done = await table.commit(
            change, view=view, writer=writer, uploaded_ms=change.first_upload_ms, tail=await tail
        )
        fate.committed = done.changed
    if done.changed:
        # Files of drafts that lost against other commits are in no snapshot.
        await delete_files(table.env.store, table.root, change.abandoned())
    result = result_of(done, change.written)
    return dataclasses.replace(result, rows=change.deleted if kind is CommitKind.DELETE else new.rows)


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


class _ReplaceMatching:
    """Change that removes the rows that match a condition, and adds others.

    Args:
        table: the table.
        where: the condition.
        new: uploaded rows to add.
        kind: kind of the snapshot.
        must_commit: whether to commit even if nothing matches, to record a writer's sequence.
        message: the snapshot's message, for people.
    """

    blind: ClassVar[bool] = False

    def __init__(
        self,
        table: OpenTable,
        where: Expr,
        new: UploadedFiles,
        *,
        kind: CommitKind,
        must_commit: bool,
        message: str | None,
    ) -> None:
        self._table, self._where, self._new = table, where, new
        self._kind, self._must_commit, self._message = kind, must_commit, message
        self._own = SpilledManifest(table.env.store, table.root)
        self._base: Base | None = None
        self._draft: Draft | None = None
        self.uploaded: list[str] = []
        """Paths of every file that was uploaded by this change, for whatever base."""
        self.first_upload_ms = new.first_upload_ms
        self.written = new
        """Rows and files that the last draft adds."""
        self.deleted = 0
        """Number of rows that the last draft removes."""

    def abandoned(self) -> list[str]:
        """Returns the files of drafts that were given up."""
        kept = set(object_paths(self.written.entries))
        return [path for path in self.uploaded if path not in kept]

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
            self.deleted = sum(entry.rows for entry in removed)
            added: tuple[FileEntry, ...] = ()
        elif view.schema.primary_key:
            removed = ()
            added = await self._deletions(view, entries)
        else:
            removed, added = await self._rewritten(view, entries, bound)
        # New rows come after the deletions of the same commit, which would hide them: higher run numbers.
        after = max((entry.run + 1 for entry in added if entry.lo is None), default=0)
        added += tuple(dataclasses.replace(entry, run=entry.run + after) for entry in self._new.entries)
        self.written = dataclasses.replace(self._new, entries=added)
        if not added and not removed and not self._must_commit:
            return None
        return Draft(
            kind=self._kind,
            added=added,
            manifest=await self._own.of(added, base.snapshot),
            removed=removed,
            uploaded_ms=self.first_upload_ms,
            message=self._message,
        )

    async def _deletions(self, view: View, entries: Sequence[FileEntry]) -> tuple[FileEntry, ...]:
        """Uploads rows that delete the keys of the rows that match, and returns their files."""
        scan = Scan(
            entries,
            view.schema,
            self._table,
            columns=view.schema.primary_key,
            where=shown_where(self._where, view.shows),
        )
        await scan.prune_by_indexes(self._table)
        written = await self._write(view, scan.tables(), deletes=True)
        self.deleted = written.rows
        return written.entries

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
            if written.rows == entry.rows:
                self.uploaded += object_paths(written.entries)
                return None
            return entry, written

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
        self.deleted = sum(entry.rows for entry in removed) - sum(copy.rows for copy in added)
        return tuple(removed), tuple(added)

    async def _write(self, view: View, rows: object, *, deletes: bool = False) -> UploadedFiles:
        written = await self._table.write(view, rows, deletes=deletes)
        self.uploaded += object_paths(written.entries)
        if self.first_upload_ms is None:
            self.first_upload_ms = written.first_upload_ms
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


async def insert_rows(
    table: OpenTable,
    data: object,
    *,
    missing: Missing | None = None,
    writer: WriterId | None = None,
    message: str | None = None,
) -> CommitResult:
    """Adds rows whose keys must be new; AlreadyExistsError names one that exists.

    A key that two of the rows have is refused as well, however far apart they are, before the commit.
    ``missing`` is ``error`` to refuse rows without all columns; no older row can lose a value.
    """
    if missing == "keep":
        raise InvalidInputError(
            "missing='keep' keeps values of older rows, and with on_conflict='error' there are none"
        )

    async def attempt(view: View, tail: Awaitable[Tail | None]) -> CommitResult:
        keys: list[pa.Table] = []
        check = refusing_missing(view.schema, missing or "null")
        written = await table.write(view, _remembered(data, view, keys, check))
        change = _InsertNew(table, written, keys, must_commit=writer is not None, message=message)
        async with delete_unless_committed(table, lambda: object_paths(written.entries)) as fate:
            done = await table.commit(
                change, view=view, writer=writer, uploaded_ms=written.first_upload_ms, tail=await tail
            )
            fate.committed = done.changed
        return result_of(done, written)

    return await with_current_schema(table, data, attempt)


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


class _InsertNew:
    """Change that adds files of rows whose keys the head must not have."""

    blind: ClassVar[bool] = False

    def __init__(
        self,
        table: OpenTable,
        written: UploadedFiles,
        keys: Collection[pa.Table],
        *,
        must_commit: bool,
        message: str | None,
    ) -> None:
        self._table, self._written = table, written
        self._keys = pa.concat_tables(keys) if keys else None
        self._must_commit, self._message = must_commit, message
        self._own = SpilledManifest(table.env.store, table.root)
        self._checked: frozenset[str] = frozenset()
        """Files that have been searched and hold none of the keys."""

    async def draft(self, base: Base) -> Draft | None:
        """Searches for the keys, unless the files are those of the last search."""
        if not self._written.entries and not self._must_commit:
            return None
        if self._keys is not None and self._keys.num_rows:
            await self._refuse_known(base)
        return Draft(
            kind=CommitKind.APPEND,
            added=self._written.entries,
            manifest=await self._own.of(self._written.entries, base.snapshot),
            message=self._message,
        )

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
