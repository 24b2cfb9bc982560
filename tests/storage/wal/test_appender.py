"""Appending to a write-ahead log: who has it, who had it, and answers that are lost or late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakehouse.errors import CommitUnknownError, FencedError, InternalError, UnavailableError
from lakehouse.format.metadata.wal_segment import SegmentHeader
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.storage.wal.appender import WalAppender
from lakehouse.testing import Fault, FaultKind, FaultyStore, ManualClock, RecordingStore, memory_store
from tests.kit.table_logs import batch, covering, log_of, put, taken_over, values_in
from tests.kit.worlds import StepIn

DEADLINE_S = 300.0
MANY = 100


async def newest(store: ObjectStore) -> SegmentHeader:
    """The header of the newest segment."""
    wal = log_of(store)
    number = await wal.log.newest()
    assert number is not None
    return (await wal.read(number)).header


async def swept(store: ObjectStore, upto: int) -> None:
    """Deletes what is covered and flushed, as expiry does: ascending, never the newest."""
    wal = log_of(store)
    for number in range(1, upto + 1):
        await store.delete(wal.log.key(number))


# --- taking over ----------------------------------------------------------------------


async def test_each_writer_has_a_higher_epoch() -> None:
    """A new writer creates a fence behind the newest segment, whose epoch is one higher."""
    store = memory_store()
    first = await taken_over(store)
    assert (first.epoch, first.last) == (1, 1)
    assert await put(first, 10) == 2
    second = await taken_over(store)
    assert (second.epoch, second.last) == (2, 3)
    assert (await log_of(store).read(3)).is_fence
    with pytest.raises(FencedError, match=r"another writer \(epoch 2\).*\(epoch 1\) at segment 3") as caught:
        await put(first, 11)
    assert caught.value.context["winner_epoch"] == 2
    assert await put(second, 12) == 4
    assert await values_in(store) == [10, 12]


async def test_a_fenced_writer_stays_fenced() -> None:
    """However often it tries, a writer that lost the log gets nothing into it any more."""
    store = memory_store()
    first = await taken_over(store)
    await taken_over(store)
    for value in range(3):
        with pytest.raises(FencedError):
            await put(first, value)
    assert await values_in(store) == []


async def test_taking_over_a_covered_log_goes_on_behind_it() -> None:
    """Where all is covered and all but the newest segment deleted, epoch and clients are still known."""
    store = memory_store()
    first = await taken_over(store)
    first.marks["loader"] = 41
    for value in range(3):
        await put(first, value)
    await swept(store, 3)
    second = await taken_over(store, head=covering(4))
    assert (second.epoch, second.last, second.marks) == (2, 5, {"loader": 41})
    with pytest.raises(FencedError):
        await put(first, 3)
    third = await taken_over(store, head=covering(5))
    assert (third.epoch, third.last, third.marks) == (3, 6, {"loader": 41})


async def test_of_many_writers_that_take_over_at_once_one_is_left() -> None:
    """Epochs are given out once, the log stays dense, and only the last one can append."""
    store = memory_store()
    found = await asyncio.gather(*(taken_over(store) for _ in range(8)))
    assert sorted(one.epoch for one in found) == list(range(1, 9))
    assert sorted(one.last for one in found) == list(range(1, 9))
    for one in sorted(found, key=lambda one: one.epoch)[:-1]:
        with pytest.raises(FencedError):
            await put(one, one.epoch)
    assert await put(max(found, key=lambda one: one.epoch), 100) == 9
    assert await values_in(store) == [100]


async def told(work: Awaitable[Any]) -> str:
    """What a writer is told about a put."""
    try:
        await work
    except FencedError:
        return "fenced"
    except CommitUnknownError:
        return "unknown"
    except UnavailableError:
        return "failed"
    return "done"


async def test_puts_between_any_two_requests_of_a_takeover_are_before_the_fence() -> None:
    """Whenever a writer puts while another takes over: acknowledged rows stay, then it is fenced off."""
    for number in range(MANY):
        inner = memory_store()
        first = await taken_over(inner)
        first.marks["loader"] = 7
        await put(first, 0)
        hooked, answers = StepIn(inner), list[str]()

        async def step_in(first: WalAppender = first, answers: list[str] = answers) -> None:
            first.marks["loader"] = 8
            answers.append(await told(put(first, 1)))

        hooked.before(number, "", step_in)
        second = await taken_over(hooked)
        if not answers:
            break
        assert answers == ["done"]
        assert second.marks == {"loader": 8}
        assert await told(put(first, 2)) == "fenced"
        assert await told(put(second, 3)) == "done"
        assert await values_in(inner) == [0, 1, 3]
    assert number >= 3, "list, read, create"


async def test_a_takeover_between_any_two_requests_of_another_leaves_one_writer() -> None:
    """Whenever a second process takes the log over while a first does, one of them has it, and one only."""
    for number in range(MANY):
        inner = memory_store()
        await put(await taken_over(inner), 0)
        hooked, others = StepIn(inner), list[WalAppender]()

        async def step_in(inner: ObjectStore = inner, others: list[WalAppender] = others) -> None:
            others.append(await taken_over(inner))
            assert await told(put(others[0], 1)) == "done"

        hooked.before(number, "", step_in)
        mine = await taken_over(hooked)
        if not others:
            break
        assert await told(put(mine, 2)) == "done"
        assert await told(put(others[0], 3)) == "fenced"
        assert await values_in(inner) == [0, 1, 2]
        assert (await newest(inner)).epoch == 3
    assert number >= 3


# --- held up --------------------------------------------------------------------------


class Sleeps(StoreDecorator):
    """One create is held up for an hour, before it is sent or before its answer comes."""

    def __init__(self, inner: ObjectStore, clock: ManualClock, meanwhile: Callable[[], Awaitable[None]]):
        super().__init__(inner)
        self._clock, self._meanwhile = clock, meanwhile
        self.when: str | None = None
        """``before``, ``after``, or None: never."""

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[Any]], size: int = 0) -> Any:
        when, self.when = (self.when, None) if verb == "put_if_absent" else (None, self.when)
        if when == "before":
            await self._hour()
        answer = await request()
        if when == "after":
            await self._hour()
        return answer

    async def _hour(self) -> None:
        await self._clock.advance(3_600)
        await self._meanwhile()


async def test_a_writer_that_slept_finds_its_number_free_and_is_fenced() -> None:
    """A writer that was held up, whose number was used and deleted meanwhile, acknowledges nothing."""
    inner, clock = memory_store(), ManualClock(skip=True)
    store = RecordingStore(inner)
    first = await taken_over(store, clock=clock, deadline_s=DEADLINE_S)
    await put(first, 0)
    await clock.advance(3_600)
    second = await taken_over(inner)
    assert await put(second, 1) == 4
    await swept(inner, 3)
    store.clear()
    with pytest.raises(FencedError, match="has taken the log over while this one was held up"):
        await put(first, 2)
    assert "put" not in store.kinds()
    assert await values_in(inner, after=3) == [1]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_create_that_is_held_up_is_not_believed(when: str) -> None:
    """A create that took longer than the deadline acknowledges nothing: its number may have been deleted."""
    inner, clock = memory_store(), ManualClock(skip=True)

    async def meanwhile() -> None:
        second = await taken_over(inner)
        await put(second, 1)
        await swept(inner, second.last - 1)

    store = Sleeps(inner, clock, meanwhile)
    first = await taken_over(store, clock=clock, deadline_s=DEADLINE_S)
    await put(first, 0)
    header = first.header(0)
    store.when = when
    with pytest.raises(CommitUnknownError, match="later than the deadline"):
        await first.append(header, [batch(2)], codec="none")
    with pytest.raises(FencedError):
        await first.append(header, [batch(2)], codec="none")


async def test_a_late_answer_about_our_newest_segment_is_settled_by_a_look() -> None:
    """When nobody took over meanwhile, the second try finds the segment and writes none."""

    async def nothing() -> None:
        pass

    clock = ManualClock(skip=True)
    store = Sleeps(memory_store(), clock, nothing)
    first = await taken_over(store, clock=clock, deadline_s=DEADLINE_S)
    header = first.header(0)
    store.when = "after"
    with pytest.raises(CommitUnknownError):
        await first.append(header, [batch(2)], codec="none")
    assert (await first.append(header, [batch(2)], codec="none")).header == header
    assert await put(first, 3) == 3
    assert await values_in(store) == [2, 3]


async def test_a_writer_that_was_idle_looks_once_and_goes_on() -> None:
    """After the deadline one listing says that the next number is still the next; before, none is made."""
    clock = ManualClock(skip=True)
    store = RecordingStore(memory_store())
    writer = await taken_over(store, clock=clock, deadline_s=DEADLINE_S)
    for seconds, wanted in ((DEADLINE_S - 1, {"put": 1}), (DEADLINE_S + 1, {"list": 1, "put": 1})):
        await clock.advance(seconds)
        store.clear()
        await put(writer, 1)
        assert store.kinds() == wanted


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_fence_that_is_held_up_is_looked_at_again(when: str) -> None:
    """A fence that took longer than the deadline may stand at a deleted number: another follows it."""
    inner, clock = memory_store(), ManualClock(skip=True)
    await put(await taken_over(inner), 0)

    async def meanwhile() -> None:
        second = await taken_over(inner)
        second.marks["loader"] = 5
        await put(second, 1)
        others.append(second)
        await swept(inner, second.last - 1)

    others: list[WalAppender] = []
    store = Sleeps(inner, clock, meanwhile)
    store.when = when
    third = await taken_over(store, clock=clock, deadline_s=DEADLINE_S)
    assert third.last == others[0].last + 1
    assert (third.epoch, third.marks) == (others[0].epoch + 1, {"loader": 5})
    assert await told(put(others[0], 2)) == "fenced"
    assert await told(put(third, 3)) == "done"


async def test_a_fence_that_was_slow_and_is_the_newest_is_enough() -> None:
    """When nobody came in between, a late fence is the one, and costs one listing more."""

    async def nothing() -> None:
        pass

    inner, clock = memory_store(), ManualClock(skip=True)
    store = Sleeps(inner, clock, nothing)
    store.when = "after"
    writer = await taken_over(store, clock=clock, deadline_s=DEADLINE_S)
    assert (writer.last, writer.epoch) == (1, 1)
    assert await put(writer, 1) == 2


# --- answers that are lost ------------------------------------------------------------


@pytest.mark.parametrize("count", [1, MANY], ids=["once", "for good"])
@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.FAIL_BEFORE,
        FaultKind.FAIL_AFTER,
        FaultKind.LANDS_LATER,
        FaultKind.DUPLICATE,
        FaultKind.CONFLICT,
        FaultKind.THROTTLE,
    ],
    ids=lambda kind: kind.name.lower(),
)
async def test_every_answer_to_a_put_is_settled(kind: FaultKind, count: int) -> None:
    """Done is there once; what is not known can be tried again with the same header until it is done."""
    inner = memory_store()
    store = FaultyStore(inner)
    writer = await taken_over(store)
    header = writer.header(0)
    for number in range(MANY):
        store.planned = [Fault(kind=kind, at=store.operations + number + more) for more in range(count)]
        before = len(store.injected)
        answer = await told(writer.append(header, [batch(number)], codec="none"))
        store.planned = []
        if len(store.injected) == before:
            break
        await store.land()
        assert answer in ("done", "unknown", "failed")
        if answer == "done":
            assert await values_in(inner) == list(range(number + 1))
        else:
            assert writer.last == number + 1
            await writer.append(header, [batch(number)], codec="none")
        assert await values_in(inner) == list(range(number + 1))
        header = writer.header(0)
    assert number >= 1


async def test_a_segment_that_lands_behind_a_takeover_is_lost_to_the_fence() -> None:
    """A put that is still on its way when another takes over is not there, and was not acknowledged."""
    inner = memory_store()
    store = FaultyStore(inner)
    first = await taken_over(store)
    header = first.header(0)
    store.planned = [Fault(kind=FaultKind.LANDS_LATER, verb="put_if_absent")] * MANY
    assert await told(first.append(header, [batch(1)], codec="none")) == "unknown"
    second = await taken_over(inner)
    store.planned = []
    await store.land()
    assert await told(first.append(header, [batch(1)], codec="none")) == "fenced"
    assert await told(put(second, 2)) == "done"
    assert await values_in(inner) == [2]


async def test_a_segment_that_lands_before_a_takeover_is_there_and_stays() -> None:
    """An unknown put that was applied stands in front of the fence: its writer finds its own token."""
    inner = memory_store()
    store = FaultyStore(inner)
    first = await taken_over(store)
    header = first.header(0)
    store.planned = [Fault(kind=FaultKind.LANDS_LATER, verb="put_if_absent")] * MANY
    assert await told(first.append(header, [batch(1)], codec="none")) == "unknown"
    store.planned = []
    await store.land()
    second = await taken_over(inner)
    assert await told(first.append(header, [batch(1)], codec="none")) == "done"
    assert await told(put(first, 9)) == "fenced"
    assert await told(put(second, 2)) == "done"
    assert await values_in(inner) == [1, 2]


async def test_a_header_is_of_the_next_number() -> None:
    """A segment that would leave a gap, or come twice, is refused before anything is sent."""
    writer = await taken_over(memory_store())
    old = writer.header(0)
    await writer.append(old, [batch(1)], codec="none")
    with pytest.raises(InternalError):
        await writer.append(old, [batch(1)], codec="none")


async def test_a_thousand_clients_are_remembered() -> None:
    """The clients that put least recently are forgotten beyond a thousand."""
    store = memory_store()
    writer = await taken_over(store)
    for number in range(1_005):
        writer.marks[f"c{number}"] = number
    await put(writer, 1)
    marks = (await taken_over(store)).marks
    assert len(marks) == 1_000
    assert "c4" not in marks
    assert marks["c5"] == 5
