"""How streaming writers begin and end: what is left over, what is dropped, and who must not wait for ever."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from lakehouse.errors import FencedError, InternalError, InvalidInputError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.storage.write.streaming_writer import TableWriter
from lakehouse.storage.write.writer_session import Ack
from lakehouse.testing import Fault, FaultKind, FaultyStore
from tests.kit.streaming import acknowledged, made, opened, rows_of, some, vanish
from tests.kit.worlds import NAME, StepIn, process, table_of

MANY = 100


async def test_the_next_writer_flushes_what_another_left() -> None:
    """A writer that is opened, and closed without a put, leaves nothing of the one before in the log."""
    store = await made()
    lost = await opened(store)
    assert await acknowledged(lost, some((1, "a", 1), (2, "b", 2))) == "done"
    await vanish(lost)
    async with (await table_of(store)).writer() as writer:
        assert await rows_of(store, "wal") == [(1, "a", 1), (2, "b", 2)]
        await writer.flush()
        assert await rows_of(store) == [(1, "a", 1), (2, "b", 2)]


async def test_the_next_writer_flushes_what_commits_had_covered() -> None:
    """Rows that a batch commit covered are put into files by the next writer, below that commit."""
    store = await made()
    lost = await opened(store)
    await acknowledged(lost, some((1, "a", 1), (2, "b", 2)))
    await vanish(lost)
    await (await table_of(store)).upsert(some((1, "a", 10)))
    async with (await table_of(store)).writer():
        pass
    table = await table_of(store)
    assert await rows_of(table) == [(1, "a", 10), (2, "b", 2)]
    assert not (await table._table.newest()).snapshot.segments


async def test_a_drop_at_any_request_of_an_opening_leaves_no_writer() -> None:
    """Whenever a table is dropped while a writer is opened: no put is acknowledged after the drop."""
    for covered in (False, True):
        for number in range(MANY):
            inner = await made()
            if covered:
                async with (await table_of(inner)).writer() as writer:
                    await writer.put(some((1, "a", 1)))
            hooked, met = StepIn(inner), list[str]()

            async def drop(inner: ObjectStore = inner, met: list[str] = met) -> None:
                await process(inner).drop_table(NAME)
                met.append("dropped")

            table = await table_of(hooked)
            hooked.before(number, "", drop)
            answer = "never opened"
            try:
                writer = table.writer()
                await writer.__aenter__()
                if not met:
                    await vanish(writer)
                    break
                # Rows that need no check in a thread: the flush task has no time to find out.
                answer = await acknowledged(writer, pa.table({"id": [2], "part": ["a"], "v": [2]}))
                await vanish(writer)
            except NotFoundError:
                pass
            assert answer in ("never opened", "failed"), (covered, number)
        assert number >= 4, "head, tail, fence, head"


async def test_a_writer_at_any_request_of_a_drop_acknowledges_nothing_after_it() -> None:
    """Whenever a writer is opened while the table is dropped: once that is answered, puts fail."""
    for number in range(MANY):
        inner = await made()
        await vanish(await opened(inner))
        hooked, met = StepIn(inner), list[str]()
        writers = list[TableWriter]()

        async def step_in(
            inner: ObjectStore = inner, met: list[str] = met, writers: list[TableWriter] = writers
        ) -> None:
            try:
                writers.append(await opened(inner))
                met.append(await acknowledged(writers[-1], some((1, "a", 1))))
            except NotFoundError:
                met.append("gone")

        lake = process(hooked)
        hooked.before(number, "", step_in)
        await lake.drop_table(NAME)
        if not met:
            break
        for writer in writers:
            with pytest.raises((NotFoundError, FencedError)):
                await (await writer.put(some((2, "a", 2))))
            await vanish(writer)
    assert number >= 6


async def test_an_overwrite_by_nothing_empties_the_log() -> None:
    """Overwriting a table by no rows takes acknowledged rows away, also where there is no file yet."""
    for layout in ("append-only", "rows move between partitions"):
        store = await made(layout)
        writer = await opened(store)
        await acknowledged(writer, some((1, "a", 1)))
        done = await (await table_of(store)).overwrite([])
        assert done.changed
        assert await rows_of(store, "wal") == []
        await vanish(writer)


async def test_a_put_that_waits_is_told_when_the_writer_ends() -> None:
    """A put that waits for room does not wait for a writer that was left."""
    store = FaultyStore(await made(**{"write.memtable_bytes": "1024", "write.memtables": "1"}))
    store.planned = [Fault(kind=FaultKind.THROTTLE, verb="put", key="/data/")] * 1_000
    writer = await opened(store)

    async def put_on() -> None:
        for number in range(1_000):
            await (await writer.put(some(*((number * 100 + one, "a", 1) for one in range(100)))))

    waiting = asyncio.create_task(put_on())
    async with asyncio.timeout(10):
        while writer.report().memtables_waiting < 1:  # noqa: ASYNC110  nothing else tells
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await vanish(writer)
        with pytest.raises(InvalidInputError, match="not open"):
            await waiting


@pytest.mark.parametrize("name", ["flush_table", "log_batch"])
async def test_a_bug_ends_the_writer_and_nobody_waits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error nobody expected, in the log or in a flush, is what puts and flushes end with."""

    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("broken")

    store = await made()
    writer = await opened(store)
    monkeypatch.setattr(f"lakehouse.storage.write.writer_session.{name}", broken)
    monkeypatch.setattr("lakehouse.storage.write.log_batches._FEW_ROWS", 0)
    async with asyncio.timeout(10):
        answer = await acknowledged(writer, some((1, "a", 1)))
        assert answer == ("done" if name == "flush_table" else "unknown")
        for _ in range(2):
            with pytest.raises(InternalError, match="ZeroDivisionError"):
                await writer.flush()
        with pytest.raises(InternalError):
            await writer.put(some((2, "a", 2)))
        await writer.close()


async def test_closing_twice_and_using_a_closed_writer() -> None:
    """A writer can be closed again; everything else says that it is not open."""
    store = await made()
    writer = await opened(store)
    await writer.close()
    await writer.close()
    for use in (writer.put(some((1, "a", 1))), writer.delete([{"id": 1}]), writer.flush()):
        with pytest.raises(InvalidInputError, match="not open"):
            await use
    with pytest.raises(InvalidInputError, match="not open"):
        (await table_of(store)).writer().report()


async def test_a_repeated_put_is_acknowledged_with_the_first() -> None:
    """Whoever repeats a put that is on its way is told that it is durable when it is, and not before."""
    hooked = StepIn(await made("append-only"))
    again: list[Ack] = []
    async with (await table_of(hooked)).writer() as writer:

        async def repeat() -> None:
            again.append(await writer.put(some((1, "a", 1)), writer=("loader", 1)))
            await asyncio.sleep(0)
            assert not again[0].is_done

        hooked.before(0, "/wal/", repeat, verb="put_if_absent")
        first = await writer.put(some((1, "a", 1)), writer=("loader", 1))
        assert await first == await again[0]
    assert await rows_of(hooked) == [(1, "a", 1)]
