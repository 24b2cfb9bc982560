"""What a named cache gives, keeps and forgets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from lakehouse.cache import CacheRegion, CacheSpec
from lakehouse.errors import InvalidInputError, NotFoundError, UnavailableError
from tests.kit.loaders import Loader, budget_of, settled, until

SPEC = CacheSpec(name="test")


@pytest.fixture
def region() -> CacheRegion[Any, Any]:
    """A cache without any bound in time."""
    return budget_of().region(SPEC)


async def test_the_second_get_loads_nothing(region: CacheRegion[Any, Any]) -> None:
    """A value that was loaded is served from memory."""
    loader = Loader({("k",): "v"})
    assert [await region.get(("k",), loader.one) for _ in range(3)] == ["v"] * 3
    assert len(loader.asked) == 1
    assert region.stats().hit_ratio == pytest.approx(2 / 3)


async def test_a_question_for_a_value_is_no_read(region: CacheRegion[Any, Any]) -> None:
    """Whether a value is there is told without counting a hit or a miss."""
    assert not region.holds(("k",))
    region.put(("k",), "v")
    assert region.holds(("k",))
    counted = region.stats().counters
    assert (counted.hits, counted.misses) == (0, 0)


async def test_absence_is_never_cached(region: CacheRegion[Any, Any]) -> None:
    """None is handed out and not kept: what appears later is seen at the next get."""
    loader = Loader()
    assert await region.get(("k",), loader.one) is None
    loader.values[("k",)] = "v"
    assert await region.get(("k",), loader.one) == "v"
    assert len(region) == 1


async def test_a_loader_failure_is_not_cached(region: CacheRegion[Any, Any]) -> None:
    """After a failure the next get loads again."""
    loader = Loader({("k",): "v"})
    loader.error = UnavailableError("away")
    with pytest.raises(UnavailableError):
        await region.get(("k",), loader.one)
    loader.error = None
    assert await region.get(("k",), loader.one) == "v"
    counted = region.stats().counters
    assert (counted.loads, counted.load_failures, counted.last_error) == (
        1,
        1,
        repr(UnavailableError("away")),
    )


async def test_resolve_fails_loud_when_the_pointer_dangles_on_a_missing_blob(
    region: CacheRegion[Any, Any],
) -> None:
    """A loader's NotFoundError reaches the caller each time, and nothing is kept."""
    loader = Loader()
    loader.error = NotFoundError("the blob is gone")
    for _ in range(2):
        with pytest.raises(NotFoundError, match="the blob is gone"):
            await region.get(("k",), loader.one)
    assert len(loader.asked) == 2
    assert len(region) == 0


async def test_load_rebuilds_from_the_live_pointer_when_the_blob_moved() -> None:
    """A loader that finds its cached pointer dangling drops it, reads it anew and goes on."""
    budget = budget_of()
    pointers, blobs = budget.region(CacheSpec(name="pointers")), budget.region(CacheSpec(name="blobs"))
    pointer, blob = Loader({("t",): "blob-1"}), Loader({"blob-1": "content 1"})

    async def content(key: tuple[str]) -> Any:
        for _ in range(2):
            at = await pointers.get(key, pointer.one)
            found = await blobs.get(at, blob.one)
            if found is not None:
                return found
            pointers.invalidate(key)
        raise NotFoundError("gone")

    assert await content(("t",)) == "content 1"
    blobs.invalidate_all()
    pointer.values, blob.values = {("t",): "blob-2"}, {"blob-2": "content 2"}
    assert await content(("t",)) == "content 2"


async def test_resolve_hydrates_from_a_fresh_pointer_not_a_stale_one(region: CacheRegion[Any, Any]) -> None:
    """A load that began before an invalidation never lands; those who waited for it get its value."""
    old, new = Loader({("k",): "old"}, is_open=False), Loader({("k",): "new"})
    waiting = asyncio.create_task(region.get(("k",), old.one))
    await until(1, old.asked)
    region.invalidate(("k",))
    assert await region.get(("k",), new.one) == "new"
    old.gate.set()
    assert await waiting == "old"
    assert region.get_if_present(("k",)) == "new"
    assert region.stats().counters.unlanded == 1


@pytest.mark.parametrize(
    "forget",
    [
        pytest.param(lambda region: region.invalidate(("db", "k")), id="key"),
        pytest.param(lambda region: region.invalidate_prefix(("db",)), id="prefix"),
        pytest.param(lambda region: region.invalidate_tag("tag"), id="tag"),
        pytest.param(lambda region: region.invalidate_all(), id="all"),
        pytest.param(lambda region: region.put(("db", "k"), "new"), id="put"),
    ],
)
async def test_a_load_from_before_is_neither_kept_nor_joined(
    region: CacheRegion[Any, Any], forget: Any
) -> None:
    """Whatever invalidates a key also cuts off the load of it that is under way."""
    loader = Loader({("db", "k"): "old"}, is_open=False)
    waiting = asyncio.create_task(region.get(("db", "k"), loader.one, tags=["tag"]))
    await until(1, loader.asked)
    forget(region)
    loader.values[("db", "k")] = "new"
    after = asyncio.create_task(region.get(("db", "k"), loader.one, tags=["tag"]))
    await settled()
    loader.gate.set()
    assert (await waiting, await after) == ("old", "new")
    assert region.get_if_present(("db", "k")) == "new"


@pytest.mark.parametrize(
    "forget",
    [
        pytest.param(lambda region: region.invalidate(("db", "other")), id="key"),
        pytest.param(lambda region: region.invalidate_prefix(("da",)), id="prefix"),
        pytest.param(lambda region: region.invalidate_tag("other"), id="tag"),
    ],
)
async def test_a_load_of_something_else_lands(region: CacheRegion[Any, Any], forget: Any) -> None:
    """An invalidation cuts off no load that it does not concern."""
    loader = Loader({("db", "k"): "v"}, is_open=False)
    waiting = asyncio.create_task(region.get(("db", "k"), loader.one, tags=["tag"]))
    await until(1, loader.asked)
    forget(region)
    loader.gate.set()
    await waiting
    assert region.get_if_present(("db", "k")) == "v"


async def test_tags_of_the_value_cut_off_loads_too() -> None:
    """Where tags come from the value, a tag cuts off every load whose tags are not known yet."""
    region = budget_of().region(CacheSpec(name="views", tags=lambda key, value: value))
    loader = Loader({("v",): ("t1", "t2")}, is_open=False)
    waiting = asyncio.create_task(region.get(("v",), loader.one))
    await until(1, loader.asked)
    region.invalidate_tag("t2")
    loader.gate.set()
    await waiting
    assert region.get_if_present(("v",)) is None
    await region.get(("v",), loader.one)
    assert region.invalidate_tag("t2") == 1


async def test_a_same_process_write_invalidates_and_the_next_read_sees_the_new_root() -> None:
    """After put every reader gets the written value, whatever is still being loaded."""
    region, loader = budget_of().region(SPEC), Loader({("t",): "root 1"}, is_open=False)
    reader = asyncio.create_task(region.get(("t",), loader.one))
    await until(1, loader.asked)
    assert region.put(("t",), "root 2")
    assert await region.get(("t",), loader.one) == "root 2"
    loader.gate.set()
    assert await reader == "root 1"
    assert await region.get(("t",), loader.one) == "root 2"


@dataclass(frozen=True)
class Root:
    """A value that knows its version."""

    version: int


async def test_a_stale_populate_cannot_overwrite_a_fresher_entry() -> None:
    """With versions, an older value is refused, by put as by load, and the same one is taken."""
    region = budget_of().region(CacheSpec(name="roots", version=lambda root: root.version))
    assert region.put(("t",), Root(5))
    assert not region.put(("t",), Root(4))
    assert region.get_if_present(("t",)) == Root(5)
    assert region.put(("t",), Root(5))
    assert region.put(("t",), Root(6))
    assert region.stats().counters.stale_puts == 1


async def test_a_refused_put_leaves_the_load_under_way_alone() -> None:
    """A put of an old version changes nothing, also not for loads."""
    region = budget_of().region(CacheSpec(name="roots", version=lambda root: root.version))
    region.put(("a",), Root(9))
    assert not region.put(("a",), Root(1))
    assert region.stats().counters.invalidations == 0


async def test_tags_find_all_their_entries_and_no_others(region: CacheRegion[Any, Any]) -> None:
    """An entry goes with any of its tags; one that was replaced goes by its new tags only."""
    region.put(("a",), 1, tags=["t1", "t2"])
    region.put(("b",), 2, tags=["t2"])
    region.put(("c",), 3)
    region.put(("b",), 4, tags=["t3"])
    assert region.invalidate_tag("t2") == 1
    assert (region.get_if_present(("b",)), region.get_if_present(("c",))) == (4, 3)
    assert region.invalidate_tag("t1") == 0
    assert region.invalidate_tag("t3") == 1
    assert region.stats().counters.invalidations == 2


@pytest.mark.parametrize("indexed", [0, 1, 2, 3])
async def test_a_prefix_finds_the_same_keys_however_it_is_indexed(indexed: int) -> None:
    """invalidate_prefix drops the keys that begin so, at any length of prefix and index."""
    prefixes = [(), ("c1",), ("c1", "d2"), ("c1", "d2", "t3"), ("c9",), ("c1", "d2", "t3", "more")]
    for prefix in prefixes:
        region = budget_of().region(CacheSpec(name="nodes", prefix_length=indexed))
        keys = [(f"c{c}", f"d{d}", f"t{t}") for c in range(2) for d in range(3) for t in range(4)]
        for key in keys:
            region.put(key, 1)
        gone = [key for key in keys if key[: len(prefix)] == prefix]
        assert region.invalidate_prefix(prefix) == len(gone)
        assert [key for key in keys if region.get_if_present(key) is None] == gone


async def test_get_many_asks_once_for_what_is_missing(region: CacheRegion[Any, Any]) -> None:
    """Held values are served, the rest is one load; answers come in the order of the keys."""
    loader = Loader({(n,): n * 10 for n in range(5)})
    region.put((1,), 10)
    found = await region.get_many([(4,), (1,), (9,), (0,), (4,)], loader.many)
    assert list(found.items()) == [((4,), 40), ((1,), 10), ((0,), 0)]
    assert loader.asked == [((4,), (9,), (0,))]
    assert await region.get_many([(4,), (0,)], loader.many) == {(4,): 40, (0,): 0}
    assert len(loader.asked) == 1
    counted = region.stats().counters
    assert (counted.hits, counted.misses, counted.loads) == (3, 3, 1)


async def test_get_many_keeps_no_absence(region: CacheRegion[Any, Any]) -> None:
    """A key without a value is asked for again the next time."""
    loader = Loader({(1,): "a"})
    await region.get_many([(1,), (2,)], loader.many)
    loader.values[(2,)] = "b"
    assert await region.get_many([(1,), (2,)], loader.many) == {(1,): "a", (2,): "b"}
    assert loader.asked == [((1,), (2,)), ((2,),)]


async def test_get_many_of_nothing_loads_nothing(region: CacheRegion[Any, Any]) -> None:
    """No keys, no load."""
    loader = Loader()
    assert await region.get_many([], loader.many) == {}
    assert loader.asked == []


async def test_a_failed_bulk_load_fails_all_its_waiters(region: CacheRegion[Any, Any]) -> None:
    """get_many raises what the load raised and keeps nothing of it."""
    loader = Loader({(1,): "a"}, is_open=False)
    loader.error = UnavailableError("away")
    bulk = asyncio.create_task(region.get_many([(1,), (2,)], loader.many))
    await until(1, loader.asked)
    single = asyncio.create_task(region.get((1,), loader.one))
    await settled()
    loader.gate.set()
    for waiter in (bulk, single):
        with pytest.raises(UnavailableError):
            await waiter
    assert len(region) == 0


async def test_an_invalidated_key_of_a_bulk_load_does_not_land(region: CacheRegion[Any, Any]) -> None:
    """Only the keys that nobody invalidated meanwhile are kept."""
    loader = Loader({(1,): "a", (2,): "b"}, is_open=False)
    bulk = asyncio.create_task(region.get_many([(1,), (2,)], loader.many))
    await until(1, loader.asked)
    region.invalidate((1,))
    loader.gate.set()
    assert await bulk == {(1,): "a", (2,): "b"}
    assert (region.get_if_present((1,)), region.get_if_present((2,))) == (None, "b")


@pytest.mark.parametrize(
    "spec",
    [
        CacheSpec(name="off", enabled=False),
        CacheSpec(name="off", expire_after_write_s=0),
        CacheSpec(name="off", expire_after_access_s=0),
        CacheSpec(name="off", max_bytes=0),
    ],
    ids=["enabled", "write", "access", "bytes"],
)
async def test_ttl_zero_disables_entirely(spec: CacheSpec) -> None:
    """A disabled cache keeps nothing and joins no load: each caller sees the source as it is."""
    region, loader = budget_of().region(spec), Loader({("k",): 1})
    assert await region.get(("k",), loader.one) == 1
    loader.values[("k",)] = 2
    assert await region.get(("k",), loader.one) == 2
    assert await region.get_many([("k",), ("none",)], loader.many) == {("k",): 2}
    assert not region.put(("k",), 3)
    assert region.get_if_present(("k",)) is None
    stats = region.stats()
    assert (stats.enabled, stats.entries, stats.weight, stats.counters.loads) == (False, 0, 0, 3)


async def test_a_disabled_cache_shares_no_load() -> None:
    """Somebody who asks while another loads gets a value read after the question."""
    region = budget_of().region(CacheSpec(name="off", expire_after_write_s=0))
    loader = Loader({("k",): 1}, is_open=False)
    first = asyncio.create_task(region.get(("k",), loader.one))
    await until(1, loader.asked)
    loader.values[("k",)] = 2
    second = asyncio.create_task(region.get(("k",), loader.one))
    await until(2, loader.asked)
    loader.gate.set()
    assert (await first, await second) == (1, 2)


async def test_get_if_present_never_loads(region: CacheRegion[Any, Any]) -> None:
    """It gives what is held and counts like any other request."""
    assert region.get_if_present(("k",)) is None
    region.put(("k",), "v")
    assert region.get_if_present(("k",)) == "v"
    counted = region.stats().counters
    assert (counted.hits, counted.misses, counted.loads) == (1, 1, 0)


async def test_a_prefix_concerns_tuples_only(region: CacheRegion[Any, Any]) -> None:
    """Keys that are no tuples begin with nothing; an index by prefix refuses them."""
    region.put("ab", 1)
    region.put(7, 2)
    region.put(("a", "b"), 3)
    assert region.invalidate_prefix(("a",)) == 1
    assert len(region) == 2
    indexed = budget_of().region(CacheSpec(name="nodes", prefix_length=1))
    with pytest.raises(InvalidInputError, match="'nodes'"):
        indexed.put("ab", 1)
    assert (len(indexed), indexed.weight) == (0, 0)


async def test_an_empty_cache_is_a_cache(region: CacheRegion[Any, Any]) -> None:
    """``cache or default`` does not throw an empty cache away."""
    assert region


async def test_a_region_shows_itself(region: CacheRegion[Any, Any]) -> None:
    """Its repr says name, group and how full it is."""
    assert repr(region) == "CacheRegion('test', group='test', entries=0, weight=0)"
