"""Deleting any number of keys in batches within bounds."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence

import pytest

from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError, UnavailableError
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.retrying import RetryingStore
from lakehouse.testing.faults import Fault, FaultKind, FaultyStore
from lakehouse.testing.stores import RecordingStore, memory_store
from tests.kit.odd_stores import quick_policy

BOUNDS = IoSettings(delete_batch=10, delete_concurrency=3)

pytestmark = pytest.mark.usefixtures("nothing_left")


class BatchStore(StoreDecorator):
    """Notes the batches, and how many are under way at once."""

    def __init__(self) -> None:
        super().__init__(memory_store(BOUNDS))
        self.batches: list[list[str]] = []
        self.under_way = self.most = 0

    async def delete_batch(self, keys: Sequence[str]) -> None:
        self.batches.append(list(keys))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(5):
            await asyncio.sleep(0)
        await self.inner.delete_batch(keys)
        self.under_way -= 1


def _keys(count: int) -> list[str]:
    return [f"k{number:04}" for number in range(count)]


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (10, [10]), (11, [1, 10]), (35, [5, 10, 10, 10])]
)
async def test_batches_are_full(count: int, sizes: list[int]) -> None:
    """Keys go out in batches of the size set, and the last holds what is left."""
    store = BatchStore()
    assert await store.delete_many(_keys(count)) == count
    assert sorted(map(len, store.batches)) == sizes
    assert sorted(itertools.chain.from_iterable(store.batches)) == _keys(count)


async def test_batches_run_beside_each_other_within_bounds() -> None:
    """As many batches as set are under way at once, and no more."""
    store = BatchStore()
    await store.delete_many(_keys(100))
    assert store.most == 3


async def test_only_what_is_named_is_deleted() -> None:
    """Other objects stay, and missing ones count as deleted."""
    store = BatchStore()
    for key in [*_keys(15), "stays"]:
        await store.put(key, b"x")
    assert await store.delete_many(_keys(20)) == 20
    assert [meta.key async for meta in store.list()] == ["stays"]


async def test_keys_are_taken_lazily() -> None:
    """Keys may come from an iterator that makes them as they are needed."""
    store, ahead = BatchStore(), []

    def keys() -> Iterator[str]:
        for number, key in enumerate(_keys(500)):
            ahead.append(number - sum(map(len, store.batches)))
            yield key

    assert await store.delete_many(keys()) == 500
    # Up to twice the batches under way may be taken before they are sent.
    assert max(ahead) <= 10 * 2 * 3


async def test_an_error_ends_it() -> None:
    """When a batch fails the error comes out, and batches that have not begun do not."""
    store = FaultyStore(memory_store(BOUNDS), [Fault(kind=FaultKind.THROTTLE, at=2)])
    recording = RecordingStore(store)
    with pytest.raises(UnavailableError):
        await recording.delete_many(_keys(1_000))
    assert len(recording.calls) < 10


async def test_each_batch_is_tried_again_by_itself() -> None:
    """Above a store that tries again, one failed batch costs one more request."""
    recording = RecordingStore(FaultyStore(memory_store(BOUNDS), [Fault(kind=FaultKind.FAIL_AFTER, at=1)]))
    assert await RetryingStore(recording, quick_policy()).delete_many(_keys(40)) == 40
    assert len(recording.calls) == 5


async def test_a_single_key_is_not_taken_apart() -> None:
    """A text given for the list of keys is refused: its letters may be keys as well."""
    store = BatchStore()
    await store.put("a", b"x")
    with pytest.raises(InvalidInputError, match="many keys"):
        await store.delete_many("data")
    assert await store.exists("a")
