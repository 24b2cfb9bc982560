"""The sweep of orphans: what it deletes, what it never does, and whom it stops."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from lakehouse.errors import CommitUnknownError, ConflictError, CorruptionError
from lakehouse.io import ObjectStore
from lakehouse.storage.commit import spilled_manifest
from lakehouse.storage.metadata.paths import ObjectKind, object_kind
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock, RecordingStore
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import NAME, StepIn, process, restored, table_of

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.int64()})
DAY_S = 24 * HOUR_S


async def made(store: ObjectStore) -> tuple[Table, str]:
    """A table with two commits, and its directory."""
    lake = process(store, clock=ManualClock())
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    for number in range(2):
        await table.append([{"id": number, "v": number}])
    return table, table._table.root


async def timed() -> TimedStore:
    """An empty store with a clock of its own."""
    return TimedStore(await restored({}))


async def keys(store: ObjectStore) -> set[str]:
    """All keys of tables."""
    return {one.key async for one in store.list("db/t-")}


def orphans(root: str) -> dict[str, bytes]:
    """An object of each kind that commits leave behind when they come to nothing."""
    one = uuid.UUID(int=7)
    return {
        f"{root}/data/bucket-0/{one}.parquet": b"abc",
        f"{root}/data/v=1/bucket-12/{one}.sst": b"abcd",
        f"{root}/data/bucket-0/{one}.puffin": b"a",
        f"{root}/manifest/manifest-{one}": b"ab",
        f"{root}/schema/schema-{one}": b"{}",
    }


async def test_what_nothing_refers_to_goes_after_a_day() -> None:
    """Uploads that no commit took are deleted once they are older than ``orphan.min_age_s``."""
    store = await timed()
    table, root = await made(store)
    before = await keys(store)
    for key, data in orphans(root).items():
        await store.put(key, data)
    store.advance(DAY_S)
    done = await table.remove_orphans()
    assert (done.objects, done.young) == (0, 5)
    store.advance(1)
    done = await table.remove_orphans()
    assert (done.objects, done.bytes, done.young) == (5, 12, 0)
    assert done.by_kind == {"data": 2, "index": 1, "manifest": 1, "schema": 1}
    assert set(done.paths) == {key.removeprefix(root + "/") for key in orphans(root)}
    assert before <= await keys(store)
    assert not orphans(root).keys() & await keys(store)
    assert len(await (await table_of(store)).scan().to_pylist()) == 2


async def test_metadata_of_commits_under_way_is_left_alone() -> None:
    """However young the orphans that are asked for, manifests and schemas stay for half an hour."""
    store = await timed()
    table, root = await made(store)
    for key, data in orphans(root).items():
        await store.put(key, data)
    store.advance(1)
    done = await table.remove_orphans(older_than=store.now_ms)
    assert (done.by_kind, done.young) == ({"data": 2, "index": 1}, 2)
    store.advance(1800)
    assert (await table.remove_orphans(older_than=store.now_ms)).by_kind == {"manifest": 1, "schema": 1}


async def test_foreign_objects_stay() -> None:
    """What does not look like an object of ours is counted and never deleted."""
    store = await timed()
    table, root = await made(store)
    foreign = [
        f"{root}/data/_SUCCESS",
        f"{root}/data/bucket-0/{uuid.UUID(int=1)}.parquet.crc",
        f"{root}/data/bucket-0/part-0001.parquet",
        f"{root}/manifest/.tmp",
        f"{root}/schema/schema-x",
        f"{root}/notes.txt",
    ]
    for key in foreign:
        await store.put(key, b"x")
    store.advance(2 * DAY_S)
    done = await table.remove_orphans()
    assert (done.objects, done.foreign) == (0, 5)
    assert set(foreign) <= await keys(store)


async def test_what_any_snapshot_object_refers_to_stays() -> None:
    """Files of tagged snapshots and of those that wait for their grace are no orphans."""
    store = await timed()
    table, _ = await made(store)
    await table.create_tag("old", snapshot=2)
    await table.overwrite([{"id": 5, "v": 5}])
    await table.expire_snapshots(retain=1)
    before = await keys(store)
    store.advance(2 * DAY_S)
    assert (await table.remove_orphans()).objects == 0
    assert before <= await keys(store)
    assert await table.scan(tag="old").to_pylist() == [{"id": 0, "v": 0}]


async def test_a_deletion_that_ended_half_way_is_no_obstacle() -> None:
    """An expired snapshot whose manifest is gone already says nothing any more."""
    store = await timed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilled_manifest, "_OWN_ENTRIES_MAX", 0)
        table, root = await made(store)
    await table.overwrite([{"id": 5, "v": 5}])
    await table.expire_snapshots(retain=1)
    async for one in store.list(f"{root}/manifest/"):
        await store.delete(one.key)
    store.advance(2 * DAY_S)
    # Another process, which keeps no manifest that it wrote itself.
    table = await table_of(store, clock=ManualClock())
    assert (await table.remove_orphans()).by_kind == {"data": 2}
    assert (await table.expire_snapshots()).snapshots == 3
    assert await table.scan().to_pylist() == [{"id": 5, "v": 5}]


async def test_uploads_from_before_the_horizon_are_refused() -> None:
    """A writer that slept longer than the sweep's age is told to write its rows again."""
    store = await timed()
    await made(store)
    clock = ManualClock()
    hooked = StepIn(store)
    sleeper = await table_of(hooked, clock=clock)
    await sleeper.current_snapshot()
    swept: list[int] = []

    async def sleep() -> None:
        store.advance(2 * DAY_S)
        await clock.advance(2 * DAY_S)
        swept.append((await (await table_of(store)).remove_orphans()).objects)

    hooked.before(0, "/snapshot/", sleep, verb="put_if_absent")
    with pytest.raises((ConflictError, CommitUnknownError)):
        await sleeper.append(row for row in [{"id": 9, "v": 9}])
    assert swept == [1]
    assert len(await (await table_of(store)).scan().to_pylist()) == 2


async def test_a_slow_writer_whose_uploads_are_young_enough_commits() -> None:
    """A sweep in the middle of a commit does not stop it when its files are younger than the horizon."""
    for number in range(20):
        store = await timed()
        await made(store)
        hooked = StepIn(store)
        writer = await table_of(hooked)
        await writer.current_snapshot()
        swept: list[int] = []

        async def sweep(store: ObjectStore = store, swept: list[int] = swept) -> None:
            swept.append((await (await table_of(store)).remove_orphans()).objects)

        hooked.before(number, "", sweep)
        await writer.append([{"id": 9, "v": 9}])
        assert len(await (await table_of(store)).scan().to_pylist()) == 3
        if not swept:
            break
    assert number > 1


async def test_folded_manifests_of_a_failed_commit_are_not_used_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that folded for a commit that failed folds anew when the sweep took the manifest."""
    longest = "lakehouse.storage.commit.fold._INLINE_ENTRIES_MAX"
    monkeypatch.setattr(longest, 1)
    store = await timed()
    await made(store)
    clock = ManualClock()
    hooked = StepIn(store)
    sleeper = await table_of(hooked, clock=clock)
    await sleeper.current_snapshot()

    async def refuse() -> None:
        raise RuntimeError("not now")

    hooked.before(0, "/snapshot/", refuse, verb="put_if_absent")
    with pytest.raises(RuntimeError):
        await sleeper.append([{"id": 7, "v": 7}])
    store.advance(2 * DAY_S)
    await clock.advance(2 * DAY_S)
    monkeypatch.setattr(longest, 128)  # or the sweep's own commit would fold
    assert (await (await table_of(store)).remove_orphans()).by_kind["manifest"] == 1
    monkeypatch.setattr(longest, 1)
    await sleeper.append([{"id": 8, "v": 8}])
    assert len(await (await table_of(store)).scan().to_pylist()) == 3


async def test_dry_run_tells_and_does_nothing() -> None:
    """A dry run makes no commit and deletes nothing, and says what the same call does then."""
    store = await timed()
    table, root = await made(store)
    for key, data in orphans(root).items():
        await store.put(key, data)
    store.advance(2 * DAY_S)
    before = await keys(store)
    would = await table.remove_orphans(dry_run=True)
    assert await keys(store) == before
    done = await table.remove_orphans()
    assert (would.objects, would.bytes, would.by_kind) == (done.objects, done.bytes, done.by_kind)
    assert would.dry_run
    assert "would be deleted" in str(would)


async def test_a_second_sweep_at_the_same_time_makes_no_commit() -> None:
    """The horizon never goes back, and is committed when it moves only."""
    store = await timed()
    table, _ = await made(store)
    first = await table.remove_orphans()
    assert (await table.remove_orphans()).snapshot == first.snapshot
    assert (await table.remove_orphans(older_than=1_000)).snapshot == first.snapshot
    store.advance(60)
    assert (await table.remove_orphans()).snapshot == first.snapshot + 1


@pytest.mark.parametrize("off_s", [-86_400, 86_400])
async def test_clocks_of_machines_make_no_orphans(off_s: int) -> None:
    """The store's clock alone tells how old an upload is."""
    store = await timed()
    table, root = await made(store)
    for key, data in orphans(root).items():
        await store.put(key, data)
    clock = ManualClock()
    table = await table_of(store, clock=clock)
    await table.current_snapshot()
    clock.set_wall(clock.now_ms() + off_s * 1000)
    store.advance(DAY_S)
    assert (await table.remove_orphans()).objects == 0
    store.advance(1)
    assert (await table.remove_orphans()).objects == 5


async def test_a_damaged_snapshot_stops_the_sweep() -> None:
    """When it cannot be known what a snapshot needs, nothing is deleted and it is named."""
    store = await timed()
    _, root = await made(store)
    for key, data in orphans(root).items():
        await store.put(key, data)
    damaged = f"{root}/snapshot/snapshot-{2:020}"
    await store.put(damaged, b"x")
    store.advance(2 * DAY_S)
    with pytest.raises(CorruptionError, match=damaged):
        await (await table_of(store)).remove_orphans()
    assert orphans(root).keys() <= await keys(store)


async def test_requests_of_a_sweep() -> None:
    """A sweep reads every snapshot once, lists each directory, and deletes a thousand objects a request."""
    store = RecordingStore(await timed())
    _, root = await made(store)
    for number in range(1_500):
        await store.put(f"{root}/data/bucket-0/{uuid.UUID(int=number)}.parquet", b"")
    store.inner.advance(2 * DAY_S)  # type: ignore[attr-defined]
    table = await table_of(store)
    await table.current_snapshot()
    store.clear()
    done = await table.remove_orphans()
    assert done.objects == 1_500
    # Listings: snapshots, two pages of data, four other directories.
    assert store.kinds() == {"head": 1, "put": 1, "list": 7, "get": 2 + 2, "delete": 2}
    assert done.cost.by_kind() == store.kinds()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"data/bucket-0/{uuid.UUID(int=1)}.parquet", ObjectKind.DATA),
        (f"data/day=2026-01-01/x=%2F/bucket-3/{uuid.UUID(int=1)}.sst", ObjectKind.DATA),
        (f"data/bucket-0/{uuid.UUID(int=1)}.puffin", ObjectKind.INDEX),
        (f"manifest/manifest-{uuid.UUID(int=1)}", ObjectKind.MANIFEST),
        (f"schema/schema-{uuid.UUID(int=1)}", ObjectKind.SCHEMA),
        (f"wal/wal-{7:020}.log", ObjectKind.SEGMENT),
        (f"snapshot/snapshot-{7:020}", ObjectKind.SNAPSHOT),
        ("snapshot/LATEST", ObjectKind.HINT),
        (f"data/{uuid.UUID(int=1)}.parquet", None),
        (f"data/bucket-0/{uuid.UUID(int=1)}.parquet/x", None),
        (f"x/data/bucket-0/{uuid.UUID(int=1)}.parquet", None),
        (f"manifest/manifest-{uuid.UUID(int=1)}.tmp", None),
        ("snapshot/snapshot-7", None),
        ("", None),
    ],
)
def test_paths_tell_what_is_ours(path: str, kind: ObjectKind | None) -> None:
    """A path that is not exactly like one we write is foreign."""
    assert object_kind(path) is kind
