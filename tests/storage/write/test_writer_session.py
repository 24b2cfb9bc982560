"""Open writers: acknowledgements and their order, sequences of clients, and what a report counts."""

from __future__ import annotations

import asyncio

import pytest

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.testing import RecordingStore
from tests.kit.streaming import acknowledged, made, opened, rows_of, some, vanish
from tests.kit.worlds import NAME, StepIn, process, table_of


async def test_an_acknowledgement_may_be_awaited_again() -> None:
    """Whoever awaits it, and however often, is told the same segment; its outcome is known then."""
    writer = await opened(await made())
    ack = await writer.put(some((1, "a", 1)))
    number = await ack
    assert ack.is_done
    assert [await ack, *await asyncio.gather(*([ack] * 3))] == [number] * 4
    await vanish(writer)


async def test_who_gives_up_waiting_takes_the_outcome_from_nobody() -> None:
    """A wait that is cancelled leaves the put on its way, and others who wait for it."""
    hooked = StepIn(await made())
    writer = await opened(hooked)
    arrived, held = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        arrived.set()
        await held.wait()

    hooked.before(0, "/wal/", hold, verb="put_if_absent")
    ack = await writer.put(some((1, "a", 1)))
    impatient, patient = asyncio.ensure_future(ack), asyncio.ensure_future(ack)
    await arrived.wait()
    impatient.cancel()
    held.set()
    assert await patient == await ack
    assert impatient.cancelled()
    assert await rows_of(hooked, "wal") == [(1, "a", 1)]
    await vanish(writer)


async def test_puts_are_acknowledged_in_their_order() -> None:
    """When a put is acknowledged those before it are, and their segments ascend."""
    writer = await opened(await made())
    acks = [await writer.put(some((number, "a", number))) for number in range(20)]
    await acks[-1]
    assert all(ack.is_done for ack in acks)
    numbers = [await ack for ack in acks]
    assert numbers == sorted(numbers)
    await vanish(writer)


async def test_a_put_without_rows_is_acknowledged_and_writes_nothing() -> None:
    """A put of no rows takes its turn, and no request."""
    store = RecordingStore(await made())
    writer = await opened(store)
    first = await (await writer.put(some((1, "a", 1))))
    store.clear()
    assert await (await writer.put([])) == first
    assert not [call for call in store.calls if "/wal/" in call.key]
    await vanish(writer)


async def test_a_report_counts_what_was_put_and_what_is_held() -> None:
    """Rows count once acknowledged; a flush takes them out of memory, and counts as one."""
    async with (await table_of(await made())).writer() as writer:
        for number in range(3):
            await (await writer.put(some((number, "a", 1), (number, "b", 2))))
        report = writer.report()
        assert (report.puts, report.rows, report.segments, report.flushes) == (3, 6, 3, 0)
        assert report.queued_bytes == report.memtables_waiting == 0
        assert report.memory_bytes > 0
        await writer.flush()
        flushed = writer.report()
        assert (flushed.rows, flushed.flushes, flushed.memory_bytes) == (6, 1, 0)
        assert flushed.epoch == report.epoch


async def test_each_writer_has_an_epoch_of_its_own() -> None:
    """A writer that is opened later has a higher epoch, in whatever process."""
    store = await made()
    first = await opened(store)
    second = await opened(store)
    assert second.report().epoch > first.report().epoch
    for writer in (first, second):
        await vanish(writer)


async def test_what_is_not_open_says_so_by_its_kind() -> None:
    """Programs know the use of a closed writer by the kind of the error."""
    writer = await opened(await made())
    await writer.close()
    with pytest.raises(InvalidInputError) as refused:
        await writer.put(some((1, "a", 1)))
    assert refused.value.kind == "closed"


async def test_a_failure_that_somebody_heard_is_not_raised_again_by_closing() -> None:
    """Whoever has awaited the put that failed can close the writer; nothing more can be put."""
    store = await made()
    writer = await opened(store)
    await process(store).drop_table(NAME)
    ack = await writer.put(some((1, "a", 1)))
    with pytest.raises(NotFoundError):
        await ack
    with pytest.raises(NotFoundError):
        await writer.put(some((2, "a", 2)))
    await writer.close()


async def test_a_failure_that_nobody_heard_is_raised_by_closing() -> None:
    """A put that failed without anybody awaiting it is the error of the writer's end."""
    store = await made()
    writer = await opened(store)
    await process(store).drop_table(NAME)
    ack = await writer.put(some((1, "a", 1)))
    while not ack.is_done:  # noqa: ASYNC110  awaiting it would be hearing of it
        await asyncio.sleep(0)
    with pytest.raises(NotFoundError):
        await writer.close()


# --- sequences ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "writer", ["w", ("", 1), ("w", -1), ("w", True), ("w", 2**63), ("w" * 1_001, 1), ("w\n", 1), ("w", 1, 2)]
)
async def test_what_is_no_sequence_is_refused(writer: object) -> None:
    """A sequence is a short text and a number that fits; anything else refuses the put, and no other."""
    store = await made()
    stream = await opened(store)
    with pytest.raises(InvalidInputError, match="writer must be"):
        await stream.put(some((1, "a", 1)), writer=writer)  # type: ignore[arg-type]
    assert await acknowledged(stream, some((2, "a", 2)), writer=("w" * 1_000, 2**63 - 1)) == "done"
    await vanish(stream)
    assert await rows_of(store, "wal") == [(2, "a", 2)]


async def test_two_puts_of_one_sequence_at_once_are_one() -> None:
    """A client that gave up waiting and puts again, while its first call still goes on, has put once."""
    store = await made("append-only")
    async with (await table_of(store)).writer() as writer:
        puts = [writer.put(some((1, "a", 1)), writer=("loader", 1)) for _ in range(3)]
        acks = await asyncio.gather(*puts)
        assert len({await ack for ack in acks}) == 1
    assert await rows_of(store) == [(1, "a", 1)]
