"""Threads: what a caller knows of its request arrives in them."""

from __future__ import annotations

import contextvars
import threading

from lakehouse.io.work import in_own_thread, in_thread, map_bounded
from lakehouse.kernels.cores import on_cores

_request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="nobody's")


def _seen() -> tuple[str, bool]:
    return _request.get(), threading.current_thread() is threading.main_thread()


async def test_the_context_of_a_request_arrives_in_worker_threads() -> None:
    """Computation in a thread sees the account and request of whoever asked for it."""
    _request.set("a/1")
    assert await in_thread(_seen) == ("a/1", False)
    assert await in_own_thread(_seen) == ("a/1", False)


async def test_requests_side_by_side_keep_their_contexts() -> None:
    """Threads of one pool serve many requests, and each sees its own."""

    async def one(number: int) -> tuple[int, str]:
        _request.set(f"request {number}")
        found = [await in_thread(_request.get) for _ in range(3)]
        assert len(set(found)) == 1
        return number, found[0]

    results = [pair async for pair in map_bounded(one, range(50), 16)]
    assert sorted(results) == [(number, f"request {number}") for number in range(50)]


async def test_what_a_thread_sets_stays_there() -> None:
    """A thread works on a copy of the context: it changes nothing for its caller or the next."""
    _request.set("a/1")
    await in_thread(_request.set, "b/2")
    assert _request.get() == "a/1"
    assert (await in_thread(_seen))[0] == "a/1"


async def test_the_context_arrives_on_other_cores() -> None:
    """Work that threads share among cores sees the context of the caller, in every piece."""

    def spread() -> list[str]:
        return on_cores(lambda _: _request.get(), range(64))

    _request.set("a/1")
    assert set(await in_thread(spread)) == {"a/1"}
