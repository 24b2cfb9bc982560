"""Purging of dropped tables: their objects are deleted when the grace since the drop is over.

A directory belongs to a dropped table when its newest snapshot is a drop. That snapshot is deleted last,
so that the next run completes one that ended anywhere.

Before anything is deleted, the pointer that refers to the table is set to ``purging``, by replacing the
version that was read before the log. An undrop replaces the same pointer: one of the two succeeds.

Invariant: a directory whose newest snapshot is anything but an old drop loses nothing, nor does one whose
table is live by its pointer. Name pointers stay: stores have no conditional delete, so a pointer could be
deleted after somebody has taken the name.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from lakehouse.errors import ConflictError, FormatError, LakehouseError
from lakehouse.format.metadata import CommitKind, NameState, Snapshot, decode_hint, decode_snapshot
from lakehouse.format.schema import TableOptions, decode_schema
from lakehouse.ids import new_token
from lakehouse.io.protocols import Fetched
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import DryRunReport, ProgressCallback, ProgressReporter, map_bounded, measured, or_none
from lakehouse.storage.commit.kinds import traits_of
from lakehouse.storage.maintenance.deletions import Deletions
from lakehouse.storage.maintenance.purge_views import purge_views
from lakehouse.storage.metadata.dense_log import DenseLog
from lakehouse.storage.metadata.paths import LATEST, SNAPSHOT_PREFIX, ObjectKind, join, object_kind, relative
from lakehouse.storage.metadata.store_clock import ask_store_ms
from lakehouse.storage.metadata.table_name import TableName, check_name
from lakehouse.storage.tables.arguments import check_seconds
from lakehouse.storage.tables.drop import drop_table
from lakehouse.storage.tables.names import Names
from lakehouse.storage.tables.open_tables import Environment, OpenTable, is_dropped

__all__ = ["PurgeReport", "purge_dropped"]

_TABLE = re.compile(r"[^/]+/[^/]+-(?P<uuid>[0-9a-f]{8})/")
_BATCH = 1_000
"""Objects deleted together."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PurgeReport(DryRunReport):
    """Result of a purge, or with ``dry_run`` its estimate."""

    tables: tuple[str, ...] = ()
    """Directories of dropped tables whose objects were deleted."""
    views: tuple[str, ...] = ()
    """Directories of dropped views whose versions were deleted."""
    waiting: tuple[str, ...] = ()
    """Directories of tables and views that were dropped too recently, or whose name was changed meanwhile."""
    unreadable: tuple[str, ...] = ()
    """Directories whose newest snapshot cannot be read; they are left alone."""
    objects: int = 0
    """Number of objects deleted."""
    bytes: int = 0
    """Bytes of the objects deleted."""
    foreign: int = 0
    """Objects in the directories that are not ours; they stay."""

    def __str__(self) -> str:
        views = f" and {len(self.views):,} views" if self.views else ""
        return (
            f"{len(self.tables):,} dropped tables{views} {self._did('purged')}: "
            f"{self.objects:,} objects, {self.bytes:,} bytes; {len(self.waiting):,} wait; {self.cost}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """Findings about a directory; with only ``root`` set it holds a live table, or none."""

    root: str
    head: Snapshot | None = None
    """Newest snapshot of a table that is or was dropped."""
    waits: bool = False
    """Whether the grace since the drop is not over."""
    unreadable: bool = False


@measured
async def purge_dropped(
    env: Environment,
    names: Names,
    database: str | None = None,
    *,
    grace_s: float | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> PurgeReport:
    """Deletes the objects of tables that were dropped long enough ago; see ``Lake.purge_dropped``."""
    if database is not None:
        check_name(database, "database")
    grace_s = check_seconds("grace_s", grace_s)
    reporter = ProgressReporter(progress)
    deletions = Deletions(env.store, "", reporter, dry_run=dry_run)

    async def look(root: str) -> _Look:
        findings = await _look_at(env.store, root, grace_s)
        reporter.step("look at tables")
        return findings

    at_once, roots = env.settings.table.read_concurrency, _directories(env.store, database)
    looks = [findings async for findings in map_bounded(look, roots, at_once)]
    run = _Run(env, names, deletions, dry_run=dry_run)
    await run.purge(looks)
    views = await purge_views(
        env,
        names,
        _databases(env.store, database),
        deletions,
        grace_s=TableOptions().delete_grace_s if grace_s is None else grace_s,
        dry_run=dry_run,
    )
    return PurgeReport(
        tables=tuple(run.purged),
        views=tuple(views.purged),
        waiting=(*run.waiting, *views.waiting),
        unreadable=tuple(findings.root for findings in looks if findings.unreadable),
        objects=deletions.objects,
        bytes=deletions.bytes,
        foreign=run.foreign + views.foreign,
        dry_run=dry_run,
    )


class _Run:
    """One purge of the directories that were examined."""

    def __init__(self, env: Environment, names: Names, deletions: Deletions, *, dry_run: bool) -> None:
        self._env, self._names, self._deletions, self._dry_run = env, names, deletions, dry_run
        self.purged: list[str] = []
        self.waiting: list[str] = []
        self.foreign = 0

    async def purge(self, looks: Sequence[_Look]) -> None:
        """Deletes tables that have waited long enough and cannot come back any more."""
        heads = [(look, look.head) for look in looks if look.head is not None]
        # Among those that wait, only tables brought back must be separated from those that were not.
        unclear = [(look, head) for look, head in heads if not look.waits or head.kind is CommitKind.UNDROP]
        names = await self._names.names_of({head.table: _made_as(look.root) for look, head in unclear})
        for look, head in heads:
            turn = await self._turned(look, head, names.get(head.table))
            if turn is _Turn.WAITS:
                self.waiting.append(look.root)
            elif turn is _Turn.GOES:
                self.purged.append(look.root)
                self.foreign += await _purge(self._env.store, look.root, head, self._deletions)

    async def _turned(self, look: _Look, head: Snapshot, name: TableName | None) -> _Turn:
        """Sets the pointer to purging, so that nobody restores the table, and returns what to do with it."""
        is_drop = head.kind is CommitKind.DROP
        if name is None:
            # No pointer refers to it, so nobody can bring it back.
            if not is_drop:
                return _Turn.STAYS
            return _Turn.WAITS if look.waits else _Turn.GOES
        pointer, version = await self._names.look(name)
        state = pointer.state_of(head.table)
        table = OpenTable(self._env, name, dataclasses.replace(pointer, table=head.table, path=look.root))
        if state is NameState.LIVE and not (is_drop and await is_dropped(table)):
            return _Turn.STAYS
        if look.waits or state in (None, NameState.MOVED):
            return _Turn.WAITS
        if self._dry_run:
            return _Turn.GOES if is_drop else _Turn.WAITS
        if state is not NameState.PURGING:
            try:
                await self._names.replace(pointer.purging(head.table, token=new_token()), version=version)
            except ConflictError:
                return _Turn.WAITS
        if await is_dropped(table):
            return _Turn.GOES
        # An undrop made its commit and did not get the name: drop the table again, for those who opened it.
        await drop_table(table)
        return _Turn.WAITS


class _Turn(enum.Enum):
    """Decision about a directory in this run."""

    GOES = enum.auto()
    """Its objects are deleted now."""
    WAITS = enum.auto()
    """It is decided about in a later run."""
    STAYS = enum.auto()
    """Its table is live, or was never dropped."""


def _made_as(root: str) -> TableName:
    """Returns the name that a table had when its directory was made."""
    database, _, directory = root.rpartition("/")
    return TableName(database, directory.rpartition("-")[0])


async def _directories(store: ObjectStore, database: str | None) -> AsyncGenerator[str, None]:
    """Yields directories that may be tables', of dropped databases too."""
    async with aclosing(_databases(store, database)) as databases:
        async for database_prefix in databases:
            async with aclosing(store.directories(database_prefix)) as directories:
                async for directory in directories:
                    if _TABLE.fullmatch(directory):
                        yield directory.removesuffix("/")


async def _databases(store: ObjectStore, database: str | None) -> AsyncGenerator[str, None]:
    """Yields the prefixes of databases, of dropped ones too."""
    if database is not None:
        yield f"{database}/"
        return
    async with aclosing(store.directories()) as found:
        async for prefix in found:
            if not prefix.startswith("_"):
                yield prefix


async def _look_at(store: ObjectStore, root: str, grace_s: float | None) -> _Look:
    log = DenseLog(store, join(root, SNAPSHOT_PREFIX))
    fetched = await _newest(store, root, log)
    if fetched is None:
        return _Look(root=root)
    try:
        head = decode_snapshot(fetched.data, key=fetched.key)
    except FormatError:
        return _Look(root=root, unreadable=True)
    if not traits_of(head.kind).may_be_dropped or not root.endswith(f"-{head.table.hex[:8]}"):
        return _Look(root=root)
    grace = await _grace_of(store, root, head) if grace_s is None else grace_s
    about = await store.head(fetched.key)
    now_ms = about.store_time_ms
    if now_ms is None:
        now_ms = await ask_store_ms(store, root, fetched.key)
    age_ms = (now_ms or 0) - (about.modified_ms if about.modified_ms is not None else head.time_ms)
    return _Look(root=root, head=head, waits=grace > 0 and age_ms < grace * 1000)


async def _newest(store: ObjectStore, root: str, log: DenseLog) -> Fetched | None:
    hint = await or_none(store.get(join(root, LATEST)))
    known = decode_hint(hint.data if hint is not None else b"", None).snapshot
    # The hint may be ahead of a log whose newest objects are gone: then the log is read from its beginning.
    for after in dict.fromkeys((max(known - 1, 0), 0)):
        for number in await log.highest(after=after):
            fetched = await log.find(number)
            if fetched is not None:
                return fetched
    return None


async def _grace_of(store: ObjectStore, root: str, head: Snapshot) -> float:
    """Returns the table's option; the default where its schema cannot be read any more."""
    key = join(root, head.schema.path)
    try:
        schema = decode_schema((await store.get(key)).data, key=key).schema
        return TableOptions.parse(schema.options).delete_grace_s
    except LakehouseError:
        return TableOptions().delete_grace_s


async def _purge(store: ObjectStore, root: str, drop: Snapshot, deletions: Deletions) -> int:
    """Deletes our objects, the drop last; returns how many foreign objects there are."""
    foreign, batch = 0, list[tuple[str, int]]()
    snapshots: list[tuple[str, int]] = []
    async for listed in store.list(f"{root}/"):
        kind = object_kind(relative(root, listed.key))
        if kind is None:
            foreign += 1
        elif kind in (ObjectKind.SNAPSHOT, ObjectKind.HINT):
            snapshots.append((listed.key, listed.size))
        else:
            batch.append((listed.key, listed.size))
        if len(batch) == _BATCH:
            await deletions.delete(batch)
            batch = []
    await deletions.delete(batch)
    # The drop goes last: as long as it is there, the next run knows that the table is dropped.
    key = DenseLog(store, join(root, SNAPSHOT_PREFIX)).key(drop.id)
    await deletions.delete(snapshot for snapshot in snapshots if snapshot[0] != key)
    await deletions.delete(snapshot for snapshot in snapshots if snapshot[0] == key)
    return foreign
