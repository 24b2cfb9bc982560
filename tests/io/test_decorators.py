"""Stores around stores: each passes everything on, and does its one job."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from lakehouse.config import IoSettings
from lakehouse.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from lakehouse.io import ObjectStore, measure, open_store
from lakehouse.io.backends.memory import MemoryBackend
from lakehouse.io.decorators import InstrumentedStore, LimitedStore, StoreDecorator, find_layer, innermost
from lakehouse.io.retrying import RetryingStore
from lakehouse.testing.stores import LatencyStore, memory_store
from tests.kit.odd_stores import quick_policy

R = TypeVar("R")

pytestmark = pytest.mark.usefixtures("nothing_left")

DECORATORS: dict[str, Callable[[ObjectStore], StoreDecorator]] = {
    "plain": StoreDecorator,
    "instrumented": InstrumentedStore,
    "limited": LimitedStore,
    "retrying": lambda store: RetryingStore(store, quick_policy()),
}
ALL = pytest.mark.parametrize("around", DECORATORS.values(), ids=DECORATORS.keys())

CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "get": (("k",), {"version": "v"}),
    "get_range": (("k", 1, 2), {"version": "v"}),
    "get_suffix": (("k", 5), {"version": "v"}),
    "head": (("k",), {}),
    "list_page": (("p",), {"start_after": "a", "delimiter": "/", "page": "x", "limit": 7}),
    "put": (("k", b"data"), {}),
    "put_if_absent": (("k", b"data"), {"token": "t", "timed": False}),
    "put_if_match": (("k", b"data"), {"version": "v", "token": "t"}),
    "delete": (("k",), {}),
    "delete_batch": ((["k", "l"],), {}),
    "multipart_start": (("k",), {}),
    "multipart_part": (("k", "u", 3, b"data"), {}),
    "multipart_complete": (("k", "u", ["r"]), {"size": 9}),
    "multipart_abort": (("k", "u"), {}),
}


def _spy(seen: list[Any]) -> ObjectStore:
    """A store that writes down what it is asked, and answers with the name of the verb."""

    def verb(name: str) -> Callable[..., Awaitable[str]]:
        async def asked(self: Any, *arguments: Any, **named: Any) -> str:
            seen.append((name, arguments, named))
            return name

        return asked

    body = {name: verb(name) for name in CALLS} | {"aclose": verb("aclose")}
    spy = type("Spy", (MemoryBackend,), body)
    return spy(memory_store().location, None, IoSettings(max_concurrency=7))  # type: ignore[attr-defined, no-any-return]


def test_every_verb_is_tried() -> None:
    """The table of calls below covers all a store can be asked."""
    assert set(CALLS) | {"aclose"} == ObjectStore.__abstractmethods__


@ALL
@pytest.mark.parametrize("verb", CALLS)
async def test_every_verb_is_passed_on_whole(
    around: Callable[[ObjectStore], StoreDecorator], verb: str
) -> None:
    """A decorator passes every argument on as it is, once, and the answer back."""
    seen: list[Any] = []
    arguments, named = CALLS[verb]
    answer = await getattr(around(_spy(seen)), verb)(*arguments, **named)
    signature = inspect.signature(getattr(ObjectStore, verb))
    assert answer == verb
    bound = [signature.bind(None, *a, **n).arguments for a, n in [(arguments, named), seen[0][1:]]]
    assert bound[0] == bound[1]
    assert [name for name, _, _ in seen] == [verb]


@ALL
async def test_closing_goes_through(around: Callable[[ObjectStore], StoreDecorator]) -> None:
    """Closing the outermost closes the backend."""
    seen: list[Any] = []
    async with around(_spy(seen)):
        pass
    assert [name for name, _, _ in seen] == ["aclose"]


@ALL
def test_what_the_backend_is_shows_through(around: Callable[[ObjectStore], StoreDecorator]) -> None:
    """URL, settings and capabilities are the backend's."""
    backend = _spy([])
    store = around(backend)
    assert store.url == backend.url
    assert store.settings is backend.settings
    assert store.capabilities is backend.capabilities
    assert backend.url in repr(store)


@ALL
async def test_decorators_travel(around: Callable[[ObjectStore], StoreDecorator]) -> None:
    """A pickled decorator arrives around a store of the same place and bounds, and works."""
    store = around(memory_store(IoSettings(max_concurrency=3)))
    await store.put("k", b"x")
    copy = pickle.loads(pickle.dumps(store))
    assert type(copy) is type(store)
    assert copy.settings == store.settings
    assert (await copy.get("k")).data == b"x"


def test_layers_are_found() -> None:
    """A layer is found wherever it is in the stack, and the backend below all."""
    backend = memory_store()
    store = RetryingStore(LimitedStore(InstrumentedStore(backend)))
    assert isinstance(find_layer(store, InstrumentedStore), InstrumentedStore)
    assert find_layer(store, LatencyStore) is None
    assert find_layer(store, MemoryBackend) is backend is innermost(store)
    assert innermost(backend) is backend


# --- instrumented --------------------------------------------------------------------


async def test_stats_count_verbs_bytes_and_errors() -> None:
    """Every request counts with its bytes, failed ones too."""
    store = InstrumentedStore(memory_store())
    await store.put("k", b"12345")
    await store.get_range("k", 1, 3)
    with pytest.raises(NotFoundError):
        await store.get("missing")
    gets, puts, ranges = (store.stats.operations[verb] for verb in ("get", "put", "get_range"))
    assert (puts.requests, puts.bytes_written, puts.errors) == (1, 5, 0)
    assert (ranges.requests, ranges.bytes_read) == (1, 2)
    assert (gets.requests, gets.errors, gets.bytes_read) == (1, 1, 0)


async def test_stats_count_time() -> None:
    """The time of a request is that of the store below."""
    store = InstrumentedStore(LatencyStore(memory_store(), 0.02))
    await store.put("k", b"x")
    assert 0.019 <= store.stats.seconds < 5


async def test_a_cancelled_request_counts_as_failed() -> None:
    """A request that was given up was made all the same."""
    store = InstrumentedStore(LatencyStore(memory_store(), 60))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(store.get("k"), 0.01)
    assert (store.stats.requests, store.stats.errors) == (1, 1)


async def test_every_attempt_counts() -> None:
    """Below a store that tries again, each attempt is a request."""

    class Flaky(StoreDecorator):
        left = 2

        async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
            self.left -= 1
            if self.left >= 0:
                raise UnavailableError("away")
            return await request()

    instrumented = InstrumentedStore(Flaky(memory_store()))
    with measure() as cost:
        await RetryingStore(instrumented, quick_policy()).put("k", b"x")
    assert (cost.requests, cost.errors) == (3, 2)


# --- limited -------------------------------------------------------------------------


class Busy(StoreDecorator):
    """Says how many requests are under way; they wait for the gate."""

    def __init__(self, **bounds: float) -> None:
        super().__init__(memory_store(IoSettings(**bounds)))  # type: ignore[arg-type]
        self.under_way = self.most = 0
        self.gate = asyncio.Event()

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Counts, waits, makes the request."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.wait()
            return await request()
        finally:
            self.under_way -= 1


async def _puts(store: ObjectStore, count: int) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(store.put(f"k{number}", b"x")) for number in range(count)]
    await asyncio.sleep(0.01)
    return tasks


async def test_no_more_requests_than_allowed_are_under_way() -> None:
    """The bound is reached and not passed, and every request is made in the end."""
    busy = Busy(max_concurrency=3)
    store = LimitedStore(busy)
    tasks = await _puts(store, 20)
    assert busy.under_way == 3
    busy.gate.set()
    await asyncio.wait(tasks)
    assert busy.most == 3
    assert len([meta async for meta in busy.inner.list()]) == 20


async def test_a_request_that_fails_gives_its_slot_back() -> None:
    """Errors and cancellations free their slots."""
    busy = Busy(max_concurrency=1)
    store = LimitedStore(busy)
    first, second = await _puts(store, 2)
    second.cancel()
    first.cancel()
    await asyncio.wait([first, second])
    busy.gate.set()
    with pytest.raises(NotFoundError):
        await store.get("missing")
    await store.put("k", b"x")


async def test_a_request_that_takes_too_long_is_given_up() -> None:
    """A store that says nothing is unavailable after the limit, and the error names the setting."""
    store = LimitedStore(Busy(request_timeout_s=0.02))
    with pytest.raises(UnavailableError, match=r"request_timeout_s = 0\.02") as caught:
        await store.put("k", b"x")
    assert caught.value.kind == "timeout"
    assert caught.value.context == {"key": "k", "verb": "put"}


async def test_a_time_limit_says_nothing_of_what_was_applied() -> None:
    """A put that was given up counts as one that may still land."""
    busy = Busy(request_timeout_s=0.02)
    with pytest.raises(UnavailableError) as caught:
        await LimitedStore(busy).put_if_absent("k", b"x")
    assert "status" not in caught.value.context


async def test_waiting_for_a_slot_is_no_request_time() -> None:
    """A request that waited long for its slot still has its full time."""
    bounds = IoSettings(max_concurrency=1, request_timeout_s=0.5)
    store = LimitedStore(LatencyStore(memory_store(bounds), 0.06))
    tasks = [asyncio.create_task(store.put(f"k{number}", b"x")) for number in range(10)]
    done, _ = await asyncio.wait(tasks)
    assert all(task.exception() is None for task in done)


async def test_errors_pass_unchanged() -> None:
    """An error of the store below is not dressed up."""
    store = LimitedStore(memory_store())
    await store.put("k", b"x")
    with pytest.raises(ConflictError):
        await store.put_if_absent("k", b"y")


def test_a_reopened_store_has_its_slots_on_the_new_loop() -> None:
    """Closed on one loop and used on the next, the bound holds there too."""
    busy = Busy(max_concurrency=1)
    store = LimitedStore(busy)

    async def use() -> None:
        busy.gate = asyncio.Event()
        tasks = await _puts(store, 5)
        busy.gate.set()
        done, _ = await asyncio.wait(tasks)
        assert all(task.exception() is None for task in done)
        await store.aclose()

    asyncio.run(use())
    asyncio.run(use())
    assert busy.most == 1


def test_another_loop_is_refused_even_when_all_slots_are_taken() -> None:
    """A store whose slots are held on one loop tells another loop so, instead of waiting."""
    busy = Busy(max_concurrency=1)
    store = LimitedStore(busy)
    with asyncio.Runner() as first, asyncio.Runner() as second:

        async def begin() -> asyncio.Task[Any]:
            return (await _puts(store, 1))[0]

        held = first.run(begin())
        with pytest.raises(InvalidInputError) as caught:
            second.run(asyncio.wait_for(store.get("k"), 5))
        assert caught.value.kind == "wrong-loop"
        held.cancel()


def test_a_fork_is_refused_even_when_all_slots_are_taken() -> None:
    """A child process whose parent held all slots gets an error, instead of waiting for ever."""
    script = """
        import asyncio, os, sys
        from lakehouse.config import IoSettings
        from lakehouse.errors import InvalidInputError
        from lakehouse.io.decorators import LimitedStore
        from lakehouse.testing.stores import LatencyStore, memory_store

        store = LimitedStore(LatencyStore(memory_store(IoSettings(max_concurrency=1)), 5))

        async def parent():
            held = asyncio.create_task(store.put("k", b"x"))
            await asyncio.sleep(0.01)
            child = os.fork()
            if not child:
                try:
                    asyncio.run(asyncio.wait_for(store.get("k"), 2))
                except InvalidInputError as error:
                    os._exit(0 if error.kind == "wrong-process" else 3)
                finally:
                    os._exit(4)
            held.cancel()
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        sys.exit(asyncio.run(parent()))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_usual_stack_bounds_and_counts() -> None:
    """open_store puts retrying over limited over instrumented over the backend."""
    store = open_store("memory://stack-of-decorators", settings=IoSettings(max_concurrency=2))
    layers = []
    layer: ObjectStore = store
    while isinstance(layer, StoreDecorator):
        layers.append(type(layer))
        layer = layer.inner
    assert layers == [RetryingStore, LimitedStore, InstrumentedStore]
    assert isinstance(layer, MemoryBackend)
