"""Looks that calls share: none began before a call, one is for all who come meanwhile, none stays behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from lakehouse.errors import LakehouseError, UnavailableError
from lakehouse.storage.metadata.shared_look import SharedLook

TURNS = 5
"""Turns of the loop in which everybody who can go on has done so."""


class Bucket:
    """Something to look at: each look takes what is there when it begins, and ends when it is told to."""

    def __init__(self) -> None:
        self.now = 0
        self.looks = 0
        self.gates: list[asyncio.Future[None]] = []
        self.cancelled = 0
        self.shared = SharedLook(self.look)

    async def look(self) -> int:
        """The function that calls share."""
        self.looks += 1
        seen = self.now
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        try:
            await gate
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return seen

    async def call(self) -> tuple[int, int]:
        """What was there when the call was made, and what it was told."""
        began = self.now
        return began, await self.shared()

    def end(self, error: BaseException | None = None) -> None:
        """Ends the look that is under way, if there is one."""
        self.gates = [gate for gate in self.gates if not gate.done()]
        if not self.gates:
            return
        (gate,) = self.gates
        if error is None:
            gate.set_result(None)
        else:
            gate.set_exception(error)


async def turns() -> None:
    """Lets everybody go on who can."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def started(bucket: Bucket, count: int = 1) -> list[asyncio.Task[tuple[int, int]]]:
    """Calls that wait by now."""
    calls = [asyncio.ensure_future(bucket.call()) for _ in range(count)]
    await turns()
    return calls


async def test_calls_of_one_moment_share_one_look() -> None:
    """A thousand calls that are made before the look begins cost one look."""
    bucket = Bucket()
    calls = await started(bucket, 1_000)
    bucket.end()
    assert await asyncio.gather(*calls) == [(0, 0)] * 1_000
    assert bucket.looks == 1


async def test_no_call_is_given_a_look_that_began_before_it() -> None:
    """Calls during a look wait for the next one, which all share, and see what was written meanwhile."""
    bucket = Bucket()
    first = await started(bucket)
    bucket.now = 1  # a write is acknowledged while the first look is under way
    later = await started(bucket, 10)
    assert bucket.looks == 1
    bucket.end()
    await turns()
    assert bucket.looks == 2
    bucket.now = 2
    last = await started(bucket)
    bucket.end()
    await turns()
    bucket.end()
    assert await asyncio.gather(*first, *later, *last) == [(0, 0), *[(1, 1)] * 10, (2, 2)]
    assert bucket.looks == 3


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_the_order_no_answer_is_older_than_its_call(seed: int) -> None:
    """In random interleavings of writes, calls, cancellations and answers nobody is told what is too old."""
    draw = random.Random(seed)
    bucket = Bucket()
    calls: list[asyncio.Task[tuple[int, int]]] = []
    steps: list[Callable[[], None]] = [
        lambda: setattr(bucket, "now", bucket.now + 1),
        lambda: calls.append(asyncio.ensure_future(bucket.call())),
        bucket.end,
        lambda: None if not calls else draw.choice(calls).cancel() and None,
    ]
    for _ in range(200):
        draw.choices(steps, (3, 4, 2, 1))[0]()
        for _ in range(draw.randrange(4)):
            await asyncio.sleep(0)
    while not all(call.done() for call in calls):
        bucket.end()
        await turns()
    answers = [call.result() for call in calls if not call.cancelled()]
    assert answers
    assert all(told >= began for began, told in answers)


async def test_a_cancelled_call_takes_nothing_from_the_others() -> None:
    """The call that began the look is cancelled; the look goes on for who shares it."""
    bucket = Bucket()
    first, second = await started(bucket, 2)
    first.cancel()
    await turns()
    assert first.cancelled()
    bucket.end()
    assert await second == (0, 0)
    assert (bucket.looks, bucket.cancelled) == (1, 0)


async def test_the_last_call_takes_its_look_along() -> None:
    """A look that nobody waits for any more is cancelled, and the next call makes its own."""
    bucket = Bucket()
    (call,) = await started(bucket)
    call.cancel()
    await turns()
    assert bucket.cancelled == 1
    (call,) = await started(bucket)
    bucket.end()
    assert await call == (0, 0)
    assert bucket.looks == 2


async def test_a_call_after_a_cancelled_one_is_not_cancelled_with_it() -> None:
    """A call in the very moment in which the last one before it was cancelled gets an answer."""
    bucket = Bucket()
    (first,) = await started(bucket)
    first.cancel()
    second = asyncio.ensure_future(bucket.call())
    await turns()
    bucket.end()
    assert await second == (0, 0)
    assert first.cancelled()


async def test_a_look_that_all_left_before_it_began_is_not_made() -> None:
    """Calls that waited for the next look and are cancelled cost nothing."""
    bucket = Bucket()
    (first,) = await started(bucket)
    (second,) = await started(bucket)
    second.cancel()
    await turns()
    bucket.end()
    assert await first == (0, 0)
    await turns()
    assert bucket.looks == 1
    (third,) = await started(bucket)
    bucket.end()
    assert await third == (0, 0)


async def test_an_error_goes_to_all_who_share_the_look_and_to_nobody_else() -> None:
    """Those who share a failed look get its error; those who wait for the next one get an answer."""
    bucket = Bucket()
    sharing = await started(bucket, 3)
    waiting = await started(bucket, 2)
    bucket.end(UnavailableError("the store is away"))
    await turns()
    bucket.end()
    for call in sharing:
        with pytest.raises(UnavailableError, match="the store is away"):
            await call
    assert await asyncio.gather(*waiting) == [(0, 0)] * 2


async def test_a_look_that_is_cancelled_from_outside_is_an_error_to_try_again() -> None:
    """Callers whose look is cancelled under them are not cancelled themselves."""
    bucket = Bucket()
    (call,) = await started(bucket)
    assert bucket.shared._last is not None
    assert bucket.shared._last._task is not None
    bucket.shared._last._task.cancel()
    with pytest.raises(LakehouseError, match="try again"):
        await call


async def test_the_look_is_paid_by_who_asked_first() -> None:
    """A shared look runs in the context of the call that asked for it, also when it has to wait."""
    who: ContextVar[str] = ContextVar("who")
    payers: list[str] = []
    go = asyncio.Event()

    async def look() -> None:
        payers.append(who.get())
        await go.wait()

    shared = SharedLook(look)

    async def call(name: str) -> None:
        who.set(name)
        await shared()

    calls = [asyncio.ensure_future(call("first"))]
    await turns()
    calls += [asyncio.ensure_future(call(name)) for name in ("second", "third")]
    await turns()
    go.set()
    await asyncio.gather(*calls)
    assert payers == ["first", "second"]


def test_looks_of_a_loop_that_is_gone_hold_nobody_up() -> None:
    """A look that a closed loop left behind is not waited for on another loop."""
    bucket = Bucket()

    async def left_behind() -> None:
        await started(bucket)

    asyncio.run(left_behind())
    bucket.gates.clear()

    async def afterwards() -> tuple[int, int]:
        (call,) = await started(bucket)
        bucket.end()
        return await call

    assert asyncio.run(afterwards()) == (0, 0)
