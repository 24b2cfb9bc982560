"""Streaming writers under load: tasks, two writers at once, slow and full stores, odd sizes and clocks."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

import lakehouse
from lakehouse.errors import FencedError, InvalidInputError, UnavailableError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.storage.write.flush import flush_table
from lakehouse.storage.write.streaming_writer import TableWriter
from lakehouse.testing import LatencyStore, ManualClock, RecordingStore
from tests.kit.streaming import acknowledged, made, opened, rows_of, some, vanish
from tests.kit.table_operations import SCHEMA
from tests.kit.worlds import NAME, table_of

TINY_PUTS = int(os.environ.get("LAKEHOUSE_TEST_PUTS", "3000"))
"""A million of them take minutes."""
SMALL = {"write.memtable_bytes": "20000", "wal.segment_bytes": "4096"}


def counted(rows: list[tuple[int, str, int | None]]) -> dict[str, list[int]]:
    """Numbers by who put them; the name stands in ``part``."""
    found: dict[str, list[int]] = {}
    for number, who, _ in rows:
        found.setdefault(who, []).append(number)
    return found


async def test_sixteen_tasks_with_sequences_put_everything_once() -> None:
    """Tasks of one writer that each count their puts, and repeat some, leave every row once."""
    store = await made("append-only", **SMALL)
    async with (await table_of(store)).writer() as writer:

        async def task(who: int) -> None:
            chance = random.Random(who)
            for number in range(25):
                for _ in range(chance.choice([1, 1, 2])):
                    await (await writer.put(some((number, f"w{who}", 0)), writer=(f"w{who}", number)))

        await asyncio.gather(*map(task, range(16)))
        assert counted(await rows_of(store, "wal")) == {f"w{who}": list(range(25)) for who in range(16)}
    assert counted(await rows_of(store)) == {f"w{who}": list(range(25)) for who in range(16)}


async def test_two_writers_at_once_take_the_log_from_each_other_and_lose_nothing() -> None:
    """Two processes that open a writer anew whenever they are fenced off leave every row once, in order."""
    store = await made("append-only", **SMALL)
    takeovers = 0

    async def process(who: str) -> None:
        nonlocal takeovers
        table, number, turn = await table_of(store), 0, 0
        while number < 20:
            writer = table.writer()
            await writer.__aenter__()
            takeovers += 1
            try:
                while number < 20:
                    await (await writer.put(some((number, who, 0)), writer=(who, number)))
                    number += 1
                    await asyncio.sleep(0)
            except FencedError:
                turn += 1
                await asyncio.sleep(0.002 * (turn % 5))
            await vanish(writer)

    await asyncio.gather(process("a"), process("b"))
    assert takeovers > 4
    await (await table_of(store)).flush()
    assert counted(await rows_of(store)) == {"a": list(range(20)), "b": list(range(20))}


async def test_batch_commits_beside_a_busy_writer_are_made_once_each() -> None:
    """Commits of four processes and puts of a writer that flushes all the time: every row is there once."""
    store = await made("append-only", **SMALL)
    async with (await table_of(store)).writer() as writer:

        async def puts() -> None:
            for number in range(60):
                await (await writer.put(some(*((number * 10 + one, "stream", 0) for one in range(10)))))

        async def commits(who: int) -> None:
            table = await table_of(store)
            for number in range(4):
                await table.append(some((number, f"batch-{who}", 0)), writer=(f"batch-{who}", number))

        await asyncio.gather(puts(), *map(commits, range(4)))
        assert writer.report().flushes > 1
    wanted = {f"batch-{who}": list(range(4)) for who in range(4)} | {"stream": list(range(600))}
    assert counted(await rows_of(store)) == wanted


async def test_reads_beside_a_writer_never_go_back() -> None:
    """A key that is put again and again is read with freshness='wal' at least as new as was acknowledged."""
    store = await made(**SMALL, snapshot_interval_s="0.02")
    newest, over = 0, False
    async with (await table_of(store)).writer() as writer:

        async def read(seed: int) -> int:
            table, seen, count = await table_of(store), 0, 0
            while not over:
                least = newest
                row = await table.get({"id": 1}, freshness="wal")
                assert (row["v"] if row else 0) >= max(least, seen)
                seen, count = (row["v"] if row else 0), count + 1
                await asyncio.sleep(0)
            return count

        readers = [asyncio.create_task(read(seed)) for seed in range(3)]
        for value in range(1, 41):
            await (await writer.put(some((1, "a", value))))
            newest = value
        over = True
        assert min(await asyncio.gather(*readers)) > 1
    assert await rows_of(store) == [(1, "a", 40)]


async def test_a_hot_key_is_one_row() -> None:
    """A key put five hundred times by ten tasks is one row, with one of their last values."""
    store = await made(**SMALL)
    async with (await table_of(store)).writer() as writer:

        async def task(who: int) -> None:
            for number in range(50):
                ack = await writer.put(some((1, "a", who * 1_000 + number)))
            await ack

        await asyncio.gather(*map(task, range(10)))
    ((_, _, value),) = await rows_of(store)
    assert value is not None
    assert value % 1_000 == 49


async def test_thousands_of_tiny_puts_share_segments() -> None:
    """Puts of one row by a hundred tasks take few requests, and are all there: ``TINY_PUTS`` of them."""
    store, each = RecordingStore(LatencyStore(await made(), {"put": 0.005})), TINY_PUTS // 100
    async with (await table_of(store)).writer() as writer:

        async def task(who: int) -> None:
            for number in range(each):
                row = pa.table({"id": [who * each + number], "part": ["a"], "v": [number]})
                await (await writer.put(row))

        await asyncio.gather(*map(task, range(100)))
        report = writer.report()
    assert (report.puts, report.rows) == (TINY_PUTS, TINY_PUTS)
    assert report.segments < TINY_PUTS / 10
    created = sum("/wal/" in call.key and call.verb == "put_if_absent" for call in store.calls)
    assert created <= report.segments + 1
    assert await (await table_of(store)).scan().count() == TINY_PUTS


async def test_a_slow_store_delays_and_loses_nothing() -> None:
    """With requests of 20 ms, half of that more or less, puts and commits beside each other all arrive."""
    inner = await made(**SMALL)
    store = LatencyStore(inner, 0.02, jitter=0.5, seed=7)
    async with (await table_of(store)).writer() as writer:

        async def task(who: int) -> None:
            for number in range(10):
                await (await writer.put(some((who * 100 + number, "a", number))))

        async def commits() -> None:
            table = await table_of(store)
            for number in range(4):
                await table.upsert(some((5_000 + number, "b", number)))

        await asyncio.gather(commits(), *map(task, range(8)))
    found = [number for number, _, _ in await rows_of(inner)]
    wanted = [who * 100 + number for who in range(8) for number in range(10)]
    assert sorted(found) == sorted([*wanted, *range(5_000, 5_004)])


# --- sizes ----------------------------------------------------------------------------


async def wide(**options: str) -> tuple[ObjectStore, Table]:
    """A table of texts."""
    store = await made(**options)
    table = await table_of(store)
    await table.add_column("text", "string")
    return store, await table_of(store)


async def test_a_giant_row_is_a_segment_of_its_own() -> None:
    """A row that is larger than a segment and a memtable is put, flushed and read all the same."""
    store, table = await wide(**SMALL)
    text = "x" * 5_000_000
    async with table.writer() as writer:
        for number, value in enumerate(["a", text, "b", text]):
            await (await writer.put([{"id": number, "part": "a", "v": 0, "text": value}]))
        row = await (await table_of(store)).get({"id": 1}, freshness="wal")
        assert row is not None
        assert row["text"] == text
    lengths = [len(row["text"]) for row in await (await table_of(store)).scan().to_pylist()]
    assert sorted(lengths) == [1, 1, len(text), len(text)]


async def test_a_put_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """More bytes than a segment may have are refused with the numbers; the writer goes on."""
    monkeypatch.setattr("lakehouse.storage.write.log_batches._PUT_BYTES_MAX", 10_000)
    store, table = await wide()
    async with table.writer() as writer:
        with pytest.raises(InvalidInputError, match="in smaller puts"):
            await writer.put(pa.table({"id": [1], "part": ["a"], "v": [1], "text": ["x" * 20_000]}))
        assert await acknowledged(writer, some((2, "a", 2)), missing="null") == "done"
    assert await (await table_of(store)).scan().count() == 1


async def test_rows_of_a_slice_do_not_keep_the_whole() -> None:
    """Small slices of large tables weigh what they show, and hold no more than that."""
    store, table = await wide()
    async with table.writer() as writer:
        for number in range(20):
            large = pa.table(
                {
                    "id": pa.array(range(number * 10_000, (number + 1) * 10_000)),
                    "part": pa.array(["a"] * 10_000),
                    "v": pa.array([0] * 10_000),
                    "text": pa.array(["x" * 50] * 10_000),
                }
            )
            await (await writer.put(large.slice(5, 2)))
        session = writer._session
        assert session is not None
        held = sum(
            batch.rows.get_total_buffer_size()
            for segment in session._memtables.segments()
            for batch in segment.batches
        )
        assert held < 100_000
    assert await (await table_of(store)).scan().count() == 40


async def test_arrays_may_be_used_again_after_the_acknowledgement() -> None:
    """What becomes of the caller's arrays after a put was acknowledged does not change what was put."""
    store = await made()
    async with (await table_of(store)).writer() as writer:
        values = np.zeros(3, np.int64)
        for number in range(5):
            values[:] = number
            rows = pa.table({"id": [number * 10 + one for one in range(3)], "part": ["a"] * 3, "v": values})
            await (await writer.put(rows))
        values[:] = -1
        assert {(number // 10, value) for number, _, value in await rows_of(store, "wal")} == {
            (one, one) for one in range(5)
        }
    assert {(number // 10, value) for number, _, value in await rows_of(store)} == {
        (one, one) for one in range(5)
    }


# --- disks and clocks -----------------------------------------------------------------


async def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts on a disk that is full for a while are acknowledged once there is room; nothing is torn."""
    async with lakehouse.connect(f"file://{tmp_path}") as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, SCHEMA, primary_key=["id"])
        writer = table.writer()
        await writer.__aenter__()
        assert await acknowledged(writer, some((1, "a", 1))) == "done"
        left, open_file = 12, LocalFileSystem.open

        def full(self: LocalFileSystem, path: str, mode: str = "rb", **more: Any) -> Any:
            nonlocal left
            file = open_file(self, path, mode, **more)
            if mode == "wb" and left:
                left -= 1
                file.write(b"torn")
                file.close()
                raise OSError(errno.ENOSPC, "No space left on device")
            return file

        monkeypatch.setattr(LocalFileSystem, "open", full)
        assert await acknowledged(writer, some((2, "a", 2))) == "done"
        assert left == 0
        await writer.close()
        assert await rows_of(await lake.table(NAME)) == [(1, "a", 1), (2, "a", 2)]


async def test_clocks_that_jump_change_no_order() -> None:
    """Wall clocks that go back and forth by years change neither order nor answers; snapshots ascend."""
    store, clock = await made(), ManualClock(skip=True)
    writer = await opened(store, clock=clock)
    table = await table_of(store, clock=clock)
    start = clock.now_ms()
    jumps = [0, 10**11, 1_000, -(10**10), 10**12, 0]
    found: list[tuple[int, str, int | None]] = []
    for value, jump in enumerate(jumps):
        clock.set_wall(start + jump)
        assert await acknowledged(writer, some((1, "a", value))) == "done"
        assert await rows_of(store, "wal") == [(1, "a", value), *found[1:]]
        await table.upsert(some((2, "a", value)))
        await writer.flush()
        found = await rows_of(store)
        assert found == [(1, "a", value), (2, "a", value)]
    await vanish(writer)
    times = (await (await table_of(store)).snapshots()).column("time").to_pylist()
    assert times == sorted(set(times))


async def test_a_steady_clock_that_leaps_costs_a_look() -> None:
    """After a sleep of hours the writer looks whether it still has the log, and goes on."""
    clock = ManualClock(skip=True)
    store = await made()
    writer = await opened(store, clock=clock)
    for value in range(3):
        await clock.advance(7 * 3_600)
        assert await acknowledged(writer, some((1, "a", value))) == "done"
    await writer.close()
    assert await rows_of(store) == [(1, "a", 2)]


# --- memory ---------------------------------------------------------------------------


async def fill(writer: TableWriter, highest: list[int]) -> None:
    """Puts rows until it cannot."""
    for begin in range(0, 20_000, 100):
        ids = list(range(begin, begin + 100))
        await (await writer.put(pa.table({"id": ids, "part": ["a"] * 100, "v": ids})))
        highest.append(writer.report().memory_bytes)


async def test_back_pressure_holds_memory_while_nothing_can_be_flushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When flushes fail, puts wait before memory is over the memtables' sizes, and go on after them."""
    failing = True

    async def flush(*arguments: Any, **more: Any) -> object:
        if failing:
            raise UnavailableError("not now")
        return await flush_table(*arguments, **more)

    monkeypatch.setattr("lakehouse.storage.write.writer_session.flush_table", flush)
    store = await made(**{**SMALL, "write.memtables": "2"})
    writer = await opened(store)
    highest: list[int] = []
    filling = asyncio.create_task(fill(writer, highest))
    while len(highest) < 5 or writer.report().memtables_waiting < 2:  # noqa: ASYNC110  nothing else tells
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    count = len(highest)
    await asyncio.sleep(0.1)
    assert len(highest) == count
    assert writer.report().memtables_waiting == 2
    assert max(highest) <= 3 * 20_000
    failing = False
    await filling
    await writer.close()
    assert max(highest) <= 3 * 20_000
    assert await (await table_of(store)).scan().count() == 20_000
