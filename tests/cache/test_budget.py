"""Bytes shared by named caches: the limit, floors, caps, and what is said about them."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.cache.lanes import Lane
from lakehouse.errors import InvalidInputError
from lakehouse.testing import ManualClock
from tests.kit.loaders import Loader, budget_of

KIB = 1024


def _spec(name: str = "blocks", **bounds: Any) -> CacheSpec:
    """A cache whose values, numbers, weigh what they say."""
    return CacheSpec(name=name, weigh=lambda value: value, **bounds)


async def test_the_weight_bound_evicts_instead_of_growing_unbounded() -> None:
    """Whatever is put in, all caches together stay within the budget."""
    budget = budget_of(100 * KIB)
    regions = [budget.region(_spec("a")), budget.region(_spec("b", prefix_length=1))]
    for n in range(2_000):
        regions[n % 2].put((n % 7, n), 100 + n % 3_000, tags=[n % 3])
        assert budget.weight <= 100 * KIB
    assert budget.weight == sum(region.weight for region in regions) > 90 * KIB
    assert sum(stats.counters.evictions for stats in budget.stats()) > 1_000


async def test_a_cache_stays_within_its_own_bytes() -> None:
    """max_bytes of a spec bounds one cache inside the budget; others are not evicted for it."""
    budget = budget_of(100 * KIB)
    capped, other = budget.region(_spec("capped", max_bytes=20 * KIB)), budget.region(_spec("other"))
    for n in range(40):
        other.put((n,), KIB)
    for n in range(500):
        capped.put((n,), KIB)
        assert capped.weight <= 20 * KIB
    assert capped.weight > 15 * KIB
    assert len(other) == 40


async def test_a_value_that_is_too_large_is_served_and_not_kept() -> None:
    """A value over the settable share of the budget is rejected, and displaces nothing."""
    budget = budget_of(100 * KIB, max_entry_share=0.5)
    region = budget.region(_spec())
    loader = Loader({("big",): 60 * KIB})
    region.put(("small",), KIB)
    assert await region.get(("big",), loader.one) == 60 * KIB
    assert not region.put(("big",), 60 * KIB)
    assert region.get_if_present(("big",)) is None
    assert region.get_if_present(("small",)) == KIB
    assert (region.stats().counters.rejects, region.stats().counters.evictions) == (2, 0)


async def test_a_rejected_write_drops_the_value_it_was_to_replace() -> None:
    """After a write that is too large to keep, the old value is not served."""
    region = budget_of(100 * KIB, max_entry_share=0.5).region(_spec())
    region.put(("k",), KIB)
    assert not region.put(("k",), 60 * KIB)
    assert region.get_if_present(("k",)) is None
    assert region.weight == 0


async def test_zero_bytes_turn_all_caches_off() -> None:
    """cache.max_bytes = 0: every get loads, nothing is kept."""
    region, loader = budget_of(0).region(_spec()), Loader({("k",): 1})
    assert [await region.get(("k",), loader.one) for _ in range(2)] == [1, 1]
    assert len(loader.asked) == 2
    assert not region.stats().enabled


async def test_a_group_keeps_its_floor() -> None:
    """What a group holds within its floor is not evicted for others, and what is above is."""
    budget = budget_of(100 * KIB)
    budget.guarantee("small", 30 * KIB)
    small, large = budget.region(_spec("small")), budget.region(_spec("large"))
    for n in range(20):
        small.put((n,), KIB)
    for n in range(1_000):
        large.put((n,), KIB)
    assert len(small) == 20
    assert large.weight > 60 * KIB
    for n in range(20, 60):
        small.put((n,), KIB)
    for n in range(1_000, 3_000):
        large.put((n,), KIB)
    assert 28 * KIB < small.weight <= 30 * KIB


async def test_floors_hold_while_groups_shrink_and_grow() -> None:
    """A group that falls below its floor is safe again, and pays again once it is above."""
    budget = budget_of(100 * KIB)
    budget.guarantee("a", 40 * KIB)
    a, b = budget.region(_spec("a")), budget.region(_spec("b"))
    for round_ in range(5):
        for n in range(60):
            a.put((round_, n), KIB)
        for n in range(200):
            b.put((round_, n), KIB)
        assert a.weight > 38 * KIB
        for n in range(60):
            a.invalidate((round_, n))
            if n == 30:
                held = a.weight
                for m in range(200):
                    b.put((round_, n, m), KIB)
                assert a.weight == held
        assert len(a) == 0
        assert budget.weight <= 100 * KIB


async def test_regions_of_a_group_share_its_floor() -> None:
    """An account's caches are guaranteed bytes together, and have keys of their own."""
    budget = budget_of(100 * KIB)
    budget.guarantee("account-1", 20 * KIB)
    tables = budget.region(_spec("tables"), group="account-1")
    schemas = budget.region(_spec("schemas"), group="account-1")
    other = budget.region(_spec("tables"), group="account-2")
    for n in range(7):
        tables.put((n,), KIB)
        schemas.put((n,), KIB)
    for n in range(1_000):
        other.put((n,), KIB)
    assert (len(tables), len(schemas)) == (7, 7)
    assert tables.get_if_present((900,)) is None


async def test_floors_leave_room_for_others_to_be_rejected_not_to_starve() -> None:
    """A value that could only be held by breaking floors is rejected at once."""
    budget = budget_of(100 * KIB)
    budget.guarantee("kept", 70 * KIB)
    kept, other = budget.region(_spec("kept")), budget.region(_spec("other"))
    for n in range(60):
        kept.put((n,), KIB)
    other.put(("small",), KIB)
    assert not other.put(("big",), 60 * KIB)
    assert (len(kept), other.get_if_present(("small",))) == (60, KIB)


async def test_floors_must_fit_the_budget() -> None:
    """Guarantees that cannot be kept together are refused, with the sum that does not fit."""
    budget = budget_of(100 * KIB)
    budget.guarantee("a", 60 * KIB)
    with pytest.raises(InvalidInputError, match="61,440"):
        budget.guarantee("b", 50 * KIB)
    budget.guarantee("a", 50 * KIB)
    budget.guarantee("b", 50 * KIB)
    with pytest.raises(InvalidInputError, match="floor of -1"):
        budget.guarantee("b", -1)


async def test_lifting_a_floor_exposes_the_group() -> None:
    """A floor set to 0 protects nothing any more."""
    budget = budget_of(100 * KIB)
    budget.guarantee("a", 50 * KIB)
    a, b = budget.region(_spec("a")), budget.region(_spec("b"))
    for n in range(30):
        a.put((n,), KIB)
    for n in range(300):
        b.put((n,), KIB)
    assert len(a) == 30
    budget.guarantee("a", 0)
    for n in range(1_000):
        b.put((n % 500, n), KIB)
        b.get_if_present((n % 500, n))
    assert len(a) < 30


async def test_a_forgotten_group_is_gone() -> None:
    """forget drops an account's regions, entries and floor; a new one of its name is empty."""
    budget = budget_of(100 * KIB)
    budget.guarantee("account-1", 60 * KIB)
    region = budget.region(_spec("tables"), group="account-1")
    region.put(("k",), KIB)
    budget.region(_spec("tables"), group="account-2").put(("k",), KIB)
    assert budget.forget("account-1") == 1
    assert [stats.group for stats in budget.stats()] == ["account-2"]
    assert len(budget.region(_spec("tables"), group="account-3")) == 0
    budget.guarantee("account-2", 100 * KIB)
    assert budget.forget("nobody") == 0


async def test_one_name_has_one_spec() -> None:
    """The same spec gives the same region; another one of that name is refused."""
    budget = budget_of()
    spec = CacheSpec(name="nodes")
    assert budget.region(spec) is budget.region(CacheSpec(name="nodes"))
    with pytest.raises(InvalidInputError, match="'nodes'"):
        budget.region(CacheSpec(name="nodes", expire_after_write_s=1))


async def test_a_tag_reaches_every_cache() -> None:
    """invalidate_tag on the budget drops the tagged entries of all its caches."""
    budget = budget_of()
    tables, blocks = budget.region(CacheSpec(name="tables")), budget.region(CacheSpec(name="blocks"))
    tables.put(("t",), 1, tags=["table-7"])
    blocks.put(("b", 1), 2, tags=["table-7"])
    blocks.put(("b", 2), 3, tags=["table-8"])
    assert budget.invalidate_tag("table-7") == 2
    assert budget.invalidate_all() == 1
    assert budget.weight == 0


async def test_statistics_name_every_cache() -> None:
    """stats() lists regions by name and group, with what they hold and may hold."""
    budget = budget_of(1_000_000)
    budget.region(CacheSpec(name="b"))
    budget.region(CacheSpec(name="a", max_bytes=500_000), group="y").put(("k",), b"12345")
    budget.region(CacheSpec(name="a", max_bytes=500_000), group="x")
    stats = budget.stats()
    assert [(s.name, s.group, s.entries, s.max_bytes) for s in stats] == [
        ("a", "x", 0, 500_000),
        ("a", "y", 1, 500_000),
        ("b", "b", 0, 1_000_000),
    ]
    assert stats[0].hit_ratio == 0
    assert sum(s.weight for s in stats) == budget.weight > 200


async def test_time_spent_loading_is_counted() -> None:
    """Load time is the sum over loads, by the clock that was given."""
    clock = ManualClock(skip=True)
    region = budget_of(clock=clock).region(CacheSpec(name="a"))

    async def load(key: Any) -> int:
        await clock.sleep(3)
        return 1

    await region.get((1,), load)
    await region.get((2,), load)
    assert region.stats().counters.load_seconds == 6
    assert region.stats().counters.last_load_ms == clock.now_ms()


def test_groups_that_come_and_go_leave_nothing_behind() -> None:
    """A budget that is never short of bytes keeps no queue of groups that were forgotten."""
    budget = CacheBudget()
    spec = CacheSpec(name="x")

    def passing(numbers: range) -> int:
        for number in numbers:
            budget.region(spec, group=f"group {number}").put("k", "v")
            budget.forget(f"group {number}")
        gc.collect()
        return sum(isinstance(one, Lane) for one in gc.get_objects())

    assert passing(range(1_000, 1_400)) < 400
    assert passing(range(2_000, 2_600)) < 400
