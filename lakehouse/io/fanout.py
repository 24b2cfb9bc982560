"""Bounded fan-out: one function over many items, never more than ``limit`` at once.

:func:`map_bounded` is used everywhere instead of ad-hoc gathers. Invariants: at most
``limit`` calls are under way; items are pulled from the source only when a call can
start; at most ``limit`` finished results wait for the consumer (so a slow consumer
stops the work); when the iteration ends, for whatever reason, no task is left.

The tasks are plain asyncio tasks, owned by an async generator. A task group would be the
habit elsewhere, but its cancel scope must not stay open across a ``yield``: cancelling
the consumer would then cancel the wrong frame. ``limit`` long-lived workers, rather than
a task per item, because a task costs more than the bookkeeping of a request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sized
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, overload

import anyio

from lakehouse.errors import InvalidInputError

__all__ = ["Failure", "map_bounded"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Failure(Generic[T]):
    """Stands where the result of an item would, when errors are collected."""

    item: T
    error: Exception


@overload
def map_bounded(
    fn: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    limit: int,
    *,
    ordered: bool = True,
    errors: Literal["raise"] = "raise",
) -> AsyncIterator[R]: ...
@overload
def map_bounded(
    fn: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    limit: int,
    *,
    ordered: bool = True,
    errors: Literal["collect"],
) -> AsyncIterator[R | Failure[T]]: ...
def map_bounded(
    fn: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    limit: int,
    *,
    ordered: bool = True,
    errors: Literal["raise", "collect"] = "raise",
) -> AsyncIterator[R] | AsyncIterator[R | Failure[T]]:
    """Results of ``fn(item)`` for every item, at most ``limit`` calls at once.

    Args:
        fn: an async function of one item.
        items: any iterable or async iterable; pulled lazily, so it may be endless.
        limit: calls under way at once, and results that may wait for the consumer.
        ordered: in the order of the items; otherwise as they finish.
        errors: ``raise`` ends the iteration with the first error (in order, or as it
            happens) and cancels the rest; ``collect`` yields a :class:`Failure` instead.

    Example::

        async for meta in map_bounded(store.head, keys, 32, ordered=False):
            print(meta.size)

    Leaving the loop early stops the work as soon as the generator is closed; wrap it in
    ``contextlib.aclosing`` to have that happen at once.
    """
    if limit < 1:
        raise InvalidInputError(f"limit must be at least 1, not {limit}", limit=limit)
    if errors not in ("raise", "collect"):
        raise InvalidInputError(f"errors must be 'raise' or 'collect', not {errors!r}")
    workers = max(1, min(limit, len(items))) if isinstance(items, Sized) else limit
    return _run(_Fanout(fn, items, limit, ordered=ordered, collect=errors == "collect"), workers)


class _Fanout(Generic[T, R]):
    """What the workers and the consumer share. All on one loop, so no locks."""

    def __init__(
        self,
        fn: Callable[[T], Awaitable[R]],
        items: Iterable[T] | AsyncIterable[T],
        limit: int,
        *,
        ordered: bool,
        collect: bool,
    ) -> None:
        self._fn = fn
        self._ordered = ordered
        self._collect = collect
        self._limit = limit
        self._async = aiter(items) if isinstance(items, AsyncIterable) else None
        self._sync = None if isinstance(items, AsyncIterable) else iter(items)
        self._source_lock = asyncio.Lock()
        self._pulled = 0
        self._delivered = 0
        self._exhausted = False
        self._failed = False
        # Finished results: by position when ordered, else in order of completion.
        self._ready: dict[int, R | Failure[T]] = {}
        self._done: deque[R | Failure[T]] = deque()
        self._wake_consumer: asyncio.Future[None] | None = None
        self._room: deque[asyncio.Future[None]] = deque()
        self.ended: deque[asyncio.Task[None]] = deque()
        """Workers that have stopped and were not looked at yet."""

    async def work(self) -> None:
        """One worker: pull, call, hand over, until there is nothing left."""
        while (pulled := await self._pull()) is not None:
            position, item = pulled
            result: R | Failure[T]
            try:
                result = await self._fn(item)
            except Exception as error:  # noqa: BLE001 - handed to the consumer, not swallowed
                result = Failure(item, error)
                self._failed = self._failed or not self._collect
            if self._ordered:
                self._ready[position] = result
            else:
                self._done.append(result)
            self._notify()

    def end(self, worker: asyncio.Task[None]) -> None:
        """Notes that a worker has stopped, for whatever reason."""
        self.ended.append(worker)
        self._notify()

    async def _pull(self) -> tuple[int, T] | None:
        """The next item and its position, once there is room for its result."""
        while self._pulled - self._delivered >= 2 * self._limit:
            # ``limit`` under way plus ``limit`` waiting: the consumer is behind.
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(room)
            await room
        if self._exhausted or self._failed:
            return None
        if self._sync is not None:
            try:
                item = next(self._sync)
            except StopIteration:
                self._exhausted = True
                return None
            self._pulled += 1
            return self._pulled - 1, item
        return await self._pull_async()

    async def _pull_async(self) -> tuple[int, T] | None:
        assert self._async is not None
        async with self._source_lock:
            if self._exhausted:
                return None
            try:
                item = await anext(self._async)
            except StopAsyncIteration:
                self._exhausted = True
                return None
            except BaseException:
                self._exhausted = True
                raise
            self._pulled += 1
            return self._pulled - 1, item

    def _notify(self) -> None:
        if self._wake_consumer is not None and not self._wake_consumer.done():
            self._wake_consumer.set_result(None)

    def take(self) -> tuple[bool, R | Failure[T] | None]:
        """Whether a result can be delivered now, and that result."""
        if self._ordered:
            if self._delivered not in self._ready:
                return False, None
            result = self._ready.pop(self._delivered)
        elif self._done:
            result = self._done.popleft()
        else:
            return False, None
        self._delivered += 1
        while self._room:
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)
                break
        if isinstance(result, Failure) and not self._collect:
            raise result.error
        return True, result

    async def wait(self) -> None:
        """Until a worker has something to say."""
        self._wake_consumer = asyncio.get_running_loop().create_future()
        await self._wake_consumer


async def _run(shared: _Fanout[T, R], count: int) -> AsyncIterator[R | Failure[T]]:
    workers = [asyncio.create_task(shared.work()) for _ in range(count)]
    for worker in workers:
        worker.add_done_callback(shared.end)
    running = count
    try:
        while True:
            ready, result = shared.take()
            if ready:
                yield result  # type: ignore[misc]
                continue
            while shared.ended:
                shared.ended.popleft().result()  # an error of the source itself, or a bug
                running -= 1
            if not running:
                return
            await shared.wait()
    finally:
        for worker in workers:
            worker.cancel()
        # Shielded, or a cancelled scope around the consumer would end this wait early and
        # leave workers behind. Their errors were delivered above, or are the cancellation.
        with anyio.CancelScope(shield=True):
            await asyncio.wait(workers)
