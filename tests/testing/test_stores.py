"""The stores to test with: in memory, recording, and slow."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
import time

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakehouse.config import IoSettings
from lakehouse.errors import NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.io.cost import REQUEST_KINDS
from lakehouse.testing.stores import Call, LatencyStore, RecordingStore, memory_store


async def test_memory_stores_are_strangers() -> None:
    """What one memory store holds, another does not."""
    one, other = memory_store(), memory_store()
    await one.put("a", b"x")
    with pytest.raises(NotFoundError):
        await other.get("a")


async def test_a_memory_store_leaves_nothing_behind() -> None:
    """The objects of a memory store go with it."""
    store = memory_store()
    root = store.url.removeprefix("memory:/")
    await store.put("a", b"x")
    assert [path for path in MemoryFileSystem.store if path.startswith(root)]
    del store
    gc.collect()
    assert not [path for path in MemoryFileSystem.store if path.startswith(root)]


async def test_a_memory_store_takes_settings() -> None:
    """Bounds are those given."""
    assert memory_store(IoSettings(list_page_size=3)).settings.list_page_size == 3


async def test_recording_writes_down_what_was_asked() -> None:
    """Each request is a call with its verb, its key and the bytes sent."""
    store = RecordingStore(memory_store())
    await store.put("a", b"four")
    await store.get_range("a", 1, 3)
    assert store.calls == [Call("put", "a", 4), Call("get_range", "a")]
    assert repr(store.calls) == "[put a (4 B), get_range a]"


async def test_recording_counts_by_kind() -> None:
    """Kinds are those that stores bill, and clear() forgets them."""
    store = RecordingStore(memory_store())
    await store.put("a", b"x")
    await store.get_tail("a", 1)
    await store.get_tail("a", 1, size=1)
    assert store.kinds() == {"put": 1, "get": 2}
    assert repr(store) == "RecordingStore({'put': 1, 'get': 2})"
    store.clear()
    assert store.kinds() == {}


async def test_recording_notes_failed_requests_too() -> None:
    """A request that fails was a request."""
    store = RecordingStore(memory_store())
    with pytest.raises(NotFoundError):
        await store.get("nothing")
    assert store.kinds() == {"get": 1}


async def test_latency_is_added_to_every_request() -> None:
    """A request takes at least the wait."""
    store = LatencyStore(memory_store(), 0.02)
    started = time.perf_counter()
    await store.put("a", b"x")
    assert time.perf_counter() - started >= 0.019


async def test_latency_by_kind_leaves_other_kinds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping gives each kind of request its own wait, others none."""
    waits = _waits(monkeypatch)
    store = LatencyStore(memory_store(), {"get": 0.5, "list": 0.25})
    await store.put("a", b"x")
    await store.get_tail("a", 1)
    await store.list_page()
    assert waits == [0.5, 0.25]


async def test_jitter_is_bounded_and_repeats_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are drawn within the share given, differ, and are the same for the same seed."""
    waits = _waits(monkeypatch)
    drawn = []
    for seed in (7, 7, 8):
        store = LatencyStore(memory_store(), 1.0, jitter=0.5, seed=seed)
        for _ in range(20):
            await store.put("a", b"x")
        drawn.append(waits.copy())
        waits.clear()
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) > 10
    assert all(0.5 <= wait <= 1.5 for wait in drawn[0])


async def test_latency_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickled latency store waits as long as the original, draw by draw."""
    waits = _waits(monkeypatch)
    store = LatencyStore(memory_store(), {"put": 1.0}, jitter=0.5, seed=3)
    copy: ObjectStore = pickle.loads(pickle.dumps(store))
    await store.put("a", b"x")
    await copy.put("a", b"x")
    assert waits[0] == waits[1] > 0


def test_every_verb_has_a_kind() -> None:
    """Whatever a store can be asked for is billed as something."""
    verbs = {name for name in ObjectStore.__abstractmethods__ if name != "aclose"}
    assert verbs == set(REQUEST_KINDS)
    assert all(inspect.iscoroutinefunction(getattr(ObjectStore, verb)) for verb in verbs)


def _waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Has sleeps return at once and be noted in the list returned."""
    waits: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await real(0)

    monkeypatch.setattr("lakehouse.testing.stores.asyncio.sleep", sleep)
    return waits
