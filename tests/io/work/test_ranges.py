"""Many ranges of one object in few requests: the plan, and the bytes it brings."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config import IoSettings
from lakehouse.errors import ConflictError, InvalidInputError, NotFoundError
from lakehouse.io import Fetched, ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.work.ranges import coalesce
from lakehouse.testing.stores import RecordingStore, memory_store

RANGE = st.tuples(st.integers(0, 300), st.integers(0, 60)).map(lambda drawn: (drawn[0], sum(drawn)))
RANGES = st.lists(RANGE, max_size=20)
DATA = random.Random(0).randbytes(250)


# --- the plan ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "gap", "most", "requests", "source"),
    [
        ([], 0, 100, (), ()),
        ([(5, 5)], 0, 100, (), (-1,)),
        ([(0, 10)], 0, 100, ((0, 10),), (0,)),
        # Apart by the gap: one request; by one byte more: two.
        ([(0, 10), (15, 20)], 5, 100, ((0, 20),), (0, 0)),
        ([(0, 10), (16, 20)], 5, 100, ((0, 10), (16, 20)), (0, 1)),
        # Touching needs no gap.
        ([(0, 10), (10, 20)], 0, 100, ((0, 20),), (0, 0)),
        # As large as allowed: one; a byte larger: two.
        ([(0, 10), (10, 20)], 0, 20, ((0, 20),), (0, 0)),
        ([(0, 10), (10, 21)], 0, 20, ((0, 10), (10, 21)), (0, 1)),
        # What overlaps shares a request, however large.
        ([(0, 15), (10, 25)], 0, 20, ((0, 25),), (0, 0)),
        # What lies within another does not shorten the request.
        ([(0, 30), (5, 10), (31, 40)], 1, 100, ((0, 40),), (0, 0, 0)),
        # One that is larger than allowed stays whole.
        ([(0, 500)], 0, 20, ((0, 500),), (0,)),
        # Any order, and the same range twice.
        ([(50, 60), (0, 10), (50, 60)], 5, 100, ((0, 10), (50, 60)), (1, 0, 1)),
    ],
)
def test_the_plan(
    ranges: list[tuple[int, int]],
    gap: int,
    most: int,
    requests: tuple[tuple[int, int], ...],
    source: tuple[int, ...],
) -> None:
    """Ranges share a request when they are close and it does not grow too large."""
    plan = coalesce(ranges, gap_bytes=gap, max_bytes=most)
    assert (plan.requests, plan.source) == (requests, source)


@pytest.mark.parametrize("bad", [(-1, 5), (5, 4)])
def test_what_is_no_range_is_refused(bad: tuple[int, int]) -> None:
    """Negative and reversed ranges are errors of the caller."""
    with pytest.raises(InvalidInputError, match="not a range"):
        coalesce([(0, 1), bad], gap_bytes=0, max_bytes=10)


@given(ranges=RANGES, gap=st.integers(0, 40), most=st.integers(1, 120))
def test_any_plan_covers_what_is_wanted_and_little_more(
    ranges: list[tuple[int, int]], gap: int, most: int
) -> None:
    """Requests ascend and are disjoint, cover each range whole, and are no closer or larger than need be."""
    plan = coalesce(ranges, gap_bytes=gap, max_bytes=most)
    for (start, end), at in zip(ranges, plan.source, strict=True):
        assert (at == -1) == (start == end)
        if at >= 0:
            assert plan.requests[at][0] <= start < end <= plan.requests[at][1]
    for before, after in zip(plan.requests, plan.requests[1:], strict=False):
        assert before[1] <= after[0]
        assert after[0] - before[1] > gap or after[1] - before[0] > most
    wanted = {byte for start, end in ranges for byte in range(start, end)}
    for start, end in plan.requests:
        holes = [byte for byte in range(start, end) if byte not in wanted]
        assert all(any(byte - run in wanted for run in range(1, gap + 1)) for byte in holes), (
            "a hole is wider than the gap"
        )


# --- the reads -----------------------------------------------------------------------


async def _store(data: bytes = DATA, **bounds: int) -> RecordingStore:
    store = RecordingStore(memory_store(IoSettings(**bounds)))  # type: ignore[arg-type]
    await store.inner.put("k", data)
    return store


@given(ranges=RANGES, gap=st.integers(0, 40), most=st.integers(1, 120), concurrency=st.integers(1, 4))
@settings(deadline=None)
async def test_any_ranges_bring_their_bytes(
    ranges: list[tuple[int, int]], gap: int, most: int, concurrency: int
) -> None:
    """Whatever is joined, each range brings its own bytes, in the order asked for, cut at the end."""
    store = await _store(coalesce_max_bytes=most, ranges_concurrency=concurrency)
    assert await store.get_ranges("k", ranges, gap_bytes=gap) == [DATA[start:end] for start, end in ranges]
    assert len(store.calls) == len(coalesce(ranges, gap_bytes=gap, max_bytes=most).requests)


async def test_the_gap_is_a_setting_that_callers_may_override() -> None:
    """Without a word of the caller ranges join as the settings say."""
    store = await _store(coalesce_gap_bytes=10)
    await store.get_ranges("k", [(0, 5), (15, 20)])
    assert store.kinds() == {"get": 1}
    await store.get_ranges("k", [(0, 5), (15, 20)], gap_bytes=0)
    assert store.kinds() == {"get": 3}


async def test_nothing_wanted_costs_nothing() -> None:
    """Without bytes to read there is no request, and the object need not exist."""
    store = await _store()
    assert await store.get_ranges("missing", []) == []
    assert await store.get_ranges("missing", [(3, 3), (9, 9)]) == [b"", b""]
    assert store.calls == []


async def test_a_missing_object_is_not_found() -> None:
    """Ranges of nothing are a NotFoundError."""
    store = await _store()
    with pytest.raises(NotFoundError):
        await store.get_ranges("missing", [(0, 5), (200, 210)], gap_bytes=0)


class ChangingStore(StoreDecorator):
    """Replaces the object after the first ranged read."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.versions: list[str | None] = []

    async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched:
        self.versions.append(version)
        fetched = await self.inner.get_range(key, start, end, version=version)
        if len(self.versions) == 1:
            await self.inner.put(key, bytes(250))
        return fetched


async def test_all_ranges_are_of_one_version() -> None:
    """When the object is replaced between two requests the read fails, and never mixes bytes."""
    store = ChangingStore((await _store()).inner)
    with pytest.raises(ConflictError) as caught:
        await store.get_ranges("k", [(0, 5), (100, 105), (200, 205)], gap_bytes=0)
    assert caught.value.kind == "object-changed"


async def test_the_version_asked_for_holds_for_every_request() -> None:
    """With a version given, no request reads another, and none has to go first."""
    store = ChangingStore((await _store()).inner)
    version = (await store.head("k")).version
    await store.inner.put("k", DATA)
    with pytest.raises(ConflictError):
        await store.get_ranges("k", [(0, 5), (100, 105)], version=version, gap_bytes=0)
    assert set(store.versions) == {version}


async def test_one_request_needs_no_version() -> None:
    """Ranges that fit one request are one unconditional read."""
    store = ChangingStore((await _store()).inner)
    assert await store.get_ranges("k", [(0, 5), (10, 15)], gap_bytes=5) == [DATA[0:5], DATA[10:15]]
    assert store.versions == [None]


async def test_a_store_without_versions_is_read_all_the_same() -> None:
    """Where objects have no versions nothing can be insisted on."""

    class Versionless(StoreDecorator):
        async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched:
            assert version is None
            return dataclasses.replace(await self.inner.get_range(key, start, end), version=None)

    store = Versionless((await _store()).inner)
    assert await store.get_ranges("k", [(0, 5), (100, 105)], gap_bytes=0) == [DATA[0:5], DATA[100:105]]


async def test_ranges_behind_the_end_are_empty() -> None:
    """Ranges are cut at the end of the object, those behind it are empty."""
    store = await _store()
    wanted = [(245, 260), (250, 255), (900, 910)]
    assert await store.get_ranges("k", wanted, gap_bytes=0) == [DATA[245:], b"", b""]
