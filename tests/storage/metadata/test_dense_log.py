"""A dense log: numbers that one writer gets, and listings that are not believed about the last of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from lakehouse.errors import ConflictError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.open import stacked
from lakehouse.io.protocols import ListPage
from lakehouse.storage.metadata.dense_log import DenseLog
from lakehouse.testing import RecordingStore, memory_store

R = TypeVar("R")
TOKEN, OTHER = "a" * 32, "b" * 32


def log_on(store: ObjectStore) -> DenseLog:
    """Returns the log as a process sees it that knows nothing of it yet."""
    return DenseLog(stacked(store), "t/log-", ".x", timed=False)


async def filled(*numbers: int) -> ObjectStore:
    """Returns a store with these objects of the log, each as many bytes long as its number."""
    store = memory_store()
    for number in numbers:
        await log_on(store).append(number, b"x" * number, token=TOKEN)
    return store


class Phantom(StoreDecorator):
    """Listings end with an object that no read finds."""

    def __init__(self, inner: ObjectStore, key: str) -> None:
        super().__init__(inner)
        self.key = key

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        found = await request()
        if isinstance(found, ListPage) and found.objects:
            shown = dataclasses.replace(found.objects[-1], key=self.key)
            return dataclasses.replace(found, objects=(*found.objects, shown))  # type: ignore[return-value]
        return found


def test_keys_are_numbers() -> None:
    """The number of a key is the one that it was made of, and a foreign key has none."""
    log = log_on(memory_store())
    assert log.key(7) == "t/log-00000000000000000007.x"
    assert log.number(log.key(7)) == 7
    assert log.number("t/log-00000000000000000007.y") is None


async def test_what_is_appended_is_read() -> None:
    """The object of a number is the bytes that were appended under it."""
    log = log_on(memory_store())
    await log.append(1, b"first", token=TOKEN)
    assert (await log.read(1)).data == b"first"


async def test_a_number_is_given_once() -> None:
    """Whoever appends a number that another has is refused with what stands there."""
    store = memory_store()
    await log_on(store).append(1, b"theirs", token=OTHER)
    log = log_on(store)
    with pytest.raises(ConflictError) as caught:
        await log.append(1, b"mine", token=TOKEN)
    assert caught.value.context["winner"].data == b"theirs"
    assert (await log.read(1)).data == b"theirs"


async def test_an_object_that_is_not_there() -> None:
    """A read of a number without an object is an error, a search for it is not."""
    log = log_on(memory_store())
    with pytest.raises(NotFoundError):
        await log.read(1)
    assert await log.find(1) is None


async def test_numbers_are_listed_with_their_sizes() -> None:
    """Numbers above a given one come in order with their bytes, and foreign objects are passed over."""
    store = await filled(1, 2, 3, 10)
    for foreign in ("t/log-4.x", "t/log-00000000000000000004.tmp", "t/other"):
        await store.put(foreign, b"")
    log = log_on(store)
    assert [entry async for entry in log.sizes()] == [(1, 1), (2, 2), (3, 3), (10, 10)]
    assert [entry async for entry in log.sizes(after=2)] == [(3, 3), (10, 10)]


async def test_the_newest_is_the_highest_above_a_number() -> None:
    """The newest number is the highest there is; above the highest there is none."""
    log = log_on(await filled(1, 2, 3))
    assert await log.newest() == 3
    assert await log.newest(after=3) is None


async def test_a_listed_object_that_no_read_finds_is_none() -> None:
    """The last object of a listing counts only if it can be read; the two last are told to who reads them."""
    store = await filled(1, 2)
    log = log_on(Phantom(store, log_on(store).key(3)))
    assert await log.listed() == [(1, 1), (2, 2)]
    assert await log.newest() == 2
    assert await log.highest() == [3, 2]


async def test_the_last_of_a_listing_is_asked_for_once() -> None:
    """A listing costs one read more, unless this process has read or created its last object."""
    recording = RecordingStore(await filled(1, 2, 3))
    log = log_on(recording)
    for kinds in ({"list": 1, "get": 1}, {"list": 1}):
        recording.clear()
        assert await log.listed() == [(1, 1), (2, 2), (3, 3)]
        assert recording.kinds() == kinds
    await log.append(4, b"1234", token=TOKEN)
    recording.clear()
    assert await log.newest() == 4
    assert recording.kinds() == {"list": 1}


@pytest.mark.parametrize(("after", "found"), [(0, [3, 2]), (2, [3]), (3, [])])
async def test_the_highest_two_come_newest_first(after: int, found: list[int]) -> None:
    """The last two numbers that a listing shows cost that listing alone."""
    recording = RecordingStore(await filled(1, 2, 3))
    assert await log_on(recording).highest(after=after) == found
    assert recording.kinds() == {"list": 1}
