"""The bridge from blocking code to an async lake: a thread that runs the lake's event loop.

Nothing is started before the first call. Iterations and context managers have a task of their own from
beginning to end, because context variables and cancel scopes must be left where they were entered;
every other call is a task.

Invariant: when the bridge is closed, everything that was started through it has ended, its thread
included. A call that is interrupted is cancelled, and has ended before the interrupt is raised further.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import os
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, ParamSpec, TypeVar

import anyio

from lakehouse.errors import InvalidInputError

__all__ = ["Bridge"]

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=AbstractAsyncContextManager[Any])

_THREAD = "lakehouse-sync"


class Bridge:
    """Runs one async lake in a thread of its own, for callers that block.

    Any number of threads may call it. A bridge without references closes itself, at the
    latest when the interpreter ends.

    Args:
        lake: async lake, entered by the first call, and left by :meth:`close`.
    """

    def __init__(self, lake: AbstractAsyncContextManager[object]) -> None:
        self._lake = lake
        self._starting = threading.Lock()
        self._loop: _LoopThread | None = None
        self._closed = False

    @classmethod
    def entering(
        cls, work: Callable[P, Awaitable[E]], /, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Bridge, E]:
        """Makes a bridge for what an async function opens, and opens it."""
        opened = _Opened(functools.partial(work, *args, **kwargs))
        bridge = cls(opened)
        bridge.open()
        return bridge, opened.value

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as configuration: the lake is entered where it arrives, by the first call.
        return type(self), (self._lake,)

    def open(self) -> None:
        """Enters the lake, unless it is entered."""
        self._entered()

    def close(self) -> None:
        """Waits for calls of other threads, ends iterations, leaves the lake. It may be called twice.

        In a forked child it does nothing: the open lake belongs to the parent.
        """
        with self._starting:
            self._closed = True
        if self._loop is not None:
            self._loop.close()

    def enter(self, inner: AbstractAsyncContextManager[object]) -> None:
        """Enters something of the lake's, or opens the bridge where that is all the bridge is for."""
        if self._is_for(inner):
            self.open()
        else:
            self.call(inner.__aenter__)

    def leave(self, inner: AbstractAsyncContextManager[object]) -> None:
        """Leaves something of the lake's, or closes the bridge where that is all the bridge is for."""
        if self._is_for(inner):
            self.close()
        else:
            self.call(inner.__aexit__, None, None, None)

    def twin(
        self,
        made: Any,
        twins: Mapping[type, Callable[[Any, Bridge], Any]],
        other: Callable[[Any, Bridge], Any],
    ) -> Any:
        """Returns the twin of what a call made: by its class, or ``other``."""
        return twins.get(type(made), other)(made, self)

    def _is_for(self, inner: object) -> bool:
        return isinstance(self._lake, _Opened) and self._lake.value is inner

    def call(self, work: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the async function in the loop; returns or raises what it does."""
        return self._entered().call(functools.partial(work, *args, **kwargs))

    def iterate(
        self, work: Callable[P, AsyncIterator[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Generator[R, None, None]:
        """Yields the items of an async iterator, each fetched when it is asked for.

        Ending the iteration, early too, closes the async iterator before it returns.
        """
        items = work(*args, **kwargs)
        return self._items(items)

    def _items(self, items: AsyncIterator[R]) -> Generator[R, None, None]:
        async def finish() -> None:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

        strand = self._entered().strand(finish)
        try:
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    yield strand.call(items.__anext__)
        finally:
            strand.end()

    @contextlib.contextmanager
    def hold(
        self, work: Callable[P, AbstractAsyncContextManager[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Generator[R, None, None]:
        """Holds an async context manager open around a block of blocking code."""
        entered = contextlib.AsyncExitStack()
        strand = self._entered().strand(entered.aclose)
        with contextlib.ExitStack() as block:
            block.push(lambda *why: strand.end(functools.partial(entered.__aexit__, *why)))
            yield strand.call(functools.partial(entered.enter_async_context, work(*args, **kwargs)))

    def _entered(self) -> _LoopThread:
        loop = self._loop
        if loop is not None:
            loop.check_process()
        with self._starting:
            if self._closed:
                raise _closed_error()
            if self._loop is None:
                self._loop = _LoopThread(self._lake)
                weakref.finalize(self, _LoopThread.abandon, self._loop)
            return self._loop


class _Opened(AbstractAsyncContextManager[E]):
    """An async context manager that an async function opens.

    Args:
        work: opens it.
    """

    value: E

    def __init__(self, work: Callable[[], Awaitable[E]]) -> None:
        self._work = work

    async def __aenter__(self) -> E:
        self.value = await self._work()
        await self.value.__aenter__()
        return self.value

    async def __aexit__(self, *why: Any) -> None:
        await self.value.__aexit__(*why)


class _LoopThread:
    """A thread with an event loop, in which a lake is entered."""

    def __init__(self, lake: AbstractAsyncContextManager[object]) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closing = False
        self._calls: set[_Job[Any]] = set()
        self._strands: set[_Strand] = set()
        # Not anyio's blocking portal: a forked child that drops one waits for a thread it does not have.
        started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name=_THREAD, daemon=True)
        self._stop = asyncio.Event()
        self._thread.start()
        self._loop = started.result()
        # Whatever fails from here on, the thread is stopped and joined.
        with contextlib.ExitStack() as stack:
            stack.callback(self._thread.join)
            stack.callback(self.soon, self._stop.set)
            entered = contextlib.AsyncExitStack()
            strand = _Strand(self, entered.aclose)
            stack.callback(strand.end)
            strand.call(functools.partial(entered.enter_async_context, lake))
            self._stack = stack.pop_all()

    def _run(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        async def main() -> None:
            started.set_result(asyncio.get_running_loop())
            await self._stop.wait()

        anyio.run(main)

    @property
    def is_here(self) -> bool:
        """Whether the thread runs in this process, not in a parent of it."""
        return os.getpid() == self._pid

    def check_process(self) -> None:
        """Raises in a process where the thread does not run."""
        if not self.is_here:
            raise InvalidInputError(
                f"this lake was opened in process {self._pid} and is used in its child {os.getpid()}: "
                "connect in the child, or fork before the first use",
                kind="wrong-process",
            )

    @property
    def is_current(self) -> bool:
        """Whether the caller is the loop's own thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def call(self, work: Callable[[], Awaitable[R]]) -> R:
        """Runs work in a task of its own."""
        job = _Job(work)
        with self._lock:
            if self._closing:
                raise _closed_error()
            self._calls.add(job)
        try:
            return self.outcome(job, self._start)
        finally:
            self._calls.discard(job)
            del job

    def _start(self, job: _Job[Any]) -> None:
        self._loop.create_task(job.run())  # the job refers to its task

    def strand(self, finish: Callable[[], Awaitable[object]]) -> _Strand:
        """Returns a task that runs several jobs, the last of them ``finish`` unless it is given another."""
        with self._lock:
            if self._closing:
                raise _closed_error()
            strand = _Strand(self, finish)
            self._strands.add(strand)
        return strand

    def forget(self, strand: _Strand) -> None:
        """Removes a strand that has ended."""
        self._strands.discard(strand)

    def soon(self, work: Callable[..., None], *args: Any) -> None:
        """Calls a function in the loop, with the caller's context variables; first come, first served."""
        try:
            self._loop.call_soon_threadsafe(work, *args)
        except RuntimeError as error:
            raise _closed_error() from error

    def outcome(self, job: _Job[R], start: Callable[[_Job[R]], None]) -> R:
        """Has ``start`` begin a job in the loop, and returns its result; an interrupt cancels it."""
        self.check_process()
        if self.is_current:
            raise InvalidInputError(
                "lakehouse.sync was called from the event loop that works for it, which would wait for "
                "itself: use lakehouse.connect in async code"
            )
        try:
            self.soon(start, job)
            return job.outcome.result()
        except BaseException:
            if not job.outcome.done():
                # Its task uses what the caller may close next, so it has to end first.
                self.soon(job.cancel)
                concurrent.futures.wait([job.outcome])
            raise
        finally:
            del job  # the error's traceback refers to this frame, the job to the error

    def close(self, *, wait: bool = True) -> None:
        """Ends everything; with ``wait`` calls under way may end by themselves."""
        if not self.is_here:
            return
        with self._lock:
            self._closing = True
            calls, strands = list(self._calls), list(self._strands)
        with contextlib.ExitStack() as steps:  # from the last to the first, whatever one of them raises
            steps.callback(self._stack.close)
            steps.callback(concurrent.futures.wait, [job.outcome for job in calls])
            for job in () if wait else calls:
                steps.callback(self.soon, job.cancel)
            for strand in strands:
                steps.callback(strand.end)

    def abandon(self) -> None:
        """Closes a bridge that has no references, or that the end of the interpreter finds open."""
        if self.is_current:  # the garbage collector runs wherever it likes
            threading.Thread(target=self.close, kwargs={"wait": False}, name=_THREAD).start()
        else:
            self.close(wait=False)


class _Strand:
    """A task of the loop that runs the jobs given to it, one after the other."""

    def __init__(self, loop: _LoopThread, finish: Callable[[], Awaitable[object]]) -> None:
        self._loop = loop
        self._finish = finish
        self._jobs: asyncio.Queue[_Job[Any]] = asyncio.Queue()
        self._last: _Job[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    async def _serve(self) -> None:
        is_last = False
        while not is_last:
            job = await self._jobs.get()
            await job.run()
            is_last = job is self._last
            del job  # its outcome belongs to the caller alone
        self._ended = True
        self._loop.forget(self)

    def call(self, work: Callable[[], Awaitable[R]]) -> R:
        """Runs work as the next job."""
        if self._ended:
            raise _closed_error()
        return self._loop.outcome(_Job(work), self._put)

    def end(self, work: Callable[[], Awaitable[R]] | None = None) -> R | None:
        """Runs work as the last job and returns its result; None when there is a last job already."""
        if self._ended or not self._loop.is_here:
            return None
        job: _Job[Any] = _Job(work or self._finish, is_due=True)
        if self._loop.is_current:
            self._put_last(job)
            return None
        result: R | None = self._loop.outcome(job, self._put_last)
        return result

    def _put_last(self, job: _Job[Any]) -> None:
        if self._last is None:
            self._put(job)
            self._last = job
        else:
            self._last.outcome.add_done_callback(lambda _: job.outcome.set_result(None))

    def _put(self, job: _Job[Any]) -> None:
        """Puts a job behind those that wait; runs in the loop, so that none gets behind the last."""
        if self._last is not None:
            job.refuse()
            return
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._serve())
        self._jobs.put_nowait(job)


class _Job(Generic[R]):
    """Work for the loop, and its outcome.

    Args:
        work: function that is called in the loop.
        is_due: whether it is begun even if nobody waits for it any more.
    """

    def __init__(self, work: Callable[[], Awaitable[R]], *, is_due: bool = False) -> None:
        self._work = work
        self._is_due = is_due
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False
        self.outcome: concurrent.futures.Future[R] = concurrent.futures.Future()
        """Result or error, set only when the work has ended."""

    async def run(self) -> None:
        """Does the work and sets the outcome; runs in the loop."""
        if self.outcome.done():
            return
        # No cancel scope: the work may enter one and leave it to another job of the strand to exit.
        self._task = asyncio.current_task()
        try:
            self.outcome.set_result(await self._work())
        except BaseException as error:  # noqa: BLE001 - handed to the waiting caller, not swallowed
            self.outcome.set_exception(
                _closed_error() if isinstance(error, asyncio.CancelledError) else error
            )
        finally:
            if self._is_cancelled and self._task is not None:
                self._task.uncancel()
            del self  # the error's traceback refers to this frame, the outcome to the error

    def cancel(self) -> None:
        """Ends the work soon, or prevents its beginning; runs in the loop."""
        if self._task is None and not self._is_due:
            self.refuse()
        elif self._task is not None and not self.outcome.done():
            self._is_cancelled = True
            self._task.cancel()

    def refuse(self) -> None:
        """Fails the job without beginning its work; runs in the loop."""
        if not self.outcome.done():
            self.outcome.set_exception(_closed_error())


def _closed_error() -> InvalidInputError:
    return InvalidInputError(
        "this lake is closed: lakehouse.sync.connect opens another; iterations end with their lake"
    )
