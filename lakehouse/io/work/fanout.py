"""Bounded fan-out: one function over many items, never more than ``limit`` at once.

:func:`map_bounded` is used everywhere instead of ad-hoc gathers. Invariants: at most
``limit`` calls are under way; items are pulled from the source only when a call can
start; at most twice ``limit`` items are pulled and not yet consumed (so a slow consumer
stops the work); when the iteration ends, for whatever reason, no task is left and an
asynchronous source is closed.

The tasks are plain asyncio tasks, owned by an async generator. A task group would be the
habit elsewhere, but its cancel scope must not stay open across a ``yield``: cancelling
the consumer would then cancel the wrong frame. ``limit`` long-lived workers, rather than
a task per item, because a task costs more than the bookkeeping of a request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Sized
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
) -> AsyncGenerator[R, None]: ...
@overload
def map_bounded(
    fn: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    limit: int,
    *,
    ordered: bool = True,
    errors: Literal["collect"],
) -> AsyncGenerator[R | Failure[T], None]: ...
def map_bounded(
    fn: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    limit: int,
    *,
    ordered: bool = True,
    errors: Literal["raise", "collect"] = "raise",
) -> AsyncGenerator[R, None] | AsyncGenerator[R | Failure[T], None]:
    """Results of ``fn(item)`` for every item, at most ``limit`` calls at once.

    Args:
        fn: an async function of one item.
        items: any iterable or async iterable; pulled lazily, so it may be endless. What it
            raises is raised behind the results of the items before.
        limit: calls under way at once; as many results again may wait for the consumer.
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
    workers = min(limit, len(items)) if isinstance(items, Sized) else limit
    return _run(_Fanout(fn, items, limit, ordered=ordered, collect=errors == "collect"), workers)


class _Fanout(Generic[T, R]):
    """State that the workers and the consumer share. All are on one loop, so it needs no locks."""

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
        self._turn = asyncio.Lock()
        """Whose turn it is to pull from an asynchronous source, which takes one call at a time."""
        self._pulled = 0
        self._finished = 0
        self._delivered = 0
        self._stopped = False
        """Nothing more is pulled: the source has ended, or something failed."""
        self._ready: dict[int, R | _Raised | Failure[T]] = {}
        """Finished results by the place in which they are delivered."""
        self._wake_consumer: asyncio.Future[None] | None = None
        self._room: deque[asyncio.Future[None]] = deque()
        self.ended: deque[asyncio.Task[None]] = deque()
        """Workers that have stopped and were not looked at yet."""

    async def work(self) -> None:
        """One worker: pull, call, hand over, until there is nothing left."""
        while (pulled := await self._pull()) is not None:
            position, item = pulled
            result: R | _Raised | Failure[T]
            try:
                result = await self._fn(item)
            except Exception as error:  # noqa: BLE001 - handed to the consumer, not swallowed
                result = Failure(item, error) if self._collect else _Raised(error)
                self._stopped = self._stopped or not self._collect
            self._ready[position if self._ordered else self._finished] = result
            self._finished += 1
            self._notify()
            del pulled, item, result  # an idle worker keeps nothing alive

    def end(self, worker: asyncio.Task[None]) -> None:
        """Notes that a worker has stopped, for whatever reason."""
        self.ended.append(worker)
        self._notify()

    async def _pull(self) -> tuple[int, T] | None:
        """The next item and its position, once there is room for its result."""
        if self._async is None:
            return await self._pull_next()
        async with self._turn:
            return await self._pull_next()

    async def _pull_next(self) -> tuple[int, T] | None:
        while self._pulled - self._delivered >= 2 * self._limit:
            # ``limit`` under way plus ``limit`` waiting: the consumer is behind.
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(room)
            await room
        if self._stopped:
            return None
        try:
            item = next(self._sync) if self._sync is not None else await anext(self._async)  # type: ignore[arg-type]
        except (StopIteration, StopAsyncIteration):
            self._stopped = True
            return None
        except BaseException:
            self._stopped = True
            raise
        self._pulled += 1
        return self._pulled - 1, item

    def _notify(self) -> None:
        if self._wake_consumer is not None and not self._wake_consumer.done():
            self._wake_consumer.set_result(None)

    def take(self) -> tuple[bool, R | Failure[T] | None]:
        """Whether a result can be delivered now, and that result."""
        if self._delivered not in self._ready:
            return False, None
        result = self._ready.pop(self._delivered)
        self._delivered += 1
        while self._room:
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)
                break
        if isinstance(result, _Raised):
            raise result.error
        return True, result

    async def wait(self) -> None:
        """Until a worker has something to say."""
        self._wake_consumer = asyncio.get_running_loop().create_future()
        await self._wake_consumer

    async def stop(self, workers: list[asyncio.Task[None]]) -> None:
        """Ends the workers, waits until they have, and closes an asynchronous source."""
        self._stopped = True  # a call that turns its cancellation into a result is the last of its worker
        interrupted: asyncio.CancelledError | None = None
        # Shielded, or a cancelled scope around the consumer would end this wait early and
        # leave workers behind; a second cancellation of its task waits its turn as well.
        with anyio.CancelScope(shield=True):
            for worker in workers:
                worker.cancel()
            while not all(worker.done() for worker in workers):
                try:
                    await asyncio.wait(workers)
                except asyncio.CancelledError as error:
                    interrupted = error
            for worker in workers:
                if not worker.cancelled():
                    worker.exception()  # looked at, so that asyncio does not report it as overlooked
            if isinstance(self._async, AsyncGenerator):
                await self._async.aclose()
        if interrupted is not None:
            raise interrupted


@dataclass(frozen=True, slots=True)
class _Raised:
    """Stands where the result would, when errors are raised."""

    error: Exception


async def _run(shared: _Fanout[T, R], count: int) -> AsyncGenerator[R | Failure[T], None]:
    workers = [asyncio.create_task(shared.work()) for _ in range(count)]
    for worker in workers:
        worker.add_done_callback(shared.end)
    running = count
    broken: Exception | None = None
    try:
        while True:
            ready, result = shared.take()
            if ready:
                yield result  # type: ignore[misc]
                continue
            while shared.ended:
                worker = shared.ended.popleft()
                running -= 1
                error = None if worker.cancelled() else worker.exception()
                if isinstance(error, Exception):
                    broken = error  # the source's own; what came before it is delivered first
                else:
                    worker.result()
            if running:
                await shared.wait()
            elif broken is not None:
                raise broken
            else:
                return
    finally:
        await shared.stop(workers)
