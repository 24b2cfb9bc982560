"""Rebuild of index files for data files that have none, or not the indexes that the table has now.

Each data file is read once, only with the indexed columns. Entries are replaced by others of the same path,
some at a time, so that an interrupted rebuild keeps what it has committed. A file that is gone when its turn
comes to be committed is passed over, and its index file deleted.

Invariant: no row changes, and no commit of others fails or waits: a data file is removed by its path,
whatever its entry says about indexes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr
from lakehouse.format.metadata import CommitKind, FileEntry, FileFormat, IndexRef
from lakehouse.format.schema import Field, IndexDefinition, TableSchema, walk
from lakehouse.ids import new_uuid
from lakehouse.io.work import DryRunReport, ProgressCallback, ProgressReporter, map_bounded, measured
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.files.uploaded_files import delete_files
from lakehouse.storage.indexes.build import build_index, definitions_for
from lakehouse.storage.metadata.paths import index_path, join
from lakehouse.storage.metadata.store_clock import answered_ms
from lakehouse.storage.scan.conditions import partition_test
from lakehouse.storage.scan.table_scan import to_expr
from lakehouse.storage.tables.commit_result import keep_committed
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = [
    "IndexWork",
    "IndexedFile",
    "RebuildResult",
    "commit_indexes",
    "index_one",
    "plan_rebuild",
    "planned_rebuild",
    "rebuild_indexes",
]

_AT_ONCE = 2
"""Number of files that are read and indexed at once; each keeps a core busy."""
_COMMIT_FILES = 64
"""Maximum number of entries in one commit, few enough for the snapshot to carry them itself."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RebuildResult(DryRunReport):
    """Report of a rebuild, or with ``dry_run`` of its plan."""

    snapshot: int
    """Id of the last snapshot it made, or of the newest one when it made none."""
    files: int = 0
    """Number of data files with new index files."""
    dropped: int = 0
    """Number of data files that lost index files of no further use."""
    passed_over: int = 0
    """Number of data files that others removed meanwhile."""
    rows: int = 0
    """Number of rows that were indexed."""
    bytes: int = 0
    """Bytes of the new index files."""

    @property
    def changed(self) -> bool:
        """True when there was anything to do."""
        return bool(self.files or self.dropped)

    def then(self, other: RebuildResult) -> RebuildResult:
        """Returns the sum of this report and a later one."""
        return dataclasses.replace(
            other,
            files=self.files + other.files,
            dropped=self.dropped + other.dropped,
            passed_over=self.passed_over + other.passed_over,
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
        )

    def __str__(self) -> str:
        return (
            f"snapshot {self.snapshot}: {self._did('indexed', 'index')} {self.rows:,} rows of {self.files} "
            f"files into {self.bytes:,} bytes, dropped {self.dropped}, passed over {self.passed_over}; "
            f"{self.cost}"
        )


@measured
async def rebuild_indexes(
    table: OpenTable,
    where: Expr | str | None = None,
    *,
    every: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> RebuildResult:
    """Indexes the data files that do not have the indexes of the table's definitions.

    Args:
        table: the table.
        where: a condition on whole partitions; None = all of them.
        every: also files that have them.
        dry_run: only report the plan.
        progress: called with the work done so far.
    """
    view = await table.newest()
    work = await plan_rebuild(view, to_expr(where), every=every)
    if dry_run:
        return planned_rebuild(view, work)
    async with reading(table, view):
        return await _Rebuild(table, view, progress).run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWork:
    """Data file to index, with the definitions of the indexes it shall have; none = its index file goes."""

    entry: FileEntry
    definitions: tuple[IndexDefinition, ...]


def planned_rebuild(view: View, work: Sequence[IndexWork]) -> RebuildResult:
    """Returns the report of a planned rebuild."""
    files = [job.entry for job in work if job.definitions]
    return RebuildResult(
        snapshot=view.snapshot.id,
        dry_run=True,
        files=len(files),
        dropped=len(work) - len(files),
        rows=sum(entry.rows for entry in files),
    )


async def plan_rebuild(view: View, where: Expr | None, *, every: bool = False) -> list[IndexWork]:
    """Returns the data files of a snapshot that lack the table's indexes, or with ``every`` all files."""
    holds = None
    if where is not None:
        holds = partition_test(where, view.schema)
        if holds is None:
            raise InvalidInputError(
                "rebuild_indexes takes a condition on partition columns alone, of a table whose primary key "
                "holds them all or which has none"
            )
    work: list[IndexWork] = []
    options = view.options
    for entry in await view.files():
        if entry.format is FileFormat.WAL or (holds is not None and not holds(entry.partition)):
            continue
        wanted = definitions_for(view.schema, options, rows=entry.rows, deletes=entry.deletes)
        has = entry.index.ids if entry.index is not None else ()
        is_due = every or set(has) != {definition.id for definition in wanted}
        if is_due and (wanted or entry.index is not None):
            work.append(IndexWork(entry=entry, definitions=wanted))
    return work


IndexedFile = tuple[FileEntry, int | None]
"""An entry with its new index, and the time in ms at which its upload was answered; None = there was none."""


async def index_one(table: OpenTable, work: IndexWork, *, schema: TableSchema) -> IndexedFile:
    """Indexes a file and uploads its index file, in any process that has the work."""
    entry, definitions = work.entry, work.definitions
    if not definitions:
        return dataclasses.replace(entry, index=None), None
    ids = {number for definition in definitions for number in definition.field_ids}
    # An index of a nested field needs the column that holds it.
    fields = [column for column in schema.fields if any(part.id in ids for _, part in walk((column,)))]
    path = index_path(str(new_uuid()))
    built = await build_index(
        partial(_rows, table, schema, entry, fields), schema, definitions, path=path, of=entry.path
    )
    if built is None:
        return dataclasses.replace(entry, index=None), None
    stored = await table.env.store.put(join(table.root, built.ref.path), built.data)
    return dataclasses.replace(entry, index=built.ref), await answered_ms(table.env.store, stored)


async def _rows(
    table: OpenTable, schema: TableSchema, entry: FileEntry, fields: Sequence[Field]
) -> AsyncGenerator[pa.Table, None]:
    reader = await table.open(entry, schema)
    for number in range(len(reader.pieces)):
        yield await reader.read(fields, [number])


async def commit_indexes(table: OpenTable, view: View, indexed: Sequence[IndexedFile]) -> RebuildResult:
    """Commits data files' new indexes; files that are gone are passed over, and their index files deleted.

    Args:
        table: the table.
        view: the state they were planned in.
        indexed: the files, with indexes that are in the store.
    """
    entries = [entry for entry, _ in indexed]
    uploads = [uploaded_ms for _, uploaded_ms in indexed if uploaded_ms is not None]
    commit = table.commit(_ReplaceIndexes(entries), view=view, uploaded_ms=min(uploads, default=None))
    committed = await keep_committed(table, lambda: _index_paths(entries), commit)
    kept = {entry.path for entry in committed.entries}
    new = [entry for entry in entries if entry.path in kept and entry.index is not None]
    return RebuildResult(
        snapshot=committed.snapshot.id,
        files=len(new),
        dropped=len(kept) - len(new),
        passed_over=len(entries) - len(kept),
        rows=sum(entry.rows for entry in new),
        bytes=sum(entry.index.size for entry in new if entry.index is not None),
    )


class _Rebuild:
    """One rebuild under way, which commits its files in batches."""

    def __init__(self, table: OpenTable, view: View, progress: ProgressCallback | None) -> None:
        self._table, self._view, self._reporter = table, view, ProgressReporter(progress)
        self._done = RebuildResult(snapshot=view.snapshot.id)

    async def run(self, work: Sequence[IndexWork]) -> RebuildResult:
        """Runs all the work; on failure deletes the index files that are in no snapshot."""
        waiting: list[IndexedFile] = []
        try:
            index = partial(index_one, self._table, schema=self._view.schema)
            results = map_bounded(index, work, _AT_ONCE, ordered=False)
            async with aclosing(results):
                async for indexed in results:
                    waiting.append(indexed)
                    self._reporter.step("index files", 1, len(work))
                    if len(waiting) >= _COMMIT_FILES:
                        batch, waiting = waiting, []
                        await self._commit(batch)
            if waiting:
                batch, waiting = waiting, []
                await self._commit(batch)
        except BaseException:
            # Only the files of no batch: the commit of a batch has decided about its own.
            paths = _index_paths([entry for entry, _ in waiting])
            await delete_files(self._table.env.store, self._table.root, paths)
            raise
        return self._done

    async def _commit(self, indexed: Sequence[IndexedFile]) -> None:
        self._done = self._done.then(await commit_indexes(self._table, self._view, indexed))


def _index_paths(entries: Sequence[FileEntry]) -> list[str]:
    return [entry.index.path for entry in entries if entry.index is not None]


class _ReplaceIndexes:
    """Change that gives data files other indexes, as far as the head still has the files."""

    blind: ClassVar[bool] = False

    def __init__(self, entries: Sequence[FileEntry]) -> None:
        self._indexes: dict[str, IndexRef | None] = {entry.path: entry.index for entry in entries}

    async def draft(self, base: Base) -> Draft | None:
        """Returns the live entries with their new indexes; None when all files are gone."""
        live = await base.manifests.entries(base.snapshot)
        replaced = tuple(
            dataclasses.replace(entry, index=self._indexes[entry.path])
            for entry in live
            if entry.path in self._indexes
        )
        return Draft(kind=CommitKind.INDEX, replaced=replaced) if replaced else None
