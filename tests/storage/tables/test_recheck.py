"""A store that begins to ignore conditions: whoever lost something acknowledged says so, and stops."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
import pyarrow as pa
import pytest

from lakehouse.config import IoSettings, Settings
from lakehouse.errors import CorruptionError, InvalidInputError, LakehouseError
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import Fault, FaultKind, FaultyStore, RecordingStore, UnsafeStore, memory_store

SCHEMA = pa.schema({"who": pa.int64(), "number": pa.int64()})
BOTH = ("put_if_absent", "put_if_match")


async def table_of(lake: Lake) -> Table:
    """The table, made when there is none."""
    await lake.create_database("db", if_not_exists=True)
    return await lake.create_table("db.t", SCHEMA, if_not_exists=True)


def row(who: int, number: int = 0) -> list[dict[str, int]]:
    """One row."""
    return [{"who": who, "number": number}]


@asynccontextmanager
async def closing_quietly(lake: Lake) -> AsyncIterator[Lake]:
    """A lake whose end is not what the test is about."""
    await lake.__aenter__()
    try:
        yield lake
    finally:
        with suppress(LakehouseError):
            await lake.__aexit__(None, None, None)


async def test_an_overwritten_snapshot_is_reported_at_the_end() -> None:
    """A commit that another process overwrote is named with its token when the connection is closed."""
    store = UnsafeStore(memory_store())
    async with closing_quietly(Lake(store)) as second:
        other = await table_of(second)
        await other.append(row(2))
        first = await Lake(store).__aenter__()
        table = await first.table("db.t")
        done = await table.append(row(1), writer=("import", 7))
        store.ignores = BOTH
        await other.append(row(2))  # from what it knew before
        with pytest.raises(CorruptionError) as lost:
            await first.__aexit__(None, None, None)
        assert lost.value.kind == "acknowledged-lost"
        assert lost.value.context["snapshots"] == [done.snapshot]
        assert "sequence 7 of writer 'import'" in lost.value.message
        assert lost.value.context["tokens"][0] in lost.value.message


async def test_who_is_not_built_upon_reports_its_own_loss() -> None:
    """A process whose snapshot was overwritten by a later one of others learns it from that one's parent."""
    store = UnsafeStore(memory_store())
    async with closing_quietly(Lake(store)) as first:
        table = await table_of(first)
        await table.append(row(1))
        async with closing_quietly(Lake(store)) as second:
            other = await second.table("db.t")
            await other.current_snapshot()
            store.ignores = BOTH
            kept = await table.append(row(1, 1))
            mine = await other.append(row(2))  # in the place of that one
            store.ignores = ()
            assert mine.snapshot == kept.snapshot
            await table.append(row(1, 2))  # builds on what is not there any more
            with pytest.raises(CorruptionError) as lost:
                await other.append(row(2, 1))
            assert lost.value.context["snapshots"] == [mine.snapshot]


async def test_who_stands_and_is_not_descended_from_reports_its_loss() -> None:
    """A snapshot whose object and child stand is lost when the grandchild builds on an overwritten one."""
    store = UnsafeStore(memory_store())
    async with AsyncExitStack() as stack:
        lakes = [await stack.enter_async_context(closing_quietly(Lake(store))) for _ in range(5)]
        await table_of(lakes[4])
        mine, overwritten, its_heir, my_heir, newest = [await lake.table("db.t") for lake in lakes]
        await mine.current_snapshot()
        await overwritten.append(row(2))
        await its_heir.current_snapshot()
        store.ignores = BOTH
        done = await mine.append(row(1))
        store.ignores = ()
        await my_heir.current_snapshot()
        await its_heir.append(row(3))
        await newest.current_snapshot()
        store.ignores = BOTH
        await my_heir.append(row(4))
        store.ignores = ()
        await newest.append(row(5))
        there = {found["who"] for found in await (await lakes[4].table("db.t")).scan().to_pylist()}
        assert there == {2, 3, 5}
        with pytest.raises(CorruptionError) as lost:
            await lakes[0].__aexit__(None, None, None)
        assert lost.value.context["snapshots"] == [done.snapshot]


async def test_a_loss_is_reported_once_and_later_ones_are_added() -> None:
    """Looks after a report find the same, and withdraw the proof again only when more was lost."""
    base = memory_store()
    asked = RecordingStore(UnsafeStore(base))
    async with closing_quietly(Lake(asked)) as lake:
        table = await table_of(lake)
        done = [(await table.append(row(1, number))).snapshot or 0 for number in range(3)]
        for gone in (2, 1):
            await base.delete(table.core.snapshots.log.key(done[gone]))
            for is_new in (True, False):
                asked.clear()
                with pytest.raises(CorruptionError) as lost:
                    await table.core.recheck.at_end()
                assert any(call.verb.startswith("put") for call in asked.calls) is is_new
            assert lost.value.context["snapshots"] == done[gone:]


async def test_nothing_more_is_written_and_the_proof_is_withdrawn() -> None:
    """After the report this process and all that come later are refused; reads go on."""
    store = UnsafeStore(memory_store())
    settings = Settings.resolve({"io.recheck_interval_s": 0})
    async with closing_quietly(Lake(store)) as second:
        other = await table_of(second)
        await other.append(row(2))
        async with closing_quietly(Lake(store, settings=settings)) as first:
            table = await first.table("db.t")
            await table.append(row(1))
            store.ignores = BOTH
            await other.append(row(2))
            store.ignores = ()
            with pytest.raises(CorruptionError, match="acknowledged"):
                await table.core.recheck.at_end()
            for _ in range(2):
                with pytest.raises(CorruptionError, match="acknowledged"):
                    await table.append(row(1, 1))
            with pytest.raises(InvalidInputError, match="not committed to"):
                await first.create_database("more")
            assert await table.scan().count() > 0
    async with Lake(store) as third:
        with pytest.raises(InvalidInputError, match="had acknowledged, was overwritten or is gone"):
            await (await third.table("db.t")).append(row(3))


async def test_an_overwritten_segment_is_reported_with_its_clients() -> None:
    """Rows of the log that another writer overwrote are named by segment and by the clients' sequences."""
    store = UnsafeStore(memory_store())
    async with closing_quietly(Lake(store)) as first, closing_quietly(Lake(store)) as second:
        table = await table_of(first)
        writer = await table.writer().__aenter__()
        await (await writer.put(row(1), writer=("client", 3)))
        store.ignores = BOTH
        core = (await second.table("db.t")).core
        number = await core.wal.log.newest()
        assert number is not None
        await store.put_if_absent(core.wal.log.key(number), b"of another writer", token="f" * 32)
        store.ignores = ()
        with pytest.raises(CorruptionError) as lost:
            await writer.__aexit__(None, None, None)
        assert lost.value.kind == "acknowledged-lost"
        assert lost.value.context["segments"] == [number]
        assert "sequence 3 of writer 'client'" in lost.value.message


async def test_a_snapshot_that_is_gone_is_reported() -> None:
    """An acknowledged object that is not there any more is as lost as one that was overwritten."""
    base = memory_store()
    store = UnsafeStore(base)
    lake = await Lake(store).__aenter__()
    table = await table_of(lake)
    await table.append(row(1))
    done = await table.append(row(1, 1))
    await base.delete(table.core.snapshots.log.key(done.snapshot))
    with pytest.raises(CorruptionError, match="acknowledged") as lost:
        await lake.__aexit__(None, None, None)
    assert done.snapshot in lost.value.context["snapshots"]


async def test_what_expired_or_was_flushed_or_purged_is_not_lost() -> None:
    """Objects that maintenance deleted are missed by nobody."""
    store = UnsafeStore(memory_store())
    async with Lake(store) as lake:
        table = await table_of(lake)
        async with table.writer() as writer:
            for number in range(3):
                await (await writer.put(row(1, number)))
        for number in range(3):
            await table.append(row(2, number))
        await table.expire_snapshots(retain=1)
        done = await table.expire_snapshots(grace_s=0)
        assert done.snapshots > 0
        await table.core.recheck.look()
        await table.append(row(3))
    async with Lake(store) as lake:
        table = await lake.table("db.t")
        await table.append(row(4))
        await lake.drop_table("db.t")
        await lake.purge_dropped(grace_s=0)


@pytest.mark.parametrize("interval", [0, 3600])
async def test_looking_costs_one_listing_beside_a_commit_and_one_at_the_end(interval: int) -> None:
    """Commits to stores that may ignore conditions are looked after at most once in an interval."""
    asked = RecordingStore(UnsafeStore(memory_store()))
    settings = Settings.resolve({"io.recheck_interval_s": interval})
    async with Lake(asked, settings=settings) as lake:
        table = await table_of(lake)
        asked.clear()
        for number in range(4):
            await table.append(row(1, number))
        during = asked.kinds().get("list", 0)
    assert during <= 4 if interval == 0 else during == 0
    assert asked.kinds()["list"] >= 1
    assert asked.kinds()["list"] <= during + 2


async def test_stores_that_are_safe_as_they_are_built_are_not_looked_after() -> None:
    """Memory and files cost nothing for it."""
    asked = RecordingStore(memory_store())
    async with Lake(asked) as lake:
        table = await table_of(lake)
        asked.clear()
        await table.append(row(1))
    assert "list" not in asked.kinds()
    assert table.core.snapshots.log.ours is None


async def test_a_store_that_is_away_at_the_end_is_only_said(caplog: pytest.LogCaptureFixture) -> None:
    """Closing does not fail because it cannot be looked any more."""
    away = FaultyStore(UnsafeStore(memory_store()))
    async with Lake(away) as lake:
        table = await table_of(lake)
        await table.append(row(1))
        await lake._state.background.aclose()
        away.planned = [Fault(kind=FaultKind.THROTTLE, verb="list_page")]
    assert away.injected
    assert "could not be looked" in caplog.text


class HangingStore(UnsafeStore):
    """Answers no listing any more once ``hangs`` is set."""

    hangs = False

    async def list_page(self, *args: Any, **given: Any) -> Any:
        if self.hangs:
            await anyio.sleep_forever()
        return await super().list_page(*args, **given)


async def test_a_store_that_is_away_delays_the_end_once(caplog: pytest.LogCaptureFixture) -> None:
    """However many tables were written to, closing waits ``io.recheck_grace_s`` in all, and names each."""
    store = HangingStore(memory_store(settings=IoSettings(recheck_grace_s=0.2)))
    async with Lake(store) as lake:
        await lake.create_database("db")
        for name in ("db.a", "db.b", "db.c", "db.d"):
            await (await lake.create_table(name, SCHEMA)).append(row(1))
        store.hangs = True
        began = time.monotonic()
    # Four times the grace would be 0.8 s.
    assert time.monotonic() - began < 0.7
    assert caplog.text.count("it could not be looked whether") == 4


async def test_the_loss_of_one_table_hides_no_other() -> None:
    """When a connection is closed every table is looked at, also after one whose rows were lost."""
    store = UnsafeStore(memory_store())
    first = await Lake(store).__aenter__()
    await first.create_database("db")
    tables = [await first.create_table(f"db.t{number}", SCHEMA) for number in range(2)]
    async with closing_quietly(Lake(store)) as second:
        others = [await second.table(str(table.name)) for table in tables]
        for other in others:
            await other.current_snapshot()
        for table in tables:
            await table.append(row(1))
        store.ignores = BOTH
        for other in others:
            await other.append(row(2))
        with pytest.raises(CorruptionError):
            await first.__aexit__(None, None, None)
        for table in tables:
            with pytest.raises(CorruptionError, match="acknowledged"):
                table.core.recheck.refuse()
