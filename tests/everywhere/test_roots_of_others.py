"""Edge cases of other catalogs' roots and sweeps, asked of our snapshots: a table has one line of states.

Floecat keeps a root object for each table, changed by compare-and-swap, and sweeps what no root leads to.
Ours are snapshots in a dense log, and orphans. Its cases of caches, pins and streams stand with those.
"""

from __future__ import annotations

import asyncio
import datetime as dt

import pyarrow as pa
import pytest

from lakehouse.errors import ConflictError, CorruptionError, LakehouseError
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock, MemoryCatalog, RecordingStore, memory_graph, memory_store
from tests.kit.timed_store import TimedStore
from tests.kit.worlds import StepIn

_STRAY = "data/bucket-0/11111111-2222-4333-8444-555555555555.parquet"
"""Data file that no snapshot refers to."""
_SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.int64()})


@pytest.fixture
async def store() -> StepIn:
    """A warehouse with ``db.orders``, in which somebody may step in before a request."""
    step_in = StepIn(memory_store())
    async with Lake(step_in) as lake:
        await lake.create_database("db")
        table = await lake.create_table("db.orders", _SCHEMA, primary_key="id")
        await table.append([{"id": 1, "amount": 10}])
    return step_in


async def _ids(table: Table) -> list[int]:
    return sorted((await table.scan().to_arrow())["id"].to_pylist())


async def test_lost_cas_reruns_the_mutator_against_the_winners_root(store: StepIn) -> None:
    """A commit that comes second is drafted again behind the winner, and says that it follows it."""
    async with Lake(store) as lake, Lake(store.inner) as other:
        table, theirs = await lake.table("db.orders"), await other.table("db.orders")

        async def win() -> None:
            await theirs.append([{"id": 2, "amount": 20}])

        store.before(0, "snapshot/snapshot-", win, verb="put_if_absent")
        done = await table.append([{"id": 3, "amount": 30}])
        won = await theirs.current_snapshot()
        history = (await table.snapshots()).to_pylist()
        assert await _ids(table) == [1, 2, 3]
        assert done.snapshot == won == history[-1]["snapshot"]
        assert [one["snapshot"] for one in history] == list(range(1, won + 1))


async def test_unchanged_mutator_output_commits_nothing(store: StepIn) -> None:
    """A change that changes nothing leaves the table in the snapshot that it had."""
    async with Lake(store) as lake:
        table = await lake.table("db.orders")
        before = await table.current_snapshot()
        await table.delete("amount > 1000")
        await table.compact()
        await table.append([{"id": 9, "amount": 1}], writer=("load", 1))
        after = await table.current_snapshot()
        await table.append([{"id": 9, "amount": 2}], writer=("load", 1))
        assert (before + 1, after) == (after, await table.current_snapshot())


async def test_exhausted_cas_attempts_fail_the_commit(store: StepIn) -> None:
    """A change that others overtake each time is given up with an error, and nothing of it is seen."""
    async with Lake(store) as lake, Lake(store.inner) as other:
        table, theirs = await lake.table("db.orders"), await other.table("db.orders")
        await table.set_option("commit.max_retries", 2)
        turn = 0

        async def win() -> None:
            nonlocal turn
            turn += 1
            await theirs.upsert([{"id": 1, "amount": 10 + turn}])
            # From 1: the request that is under way is still counted down.
            store.before(1, "snapshot/snapshot-", win, verb="put_if_absent")

        store.before(0, "snapshot/snapshot-", win, verb="put_if_absent")
        with pytest.raises(ConflictError):
            await table.overwrite([{"id": 1, "amount": 99}], "amount >= 10")
        store.act = None
        assert turn == 3
        assert (await table.get({"id": 1})) == {"id": 1, "amount": 13}


async def test_concurrent_registrations_and_ddl_converge_to_one_lineage(store: StepIn) -> None:
    """Whoever makes one name at the same time gets one table, and all their rows are in it."""
    lakes = [Lake(store.inner) for _ in range(6)]

    async def register(number: int, lake: Lake) -> Table:
        table = await lake.create_table("db.new", _SCHEMA, primary_key="id", if_not_exists=True)
        await table.append([{"id": number, "amount": number}])
        return table

    try:
        tables = await asyncio.gather(*(register(number, lake) for number, lake in enumerate(lakes)))
        assert len({table.uuid for table in tables}) == 1
        assert await _ids(tables[0]) == list(range(6))
        history = (await tables[0].snapshots())["snapshot"].to_pylist()
        assert history == list(range(1, len(history) + 1))
    finally:
        for lake in lakes:
            await lake.store.aclose()


async def test_removing_the_current_snapshot_never_falls_back_to_the_one_before(store: StepIn) -> None:
    """An acknowledged snapshot that is gone is damage, not a reason to show the one before."""
    async with Lake(store) as lake:
        table = await lake.table("db.orders")
        await table.append([{"id": 2, "amount": 20}])
        newest, root = await table.current_snapshot(), table.core.root
    await store.inner.delete_many([f"{root}/snapshot/snapshot-{newest:020}"])
    async with Lake(store) as lake:
        table = await lake.table("db.orders")
        with pytest.raises(CorruptionError, match="repair"):
            await table.scan().count()
        with pytest.raises(LakehouseError):
            await lake.graph.table("db.orders")


async def test_equal_upstream_breaks_ties_by_snapshot_id() -> None:
    """Of several snapshots of one millisecond the last is the one as of then."""
    clock = ManualClock()
    catalog = MemoryCatalog("mem", clock=clock)
    catalog.add_table("sales.orders", _SCHEMA)
    made = [catalog.commit("sales.orders") for _ in range(3)]
    assert len({one.time_ms for one in made}) == 1
    graph = memory_graph(catalog, clock=clock)
    node = await graph.table("mem.sales.orders")
    assert (await graph.snapshot(node, as_of_ms=made[0].time_ms)).id == made[-1].id


async def test_pin_registered_mid_sweep_still_protects_its_snapshot(store: StepIn) -> None:
    """A pin that is made while an expiry decides makes that decide again, and keeps what it names."""
    async with Lake(store) as lake, Lake(store.inner) as other:
        table, theirs = await lake.table("db.orders"), await other.table("db.orders")
        pinned = await table.current_snapshot()
        for number in range(2, 6):
            await table.upsert([{"id": 1, "amount": number}])

        async def pin() -> None:
            await theirs.create_tag("kept", snapshot=pinned)

        store.before(0, "snapshot/snapshot-", pin, verb="put_if_absent")
        await table.expire_snapshots(retain=1, grace_s=0)
        assert await table.get({"id": 1}, tag="kept") == {"id": 1, "amount": 10}


async def test_a_failed_chain_walk_poisons_the_whole_sweep(store: StepIn) -> None:
    """Where one retained snapshot cannot be read, no orphan is deleted: it may be what that one needs."""
    async with Lake(store) as lake:
        table = await lake.table("db.orders")
        await table.append([{"id": 2, "amount": 20}])
        root, older = table.core.root, await table.current_snapshot() - 1
        await store.inner.put(f"{root}/{_STRAY}", b"nobody's")
        await store.inner.put(f"{root}/snapshot/snapshot-{older:020}", b"damaged")
    keys = {one.key async for one in store.inner.list(f"{root}/data/")}
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=2)
    async with Lake(TimedStore(store.inner, int(later.timestamp() * 1000))) as lake:
        table = await lake.table("db.orders")
        with pytest.raises(CorruptionError):
            await table.remove_orphans()
    assert {one.key async for one in store.inner.list(f"{root}/data/")} == keys


async def test_a_cyclic_chain_poisons_the_sweep_instead_of_hanging(store: StepIn) -> None:
    """A snapshot under the number of the one before it is damage: the sweep ends at once, deletes nothing."""
    async with Lake(store) as lake:
        table = await lake.table("db.orders")
        for number in range(2, 5):
            await table.append([{"id": number, "amount": 20}])
        root, newest = table.core.root, await table.current_snapshot()
    data = (await store.inner.get(f"{root}/snapshot/snapshot-{newest:020}")).data
    await store.inner.put(f"{root}/snapshot/snapshot-{newest - 1:020}", bytes(data))
    await store.inner.put(f"{root}/{_STRAY}", b"nobody's")
    keys = {one.key async for one in store.inner.list(f"{root}/data/")}
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=2)
    async with Lake(TimedStore(store.inner, int(later.timestamp() * 1000))) as lake, asyncio.timeout(5):
        table = await lake.table("db.orders")
        with pytest.raises(CorruptionError):
            await table.remove_orphans()
    assert {one.key async for one in store.inner.list(f"{root}/data/")} == keys


async def test_a_vanished_root_fails_and_asks_for_repair(store: StepIn) -> None:
    """A query that is begun at a snapshot whose object is gone fails and says what to do."""
    async with Lake(store) as lake:
        table = await lake.table("db.orders")
        for number in range(2, 5):
            await table.append([{"id": number, "amount": 20}])
        root, newest = table.core.root, await table.current_snapshot()
    await store.inner.delete_many([f"{root}/snapshot/snapshot-{newest - 1:020}"])
    async with Lake(store) as lake, lake.query() as query:
        with pytest.raises(CorruptionError, match="repair"):
            await query.scan("db.orders", snapshot=newest - 1).count()


async def test_a_head_match_serves_cold_without_building_the_full_chain(store: StepIn) -> None:
    """A process that knows nothing reads the newest of many snapshots, and none of those before it."""
    async with Lake(store) as lake:
        table = await lake.table("db.orders")
        for number in range(2, 40):
            await table.append([{"id": number, "amount": 20}])
    recording = RecordingStore(store.inner)
    async with Lake(recording) as lake:
        node = await lake.graph.table("db.orders")
        newest = node.current_snapshot
    assert newest is not None
    read = [call.key for call in recording.calls if "snapshot-" in call.key and call.verb.startswith("get")]
    assert {int(key[-20:]) for key in read} <= {newest, newest + 1}
    assert sum(recording.kinds().values()) <= 8


async def test_data_only_ingest_keeps_the_schema_warm(store: StepIn) -> None:
    """Rows that another process commits move the snapshot of a node; the schema is not read again."""
    recording = RecordingStore(store.inner)
    async with Lake(recording) as lake, Lake(store) as other:
        before = await lake.graph.table("db.orders")
        assert before.current_snapshot is not None
        facts = await lake.graph.facts_at(before, before.current_snapshot)
        await (await other.table("db.orders")).append([{"id": 2, "amount": 20}])
        recording.clear()
        await lake.cache.refresh("db.orders")
        after = await lake.graph.table("db.orders")
        assert after.current_snapshot == before.current_snapshot + 1
        assert (await lake.graph.facts_at(after, after.current_snapshot)).schema_json == facts.schema_json
        assert not [call for call in recording.calls if "/schema/" in call.key]
