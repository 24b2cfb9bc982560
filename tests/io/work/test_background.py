"""Work that is begun beside other work, or must be done whatever happens."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from lakehouse.io.work import finish


async def test_finishing_waits_through_cancellations() -> None:
    """Work that must not stay half done is done, and the cancellation is raised afterwards."""
    gate, done = asyncio.Event(), list[bool]()

    async def give_back() -> None:
        await gate.wait()
        done.append(True)

    task = asyncio.create_task(finish(give_back()))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done


async def test_finishing_waits_in_a_cancelled_scope() -> None:
    """A scope that is cancelled does not keep the work from its end."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        assert await finish(_answer()) == 42


async def test_finishing_hands_on_what_happened() -> None:
    """Results and errors of the work are those of the call."""

    async def fails() -> None:
        raise KeyError

    assert await finish(_answer()) == 42
    with pytest.raises(KeyError):
        await finish(fails())


async def _answer() -> int:
    await asyncio.sleep(0)
    return 42
