"""What is composed of the verbs of a store: tails, listings, existence, and what each costs."""

from __future__ import annotations

import math
import random
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config import IoSettings
from lakehouse.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.io import Fetched, ObjectMeta, ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.testing.stores import RecordingStore, memory_store
from tests.kit.odd_stores import NoSuffixStore, ScriptedStore

DATA = random.Random(0).randbytes(1_000)


async def _store(data: bytes = DATA, *, suffix: bool = True) -> RecordingStore:
    backend = memory_store()
    await backend.put("k", data)
    return RecordingStore(backend if suffix else NoSuffixStore(backend))


def _verbs(store: RecordingStore) -> list[str]:
    return [call.verb for call in store.calls]


# --- tails ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "size", "verbs"),
    [
        (True, 1_000, ["get_range"]),
        (True, None, ["get_suffix"]),
        (False, 1_000, ["get_range"]),
        (False, None, ["head", "get_range"]),
    ],
    ids=["size known", "size unknown", "size known, no suffix reads", "size unknown, no suffix reads"],
)
@pytest.mark.parametrize("length", [1, 999, 1_000, 5_000])
async def test_a_tail_costs_one_request(
    suffix: bool, size: int | None, verbs: list[str], length: int
) -> None:
    """A tail is one read; only a store without suffix reads that is not told the size needs a HEAD."""
    store = await _store(suffix=suffix)
    tail = await store.get_tail("k", length, size=size)
    assert tail.data == DATA[-length:]
    assert (tail.end, tail.size) == (1_000, 1_000)
    assert _verbs(store) == verbs


@pytest.mark.parametrize("suffix", [True, False], ids=["suffix reads", "none"])
@pytest.mark.parametrize("size", [0, None])
async def test_the_tail_of_nothing(suffix: bool, size: int | None) -> None:
    """The tail of an empty object is empty, whatever is known of it."""
    store = await _store(b"", suffix=suffix)
    tail = await store.get_tail("k", 10, size=size)
    assert (tail.data, tail.start, tail.size) == (b"", 0, 0)


@pytest.mark.parametrize(("claimed", "data"), [(600, DATA[590:600]), (1_200, b""), (1_005, DATA[995:])])
async def test_a_wrong_size_shows(claimed: int, data: bytes) -> None:
    """A size that is wrong gives other bytes and the real size, in one request."""
    store = await _store()
    tail = await store.get_tail("k", 10, size=claimed)
    assert (tail.data, tail.size) == (data, 1_000)
    assert len(store.calls) == 1


@pytest.mark.parametrize("length", [0, -1])
async def test_a_tail_of_no_length_is_refused(length: int) -> None:
    """A tail has at least a byte; anything else costs no request."""
    store = await _store()
    with pytest.raises(InvalidInputError, match="no byte"):
        await store.get_tail("k", length)
    assert store.calls == []


@pytest.mark.parametrize("suffix", [True, False], ids=["suffix reads", "none"])
@pytest.mark.parametrize("size", [1_000, None])
async def test_a_tail_of_a_version(suffix: bool, size: int | None) -> None:
    """With a version, the tail is of that version or an error."""
    store = await _store(suffix=suffix)
    version = (await store.head("k")).version
    assert (await store.get_tail("k", 5, size=size, version=version)).data == DATA[-5:]
    await store.put("k", bytes(1_000))
    with pytest.raises(ConflictError):
        await store.get_tail("k", 5, size=size, version=version)


class HastyStore(StoreDecorator):
    """Somebody replaces the object after each HEAD."""

    async def head(self, key: str) -> ObjectMeta:
        meta = await self.inner.head(key)
        await self.inner.put(key, bytes(2_000))
        return meta


async def test_a_tail_is_not_cut_out_of_another_object() -> None:
    """When the object is replaced between HEAD and read, the tail is an error, not a wrong part."""
    store = HastyStore((await _store(suffix=False)).inner)
    with pytest.raises(ConflictError) as caught:
        await store.get_tail("k", 5)
    assert caught.value.kind == "object-changed"


@pytest.mark.parametrize("suffix", [True, False], ids=["suffix reads", "none"])
async def test_a_tail_of_what_is_not_there(suffix: bool) -> None:
    """A missing object is a NotFoundError."""
    store = await _store(suffix=suffix)
    with pytest.raises(NotFoundError):
        await store.get_tail("missing", 5)


# --- listings ------------------------------------------------------------------------


async def _filled(count: int, page: int) -> RecordingStore:
    store = RecordingStore(memory_store(IoSettings(list_page_size=page)))
    for number in range(count):
        await store.inner.put(f"p/{number:03}", b"x")
    await store.inner.put("q", b"x")
    return store


@pytest.mark.parametrize(("count", "pages"), [(0, 1), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
async def test_a_listing_costs_a_request_a_page(count: int, pages: int) -> None:
    """All keys come in order, and the last page needs no other to say so."""
    store = await _filled(count, 4)
    keys = [meta.key async for meta in store.list("p/")]
    assert keys == [f"p/{number:03}" for number in range(count)]
    assert _verbs(store) == ["list_page"] * pages


async def test_directories_are_listed_page_by_page() -> None:
    """Each directory comes once and in order, from as many pages as it takes; objects beside them do not."""
    store = RecordingStore(memory_store(IoSettings(list_page_size=2)))
    for name in ("a/1", "b/1", "b/2", "c/d/1", "top"):
        await store.put(f"w/{name}", b"")
    assert [one async for one in store.directories("w/")] == ["w/a/", "w/b/", "w/c/"]
    assert [one async for one in store.directories("w/c/d/")] == []


@given(count=st.integers(0, 12), page=st.integers(1, 5), limit=st.integers(0, 15), behind=st.integers(-1, 12))
@settings(deadline=None)
async def test_any_listing(count: int, page: int, limit: int, behind: int) -> None:
    """With any page size, limit and beginning, the keys are the right ones at the lowest price."""
    store = await _filled(count, page)
    after = f"p/{behind:03}" if behind >= 0 else None
    keys = [meta.key async for meta in store.list("p/", start_after=after, limit=limit)]
    there = [f"p/{number:03}" for number in range(count) if number > behind]
    assert keys == there[:limit]
    assert len(store.calls) == max(bool(limit), math.ceil(len(keys) / page))


async def test_pages_are_fetched_as_they_are_needed() -> None:
    """Leaving a listing early costs the pages that were looked at."""
    store = await _filled(40, 4)
    async with aclosing(store.list("p/")) as listing:
        async for meta in listing:
            if meta.key == "p/005":
                break
    assert len(store.calls) == 2


async def test_a_limit_asks_for_no_more_than_it_needs() -> None:
    """The limit reaches the store, so that a page holds no more."""
    asked: list[int | None] = []

    class Asking(StoreDecorator):
        async def list_page(self, prefix: str = "", **named: object) -> object:  # type: ignore[override]
            asked.append(named["limit"])  # type: ignore[arg-type]
            return await self.inner.list_page(prefix, **named)  # type: ignore[arg-type]

    store = Asking((await _filled(10, 4)).inner)
    assert len([meta async for meta in store.list("p/", limit=6)]) == 6
    assert asked == [6, 2]


async def test_a_page_may_be_empty_and_not_the_last() -> None:
    """A page without objects, as a store gives that filters, does not end the listing."""

    class Sparse(StoreDecorator):
        async def list_page(self, prefix: str = "", **named: object) -> object:  # type: ignore[override]
            page = await self.inner.list_page(prefix, **named)  # type: ignore[arg-type]
            objects = tuple(meta for meta in page.objects if meta.key.endswith("9"))
            return type(page)(objects=objects, next_page=page.next_page)

    store = Sparse((await _filled(30, 4)).inner)
    assert [meta.key async for meta in store.list("p/")] == ["p/009", "p/019", "p/029"]
    assert [meta.key async for meta in store.list("p/", limit=2)] == ["p/009", "p/019"]


# --- existence -----------------------------------------------------------------------


async def test_existence_costs_a_head() -> None:
    """Whether an object is there is one HEAD."""
    store = await _store()
    assert await store.exists("k")
    assert not await store.exists("missing")
    assert store.kinds() == {"head": 2}


@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("no bucket", kind="missing-bucket"),
        PermissionDeniedError("403"),
        UnavailableError("away"),
    ],
    ids=lambda error: error.kind,
)
async def test_not_knowing_is_not_absence(error: Exception) -> None:
    """A missing bucket, a refusal and a store that is away are errors, not an answer."""
    with pytest.raises(type(error)):
        await ScriptedStore(memory_store(), "head", [error]).exists("k")


# --- the rest ------------------------------------------------------------------------


async def test_a_store_closes_with_its_block() -> None:
    """Leaving the block closes the store, also after an error."""
    closed = []

    class Closing(StoreDecorator):
        async def aclose(self) -> None:
            closed.append(True)

    async def fail(store: ObjectStore) -> Fetched:
        async with store:
            return await store.get("missing")

    with pytest.raises(NotFoundError):
        await fail(Closing(memory_store()))
    assert closed == [True]
