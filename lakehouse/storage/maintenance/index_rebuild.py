"""Index files for data files that have none, or not those that the table has now.

Each data file is read once, the columns that are indexed alone. Entries are replaced by others of the
same path, some at a time, so that what was done stays done. A file that is gone when its turn comes to
be committed is passed over, and its index file deleted.

Invariant: no row changes, and no commit of others fails or waits: whoever removes a data file, removes
it whatever its entry says of indexes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr
from lakehouse.format.metadata import CommitKind, FileEntry, FileFormat, IndexRef
from lakehouse.format.schema import Field, IndexDefinition, TableSchema, walk
from lakehouse.ids import new_uuid
from lakehouse.io.cost import Cost, measure
from lakehouse.io.work import ProgressCallback, Teller, map_bounded
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.files.file_writer import delete_files
from lakehouse.storage.indexes.build import build_index, definitions_for
from lakehouse.storage.metadata.paths import index_path, join
from lakehouse.storage.metadata.store_clock import answered_ms
from lakehouse.storage.scan.partitions import partition_test
from lakehouse.storage.scan.table_scan import to_expr
from lakehouse.storage.tables.commit_result import committed_or_deleted
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = [
    "IndexWork",
    "RebuildResult",
    "commit_indexes",
    "index_one",
    "plan_rebuild",
    "planned_rebuild",
    "rebuild_indexes",
]

_AT_ONCE = 2
"""Files that are read and indexed beside each other; each is computation for a core."""
_COMMIT_FILES = 64
"""Entries of one commit: a snapshot carries them itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """What a rebuild did, or with ``dry_run`` would do."""

    snapshot: int
    """Id of the last snapshot it made; of the newest one when it made none."""
    dry_run: bool = False
    files: int = 0
    """Data files whose index files are new."""
    dropped: int = 0
    """Data files whose index files are of no use any more."""
    passed_over: int = 0
    """Data files that others took away meanwhile."""
    rows: int = 0
    """Rows that were indexed."""
    bytes: int = 0
    """Bytes of the new index files."""
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.files or self.dropped)

    def then(self, other: RebuildResult) -> RebuildResult:
        """Both, one after the other."""
        return dataclasses.replace(
            other,
            files=self.files + other.files,
            dropped=self.dropped + other.dropped,
            passed_over=self.passed_over + other.passed_over,
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        names = [one.name for one in dataclasses.fields(self) if one.name != "cost"]
        return {**{name: getattr(self, name) for name in names}, **self.cost.as_dict()}

    def __str__(self) -> str:
        word = "would index" if self.dry_run else "indexed"
        return (
            f"snapshot {self.snapshot}: {word} {self.rows:,} rows of {self.files} files into {self.bytes:,} "
            f"bytes, dropped {self.dropped}, passed over {self.passed_over}; {self.cost}"
        )


async def rebuild_indexes(
    core: OpenTable,
    where: Expr | str | None = None,
    *,
    every: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> RebuildResult:
    """Indexes the data files that are not indexed as the table says.

    Args:
        core: the table.
        where: a condition on whole partitions; None = all of them.
        every: also files that are.
        dry_run: only say what there is to do.
        progress: told how far it has got.
    """
    with measure() as cost:
        view = await core.newest()
        work = await plan_rebuild(view, to_expr(where), every=every)
        if dry_run:
            found = planned_rebuild(view, work)
        else:
            async with reading(core, view):
                found = await _Rebuild(core, view, progress).run(work)
    return dataclasses.replace(found, cost=cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWork:
    """A data file, and the indexes that it is to have."""

    entry: FileEntry
    definitions: tuple[IndexDefinition, ...]


def planned_rebuild(view: View, work: Sequence[IndexWork]) -> RebuildResult:
    """What a rebuild would do."""
    files = [one.entry for one in work if one.definitions]
    return RebuildResult(
        snapshot=view.snapshot.id,
        dry_run=True,
        files=len(files),
        dropped=len(work) - len(files),
        rows=sum(one.rows for one in files),
    )


async def plan_rebuild(view: View, where: Expr | None, *, every: bool = False) -> list[IndexWork]:
    """The data files of a snapshot that are not indexed as the table says, or with ``every`` all of them."""
    holds = None
    if where is not None:
        holds = partition_test(where, view.schema)
        if holds is None:
            raise InvalidInputError(
                "rebuild_indexes takes a condition on partition columns alone, of a table whose primary key "
                "holds them all or which has none"
            )
    found: list[IndexWork] = []
    options = view.options
    for one in await view.files():
        if one.format is FileFormat.WAL or (holds is not None and not holds(one.partition)):
            continue
        wanted = definitions_for(view.schema, options, rows=one.rows, deletes=one.deletes)
        has = one.index.ids if one.index is not None else ()
        is_due = every or set(has) != {definition.id for definition in wanted}
        if is_due and (wanted or one.index is not None):
            found.append(IndexWork(entry=one, definitions=wanted))
    return found


async def index_one(core: OpenTable, schema: TableSchema, work: IndexWork) -> tuple[FileEntry, int | None]:
    """The entry of a file with its new index, which is in the store, and when its upload was answered.

    Where that is done need not be where it was planned.
    """
    entry, definitions = work.entry, work.definitions
    if not definitions:
        return dataclasses.replace(entry, index=None), None
    ids = {number for one in definitions for number in one.field_ids}
    fields = [one for one in schema.fields if any(part.id in ids for _, part in walk((one,)))]
    path = index_path(str(new_uuid()))
    built = await build_index(
        partial(_rows, core, schema, entry, fields), schema, definitions, path=path, of=entry.path
    )
    if built is None:
        return dataclasses.replace(entry, index=None), None
    stored = await core.env.store.put(join(core.root, built.ref.path), built.data)
    return dataclasses.replace(entry, index=built.ref), await answered_ms(core.env.store, stored)


async def _rows(
    core: OpenTable, schema: TableSchema, entry: FileEntry, fields: Sequence[Field]
) -> AsyncGenerator[pa.Table, None]:
    reader = await core.open(entry, schema)
    for number in range(len(reader.pieces)):
        yield await reader.read(fields, [number])


async def commit_indexes(
    core: OpenTable, view: View, entries: Sequence[FileEntry], uploaded_ms: int | None
) -> RebuildResult:
    """Says of data files that they have these indexes; those that are gone are passed over.

    Args:
        core: the table.
        view: the state they were planned in.
        entries: the files, with indexes that are in the store.
        uploaded_ms: when the first of these uploads was answered.
    """
    change = _ReplaceIndexes(entries)
    async with committed_or_deleted(core, lambda: _index_paths(entries)) as fate:
        committed = await core.commit(change, view=view, uploaded_ms=uploaded_ms)
        fate.kept = committed.changed
    kept = {one.path for one in change.replaced} if committed.changed else set()
    over = [one for one in entries if one.path not in kept]
    if committed.changed:
        await delete_files(core.env.store, core.root, _index_paths(over))
    new = [one for one in entries if one.path in kept and one.index is not None]
    return RebuildResult(
        snapshot=committed.snapshot.id,
        files=len(new),
        dropped=len(kept) - len(new),
        passed_over=len(over),
        rows=sum(one.rows for one in new),
        bytes=sum(one.index.size for one in new if one.index is not None),
    )


class _Rebuild:
    """One rebuild under way."""

    def __init__(self, core: OpenTable, view: View, progress: ProgressCallback | None) -> None:
        self._core, self._view, self._teller = core, view, Teller(progress)
        self._done = RebuildResult(snapshot=view.snapshot.id)

    async def run(self, work: Sequence[IndexWork]) -> RebuildResult:
        """Does it all; what is in the store and in no snapshot when it fails is deleted."""
        waiting: list[FileEntry] = []
        uploads: list[int] = []
        try:
            index = partial(index_one, self._core, self._view.schema)
            results = map_bounded(index, work, _AT_ONCE, ordered=False)
            async with aclosing(results):
                async for entry, uploaded_ms in results:
                    waiting.append(entry)
                    if uploaded_ms is not None:
                        uploads.append(uploaded_ms)
                    self._teller.step("index files", 1, len(work))
                    if len(waiting) >= _COMMIT_FILES:
                        batch, waiting = waiting, []
                        await self._commit(batch, min(uploads, default=None))
                        uploads = []
            if waiting:
                batch, waiting = waiting, []
                await self._commit(batch, min(uploads, default=None))
        except BaseException:
            await delete_files(self._core.env.store, self._core.root, _index_paths(waiting))
            raise
        return self._done

    async def _commit(self, entries: Sequence[FileEntry], uploaded_ms: int | None) -> None:
        self._done = self._done.then(await commit_indexes(self._core, self._view, entries, uploaded_ms))


def _index_paths(entries: Sequence[FileEntry]) -> list[str]:
    return [one.index.path for one in entries if one.index is not None]


class _ReplaceIndexes:
    """Says of data files that they have these indexes, of those that are still there."""

    blind: ClassVar[bool] = False

    def __init__(self, entries: Sequence[FileEntry]) -> None:
        self._indexes: dict[str, IndexRef | None] = {one.path: one.index for one in entries}
        self.replaced: tuple[FileEntry, ...] = ()

    async def draft(self, base: Base) -> Draft | None:
        """What is live, as the head has it, with other indexes."""
        live = await base.manifests.entries(base.snapshot)
        self.replaced = tuple(
            dataclasses.replace(one, index=self._indexes[one.path])
            for one in live
            if one.path in self._indexes
        )
        return Draft(kind=CommitKind.INDEX, replaced=self.replaced) if self.replaced else None
