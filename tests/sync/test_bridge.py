"""The bridge between code that blocks and an async lake: calls, iterations, contexts, and their ends."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.sync.bridge import Bridge

THREAD = "lakehouse-sync"


class Pond:
    """A lake that says what happened to it."""

    def __init__(self) -> None:
        self.answered_by_stats: list[str] = []
        self.fails = 0

    async def __aenter__(self) -> Pond:
        if self.fails:
            self.fails -= 1
            raise NotFoundError("no water")
        self.answered_by_stats.append("entered")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.answered_by_stats.append("left")

    async def count(self, number: int) -> AsyncIterator[int]:
        """Numbers, with a cancel scope open in between."""
        try:
            with anyio.CancelScope():
                for one in range(number):
                    yield one
        finally:
            await anyio.lowlevel.checkpoint()
            self.answered_by_stats.append("counted")

    @contextlib.asynccontextmanager
    async def keep(self, what: str) -> AsyncIterator[str]:
        """A context with a cancel scope open in it; it minds no LookupError."""
        try:
            with anyio.CancelScope():
                yield what
        except LookupError:
            self.answered_by_stats.append("minded")
        finally:
            self.answered_by_stats.append("kept")

    async def echo(self, what: Any) -> Any:
        """The argument."""
        await anyio.lowlevel.checkpoint()
        return what


@pytest.fixture
def pond() -> Pond:
    """What the bridge leads to."""
    return Pond()


@pytest.fixture
def bridge(pond: Pond) -> Iterator[Bridge]:
    """A bridge that is closed in the end, and has then left no thread behind."""
    before = loops()
    one = Bridge(pond)
    yield one
    one.close()
    assert loops() == before


def loops() -> int:
    """Threads of bridges that run."""
    return sum(thread.name == THREAD for thread in threading.enumerate())


def until(holds: Callable[[], bool]) -> None:
    """Waits for what happens in another thread."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_nothing_starts_before_the_first_call(pond: Pond) -> None:
    """A bridge that is not used has no thread and does not touch its lake."""
    before = loops()
    one = Bridge(pond)
    assert loops() == before
    assert one.call(pond.echo, 1) == 1
    assert loops() == before + 1
    one.close()
    assert pond.answered_by_stats == ["entered", "left"]
    assert loops() == before


def test_errors_come_out_as_they_are(bridge: Bridge, pond: Pond) -> None:
    """What the work raises is raised, in no group and no wrapping."""

    async def fail() -> None:
        raise NotFoundError("nothing here", key="k")

    with pytest.raises(NotFoundError) as caught:
        bridge.call(fail)
    assert caught.value.context == {"key": "k"}
    assert caught.value.__cause__ is None


def test_an_error_keeps_nothing_alive(bridge: Bridge) -> None:
    """What a failed call held is free as soon as the error is, without the garbage collector."""

    class Rows:
        pass

    held: list[weakref.ref[Rows]] = []

    async def fail() -> None:
        rows = Rows()
        held.append(weakref.ref(rows))
        raise NotFoundError("nothing here")

    gc.disable()
    try:
        with contextlib.suppress(NotFoundError):
            bridge.call(fail)
        until(lambda: held[0]() is None)
    finally:
        gc.enable()


def test_many_threads_may_call(bridge: Bridge, pond: Pond) -> None:
    """Calls of several threads run beside each other, in one lake."""
    together = threading.Barrier(8)

    async def meet() -> int:
        return await anyio.to_thread.run_sync(together.wait, 20)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: bridge.call(meet), range(8))) == list(range(8))
    assert pond.answered_by_stats == ["entered"]


def test_the_callers_context_is_the_works(bridge: Bridge) -> None:
    """Context variables of the caller, such as those that count costs, are seen by the work."""
    variable = contextvars.ContextVar("variable", default="unset")

    async def look() -> str:
        return variable.get()

    async def looks() -> AsyncIterator[str]:
        token = variable.set("inside")
        yield variable.get()
        variable.reset(token)
        yield variable.get()

    variable.set("set")
    assert bridge.call(look) == "set"
    assert list(bridge.iterate(looks)) == ["inside", "set"]


def test_an_iteration_fetches_what_is_asked_for(bridge: Bridge, pond: Pond) -> None:
    """Nothing runs before the first item is wanted, and the end closes the source."""
    items = bridge.iterate(pond.count, 3)
    assert pond.answered_by_stats == []
    assert list(items) == [0, 1, 2]
    assert pond.answered_by_stats == ["entered", "counted"]


def test_an_iteration_left_early_is_closed(bridge: Bridge, pond: Pond) -> None:
    """Whoever leaves an iteration has it closed before going on."""
    for _ in (items := bridge.iterate(pond.count, 3)):
        break
    assert pond.answered_by_stats == ["entered"]
    items.close()
    assert pond.answered_by_stats == ["entered", "counted"]


def test_an_iteration_is_closed_by_an_error_in_the_loop(bridge: Bridge, pond: Pond) -> None:
    """An error of the consumer ends the iteration too."""

    def divide() -> None:
        for item in bridge.iterate(pond.count, 3):
            1 / item

    with pytest.raises(ZeroDivisionError):
        divide()
    gc.collect()
    until(lambda: pond.answered_by_stats == ["entered", "counted"])


def test_an_iteration_raises_what_its_source_raises(bridge: Bridge) -> None:
    """Items before an error are delivered, then the error, once."""

    async def source() -> AsyncIterator[int]:
        yield 1
        raise NotFoundError("no second one")

    items = bridge.iterate(source)
    assert next(items) == 1
    with pytest.raises(NotFoundError):
        next(items)
    assert list(items) == []


def test_an_iteration_may_move_between_threads(bridge: Bridge, pond: Pond) -> None:
    """Each item may be asked for by another thread."""
    items = bridge.iterate(pond.count, 8)
    found: list[int] = []
    for _ in range(8):
        thread = threading.Thread(target=lambda: found.append(next(items)))
        thread.start()
        thread.join()
    assert found == list(range(8))
    assert list(items) == []


def test_a_context_surrounds_a_block(bridge: Bridge, pond: Pond) -> None:
    """The context is entered before the block and left behind it."""
    with bridge.hold(pond.keep, "value") as value:
        assert value == "value"
        assert pond.answered_by_stats == ["entered"]
    assert pond.answered_by_stats == ["entered", "kept"]


def test_a_context_hears_of_the_blocks_error(bridge: Bridge, pond: Pond) -> None:
    """An error in the block reaches the context, which lets it pass or not."""
    with pytest.raises(ZeroDivisionError), bridge.hold(pond.keep, 1):
        raise ZeroDivisionError
    with bridge.hold(pond.keep, 1):
        raise LookupError
    assert pond.answered_by_stats == ["entered", "kept", "minded", "kept"]


def test_a_context_that_fails_on_entry_is_not_left(bridge: Bridge) -> None:
    """What could not be entered is not left, and its error is raised."""

    @contextlib.asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise NotFoundError("no entry")
        yield

    with pytest.raises(NotFoundError), bridge.hold(broken):
        pytest.fail("the block ran")


def test_closing_ends_what_is_open(bridge: Bridge, pond: Pond) -> None:
    """Open iterations and contexts end before the lake is left; later use of them is harmless."""
    items = bridge.iterate(pond.count, 3)
    next(items)
    with bridge.hold(pond.keep, 1):
        bridge.close()
        assert sorted(pond.answered_by_stats[1:3]) == ["counted", "kept"]
        assert pond.answered_by_stats[3:] == ["left"]
    with pytest.raises(InvalidInputError, match="closed"):
        next(items)
    bridge.close()
    assert len(pond.answered_by_stats) == 4


def test_use_after_closing_is_an_error(bridge: Bridge, pond: Pond) -> None:
    """A closed bridge says that it is closed, for every kind of use, also when it was never open."""
    bridge.close()
    with pytest.raises(InvalidInputError, match=r"closed: lakehouse\.sync\.connect"):
        bridge.call(pond.echo, 1)
    with pytest.raises(InvalidInputError, match="closed"):
        next(bridge.iterate(pond.count, 1))
    with pytest.raises(InvalidInputError, match="closed"), bridge.hold(pond.keep, 1):
        pytest.fail("the block ran")
    assert pond.answered_by_stats == []


def test_closing_waits_for_calls(bridge: Bridge, pond: Pond) -> None:
    """A call of another thread ends by itself before the lake is left."""
    begun, may_end = threading.Event(), threading.Event()

    async def slow() -> str:
        begun.set()
        await anyio.to_thread.run_sync(may_end.wait, 20)
        pond.answered_by_stats.append("done")
        return "done"

    with ThreadPoolExecutor(2) as pool:
        slowly = pool.submit(bridge.call, slow)
        assert begun.wait(20)
        closing = pool.submit(bridge.close)
        with pytest.raises(TimeoutError):
            closing.result(0.1)
        may_end.set()
        closing.result(20)
        assert slowly.result(20) == "done"
    assert pond.answered_by_stats == ["entered", "done", "left"]


def test_an_error_on_closing_ends_everything_all_the_same(pond: Pond) -> None:
    """What an open context raises on its way out is raised by close, and nothing is left running."""
    before = loops()
    one = Bridge(pond)

    @contextlib.asynccontextmanager
    async def fails() -> AsyncIterator[None]:
        yield
        raise NotFoundError("too late")

    context = one.hold(fails)
    context.__enter__()
    with pytest.raises(NotFoundError):
        one.close()
    assert pond.answered_by_stats == ["entered", "left"]
    assert loops() == before
    context.__exit__(None, None, None)


def test_a_lake_that_cannot_be_entered(bridge: Bridge, pond: Pond) -> None:
    """The error is raised, nothing is left running, and the next call tries again."""
    before = loops()
    pond.fails = 1
    with pytest.raises(NotFoundError, match="no water"):
        bridge.call(pond.echo, 1)
    assert loops() == before
    assert bridge.call(pond.echo, 1) == 1


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C raises, also where the run was started in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_cancels_the_call(bridge: Bridge, pond: Pond) -> None:
    """Ctrl-C ends the wait when the work has ended, and the lake can be used on."""

    async def forever() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await anyio.sleep_forever()
        finally:
            await anyio.sleep(0.05)
            pond.answered_by_stats.append("ended")

    with pytest.raises(KeyboardInterrupt):
        bridge.call(forever)
    assert pond.answered_by_stats == ["entered", "ended"]
    assert bridge.call(pond.echo, 1) == 1


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_ends_the_iteration(bridge: Bridge, pond: Pond) -> None:
    """Ctrl-C during the wait for an item closes the source."""

    async def stuck() -> AsyncIterator[int]:
        try:
            yield 1
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await anyio.sleep_forever()
            yield 2
        finally:
            pond.answered_by_stats.append("ended")

    items = bridge.iterate(stuck)
    assert next(items) == 1
    with pytest.raises(KeyboardInterrupt):
        next(items)
    assert pond.answered_by_stats == ["entered", "ended"]
    assert bridge.call(pond.echo, 1) == 1


def test_the_loop_does_not_wait_for_itself(bridge: Bridge, pond: Pond) -> None:
    """A blocking call from the bridge's own event loop is refused instead of hanging."""

    async def within() -> None:
        bridge.call(pond.echo, 1)

    with pytest.raises(InvalidInputError, match="event loop that works for it"):
        bridge.call(within)


def test_a_call_from_a_thread_of_the_work(bridge: Bridge, pond: Pond) -> None:
    """What the work does in a thread may call the bridge again, as a generator of rows does."""

    async def nested() -> Any:
        return await anyio.to_thread.run_sync(bridge.call, pond.echo, 5)

    assert bridge.call(nested) == 5


async def test_a_call_from_another_event_loop(bridge: Bridge, pond: Pond) -> None:
    """Code that runs in some event loop, as in a notebook, may block it."""
    assert bridge.call(pond.echo, 1) == 1


def test_what_nobody_refers_to_is_closed(pond: Pond) -> None:
    """A bridge that is forgotten leaves its lake and ends its thread."""
    before = loops()
    one = Bridge(pond)
    items = one.iterate(pond.count, 3)
    next(items)
    del one
    assert next(items) == 1
    del items
    until(lambda: loops() == before)
    assert pond.answered_by_stats == ["entered", "counted", "left"]


def test_what_is_forgotten_by_its_own_loop_is_closed(pond: Pond) -> None:
    """The last reference may go in the bridge's own thread, which cannot wait for its end."""
    before = loops()
    holder = [Bridge(pond)]

    async def forget_soon() -> None:
        asyncio.get_running_loop().call_later(0.1, holder.clear)

    holder[0].call(forget_soon)
    until(lambda: pond.answered_by_stats == ["entered", "left"] and loops() == before)


PROGRAM = """
import os, sys
from lakehouse.errors import InvalidInputError
from lakehouse.sync.bridge import Bridge

class Lake:
    async def __aenter__(self):
        pass
    async def __aexit__(self, *why):
        print("left by", os.getpid() == parent, flush=True)

async def echo(what):
    return what

async def count():
    for one in range(3):
        yield one

parent = os.getpid()
bridge = Bridge(Lake())
"""


def said(program: str) -> list[str]:
    """What a program prints."""
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", PROGRAM + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_end_of_the_interpreter_closes() -> None:
    """A program that ends without closing leaves its lake, with an iteration under way too."""
    assert said("bridge.call(echo, 1); items = bridge.iterate(count); next(items)") == ["left by True"]


def test_a_forked_child_cannot_use_what_its_parent_opened() -> None:
    """In a child every use is a clear error, and closing leaves the parent's lake alone."""
    program = """
bridge.call(echo, 1)
items = bridge.iterate(count)
next(items)
if os.fork() == 0:
    for use in (lambda: bridge.call(echo, 2), lambda: next(bridge.iterate(count)), lambda: next(items)):
        try:
            use()
        except InvalidInputError as error:
            print(error.kind, flush=True)
    bridge.close()
    sys.exit()
os.wait()
print(bridge.call(echo, 3), next(items), flush=True)
"""
    assert said(program) == ["wrong-process"] * 3 + ["3 1", "left by True"]


def test_a_forked_child_may_open_what_its_parent_did_not() -> None:
    """Before the first call a bridge is configuration, and works in whatever process uses it."""
    program = """
if os.fork() == 0:
    print(bridge.call(echo, 2), flush=True)
    sys.exit()
os.wait()
print(bridge.call(echo, 3), flush=True)
"""
    assert said(program) == ["2", "left by False", "3", "left by True"]
