"""What dropped tables leave behind: their objects are deleted when the grace since the drop is over.

A directory is of a dropped table when its newest snapshot says so. That snapshot is deleted last, so a
run that ended anywhere is gone on with by the next.

Invariant: a directory whose newest snapshot is anything but an old drop loses nothing. Name pointers
stay: a store cannot delete one only if nobody has taken the name meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from lakehouse.errors import FormatError, LakehouseError, NotFoundError
from lakehouse.format.schema_json import decode_schema
from lakehouse.format.snapshot import CommitKind, Snapshot, decode_snapshot
from lakehouse.format.table_options import TableOptions
from lakehouse.io.cost import Cost, measure
from lakehouse.io.fanout import map_bounded
from lakehouse.io.protocols import Fetched
from lakehouse.io.store import ObjectStore
from lakehouse.storage.layout import LATEST, SNAPSHOT_PREFIX, join
from lakehouse.storage.log import DenseLog
from lakehouse.storage.maintenance import Deletions, ProgressCallback, Teller, check_seconds
from lakehouse.storage.names import check_name
from lakehouse.storage.object_kinds import ObjectKind, object_kind

__all__ = ["PurgeReport", "purge_dropped"]

_TABLE = re.compile(r"[^/]+/[^/]+-(?P<uuid>[0-9a-f]{8})/")
_BATCH = 1_000
_LOOKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    """What a purge did, or with ``dry_run`` would do now."""

    tables: tuple[str, ...] = ()
    """Directories of dropped tables whose objects were deleted."""
    waiting: tuple[str, ...] = ()
    """Directories of tables that were dropped too lately."""
    unreadable: tuple[str, ...] = ()
    """Directories whose newest snapshot cannot be read; they are left alone."""
    objects: int = 0
    """Objects deleted."""
    bytes: int = 0
    """Of these."""
    foreign: int = 0
    """Objects in the directories that are none of ours; they stay."""
    dry_run: bool = False
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    def __str__(self) -> str:
        return (
            f"{len(self.tables):,} dropped tables {'would be ' if self.dry_run else ''}purged: "
            f"{self.objects:,} objects, {self.bytes:,} bytes; {len(self.waiting):,} wait; {self.cost}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What a directory turned out to be: nothing set = a live table, or none."""

    root: str
    drop: Snapshot | None = None
    waits: bool = False
    unreadable: bool = False


async def purge_dropped(
    store: ObjectStore,
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
    teller = Teller(progress)
    deletions = Deletions(store, "", teller, dry_run=dry_run)
    foreign = 0

    async def look(root: str) -> _Look:
        found = await _look_at(store, root, grace_s)
        teller.step("look at tables")
        return found

    with measure() as cost:
        looks = [one async for one in map_bounded(look, _directories(store, database), _LOOKS)]
        dropped = [one for one in looks if one.drop is not None and not one.waits]
        for one in dropped:
            assert one.drop is not None
            foreign += await _purge(store, one.root, one.drop, deletions)
    return PurgeReport(
        tables=tuple(one.root for one in dropped),
        waiting=tuple(one.root for one in looks if one.waits),
        unreadable=tuple(one.root for one in looks if one.unreadable),
        objects=deletions.objects,
        bytes=deletions.bytes,
        foreign=foreign,
        dry_run=dry_run,
        cost=cost,
    )


async def _directories(store: ObjectStore, database: str | None) -> AsyncGenerator[str, None]:
    """Directories that may be tables', of dropped databases too."""
    databases = _prefixes(store, "") if database is None else _one(f"{database}/")
    async with aclosing(databases):
        async for found in databases:
            async with aclosing(_prefixes(store, found)) as directories:
                async for one in directories:
                    if _TABLE.fullmatch(one):
                        yield one.removesuffix("/")


async def _one(item: str) -> AsyncGenerator[str, None]:
    yield item


async def _prefixes(store: ObjectStore, prefix: str) -> AsyncGenerator[str, None]:
    """The directories in a directory."""
    page: str | None = None
    while True:
        found = await store.list_page(prefix, delimiter="/", page=page)
        for one in found.prefixes:
            yield one
        page = found.next_page
        if page is None:
            return


async def _look_at(store: ObjectStore, root: str, grace_s: float | None) -> _Look:
    log = DenseLog(store, join(root, SNAPSHOT_PREFIX))
    fetched = await _newest(store, root, log)
    if fetched is None:
        return _Look(root=root)
    try:
        head = decode_snapshot(fetched.data, key=fetched.key)
    except FormatError:
        return _Look(root=root, unreadable=True)
    if head.kind is not CommitKind.DROP or not root.endswith(f"-{head.table.hex[:8]}"):
        return _Look(root=root)
    grace = await _grace_of(store, root, head) if grace_s is None else grace_s
    about = await store.head(fetched.key)
    now_ms = about.store_time_ms if about.store_time_ms is not None else fetched.store_time_ms
    age_ms = (now_ms or 0) - (about.modified_ms if about.modified_ms is not None else head.time_ms)
    return _Look(root=root, drop=head, waits=grace > 0 and age_ms < grace * 1000)


async def _newest(store: ObjectStore, root: str, log: DenseLog) -> Fetched | None:
    try:
        hint = (await store.get(join(root, LATEST))).data
    except NotFoundError as missing:
        if missing.kind == "missing-bucket":
            raise
        hint = b""
    known = int(hint) if hint.isdigit() and len(hint) < 20 else 0
    for after in dict.fromkeys((max(known - 1, 0), 0)):
        for number in await log.highest(after=after):
            found = await log.find(number)
            if found is not None:
                return found
    return None


async def _grace_of(store: ObjectStore, root: str, head: Snapshot) -> float:
    """The table's option; the default where its schema cannot be read any more."""
    key = join(root, head.schema.path)
    try:
        schema = decode_schema((await store.get(key)).data, key=key).schema
        return TableOptions.parse(schema.options).delete_grace_s
    except LakehouseError:
        return TableOptions().delete_grace_s


async def _purge(store: ObjectStore, root: str, drop: Snapshot, deletions: Deletions) -> int:
    """Deletes what is ours, the drop last; returns how many foreign objects there are."""
    foreign, batch = 0, list[tuple[str, int]]()
    snapshots: list[tuple[str, int]] = []
    async for one in store.list(f"{root}/"):
        kind = object_kind(one.key[len(root) + 1 :])
        if kind is None:
            foreign += 1
        elif kind in (ObjectKind.SNAPSHOT, ObjectKind.HINT):
            snapshots.append((one.key, one.size))
        else:
            batch.append((one.key, one.size))
        if len(batch) == _BATCH:
            await deletions.delete(batch)
            batch = []
    await deletions.delete(batch)
    key = DenseLog(store, join(root, SNAPSHOT_PREFIX)).key(drop.id)
    await deletions.delete(one for one in snapshots if one[0] != key)
    await deletions.delete(one for one in snapshots if one[0] == key)
    return foreign
