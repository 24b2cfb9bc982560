"""The cache under a seeded scheduler: loads and invalidations interleave in hundreds of orders.

None of the rules depends on how long something takes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec
from lakehouse.config import CacheSettings
from lakehouse.errors import LakehouseError, UnavailableError
from tests.kit.seeded_loop import LoopClock, with_seeds

KEYS = (("a", 1), ("a", 2), ("b", 1))


def region(*, max_bytes: int = 1 << 20, **given: Any) -> CacheRegion[Any, Any]:
    """A cache whose time is the loop's."""
    budget = CacheBudget(CacheSettings(max_bytes=max_bytes, max_entry_share=1), clock=LoopClock())
    return budget.region(CacheSpec(name="seeded", prefix_length=1, **given))


async def dawdle(rng: random.Random, most: int = 6) -> None:
    """Lets others go first, some times."""
    for _ in range(rng.randrange(most)):
        await asyncio.sleep(0)


def test_concurrent_misses_collapse_to_one_load() -> None:
    """A hundred that miss a key at once cause one load, and all have its value."""

    async def main(rng: random.Random) -> None:
        cache, loads = region(), 0

        async def load(key: Any) -> object:
            nonlocal loads
            loads += 1
            # Nobody can come so late that the load has ended: all are under way before it goes on.
            await asyncio.sleep(1)
            return value

        value = object()
        found = [asyncio.ensure_future(cache.get(("a", 1), load)) for _ in range(100)]
        await asyncio.wait(found)
        assert {id(task.result()) for task in found} == {id(value)}
        assert loads == 1
        assert cache.stats().counters.misses == 100

    with_seeds(main, range(100))


class World:
    """What a source says of keys: versions that only grow; and which of them its readers must see."""

    def __init__(self, cache: CacheRegion[Any, Any], rng: random.Random, *, slow_s: float = 0.0) -> None:
        self.cache, self.rng, self.slow_s = cache, rng, slow_s
        self.versions = dict.fromkeys(KEYS, 1)
        self.told = dict(self.versions)
        """Version that every reader who asks from now on must see at least."""

    async def load(self, key: Any) -> int:
        """Reads the source, at some moment of a load."""
        await dawdle(self.rng)
        version = self.versions[key]
        await dawdle(self.rng)
        if self.slow_s:
            await asyncio.sleep(self.rng.random() * self.slow_s)
        if self.rng.random() < 0.1:
            raise UnavailableError("the source is away")
        return version

    async def load_many(self, keys: Sequence[Any]) -> Mapping[Any, int]:
        """Reads several keys, each at a moment of its own."""
        return {key: await self.load(key) for key in keys}

    async def write(self) -> None:
        """Changes the source, and says so by one of all the ways there are."""
        await dawdle(self.rng, 20)
        key = self.rng.choice(KEYS)
        self.versions[key] += 1
        version = self.versions[key]
        await dawdle(self.rng)
        match self.rng.randrange(5):
            case 0:
                self.cache.invalidate(key)
            case 1:
                self.cache.invalidate_tag(key[0])
            case 2:
                self.cache.invalidate_prefix(key[:1])
            case 3:
                self.cache.invalidate_all()
            case _:
                # Another writer may have been quicker: only what is newest is put.
                if version == self.versions[key]:
                    self.cache.put(key, version, tags=key[:1])
                else:
                    self.cache.invalidate(key)
        self.told[key] = max(self.told[key], version)

    async def read(self) -> None:
        """Asks for a key, and checks that the answer is not older than what was told before."""
        await dawdle(self.rng, 20)
        key = self.rng.choice(KEYS)
        told = self.told[key]
        try:
            found = await self.cache.get(key, self.load, tags=key[:1])
        except UnavailableError:
            return
        assert found is not None
        assert found >= told, f"{key}: {found} was served after {told} was told"

    async def read_many(self) -> None:
        """Asks for all keys at once."""
        await dawdle(self.rng, 20)
        told = dict(self.told)
        try:
            found = await self.cache.get_many(KEYS, self.load_many, tags=("a", "b"))
        except UnavailableError:
            return
        for key in KEYS:
            assert found[key] >= told[key], f"{key}: {found[key]} was served after {told[key]} was told"


def test_a_stale_populate_cannot_overwrite_a_fresher_entry() -> None:
    """Whatever load was under way when a key was invalidated or written, nobody who asks later is given its
    value."""

    async def main(rng: random.Random) -> None:
        world = World(region(), rng)
        tasks = [world.read() for _ in range(8)] + [world.read_many() for _ in range(3)]
        tasks += [world.write() for _ in range(4)]
        done, _ = await asyncio.wait([asyncio.ensure_future(task) for task in tasks])
        for task in done:
            task.result()
        for key in KEYS:
            held = world.cache.get_if_present(key)
            assert held is None or held >= world.told[key]

    with_seeds(main, range(300))


def test_a_refresh_never_brings_an_old_value_back() -> None:
    """Refreshes ahead of time land under the same rule as loads that somebody waits for."""

    async def main(rng: random.Random) -> None:
        world = World(region(expire_after_write_s=10.0, refresh_after_write_s=1.0), rng, slow_s=3.0)

        async def later(step: Any) -> None:
            await asyncio.sleep(rng.random() * 12)
            await step()

        steps = [world.read] * 16 + [world.write] * 4
        done, _ = await asyncio.wait([asyncio.ensure_future(later(step)) for step in steps])
        for task in done:
            task.result()

    with_seeds(main, range(200))


def test_an_invalidation_does_not_wait_for_a_slow_miss() -> None:
    """A refresh of a key whose load hangs takes effect at once, and the next reader is not held up by it."""

    async def main(rng: random.Random) -> None:
        cache = region()
        hangs, begun = asyncio.Event(), asyncio.Event()

        async def load_slowly(key: Any) -> str:
            begun.set()
            await hangs.wait()
            return "old"

        async def load(key: Any) -> str:
            await dawdle(rng)
            return "new"

        waiting = asyncio.ensure_future(cache.get(("a", 1), load_slowly))
        await begun.wait()
        cache.invalidate_prefix(("a",))
        assert await cache.get(("a", 1), load) == "new"
        hangs.set()
        assert await waiting == "old"  # it asked before
        assert cache.get_if_present(("a", 1)) == "new"
        assert cache.stats().counters.unlanded == 1

    with_seeds(main, range(100))


def test_cancelled_waiters_leave_the_load_to_others() -> None:
    """Whoever of several waiters is cancelled, the others have the value; the last takes the load along."""

    async def main(rng: random.Random) -> None:
        cache, begun, ended = region(), 0, 0

        async def load(key: Any) -> str:
            nonlocal begun, ended
            begun += 1
            await dawdle(rng, 20)
            ended += 1
            return "value"

        tasks = [asyncio.ensure_future(cache.get(("a", 1), load)) for _ in range(6)]
        leaving = rng.sample(tasks, rng.randrange(len(tasks) + 1))

        async def leave(task: asyncio.Task[Any]) -> None:
            await dawdle(rng, 20)
            task.cancel()

        await asyncio.wait([asyncio.ensure_future(leave(task)) for task in leaving] + tasks)
        for task in tasks:
            if task.cancelled():
                assert task in leaving
            else:
                assert task.result() == "value"
        if len(leaving) < len(tasks):
            assert ended == 1
        # The cache is not wedged, whatever happened.
        assert await cache.get(("a", 1), load) == "value"

    with_seeds(main, range(300))


def test_an_entry_evicted_while_it_is_filled_is_served_whole() -> None:
    """Eviction under pressure never takes a part of an answer away: every key asked for is in it, with all of
    its value (StarRocks #70522 served 507 of 7,593 files)."""

    async def main(rng: random.Random) -> None:
        cache = region(max_bytes=12_000)
        files = {number: tuple(range(number, number + 200)) for number in range(30)}

        async def load_many(keys: Sequence[int]) -> Mapping[Any, tuple[int, ...]]:
            found = {}
            for key in keys:
                await dawdle(rng, 3)
                found[key] = files[key[1]]  # type: ignore[index]
            return found

        async def ask() -> None:
            await dawdle(rng)
            asked = [("a", number) for number in rng.sample(sorted(files), 10)]
            found = await cache.get_many(asked, load_many)
            assert found == {key: files[key[1]] for key in asked}

        done, _ = await asyncio.wait([asyncio.ensure_future(ask()) for _ in range(6)])
        for task in done:
            task.result()
        assert cache.stats().counters.evictions + cache.stats().counters.rejects
        assert cache.weight <= 12_000

    with_seeds(main, range(100))


def test_absence_and_failure_are_never_kept() -> None:
    """What was not there, and what failed, is asked for again by the next reader, in every order."""

    async def main(rng: random.Random) -> None:
        cache, there = region(), False

        async def load(key: Any) -> str | None:
            await dawdle(rng)
            if rng.random() < 0.3:
                raise UnavailableError("the source is away")
            return "value" if there else None

        async def ask() -> str | None:
            await dawdle(rng, 20)
            try:
                return await cache.get(("a", 1), load)
            except LakehouseError:
                return None

        early = [asyncio.ensure_future(ask()) for _ in range(5)]
        await asyncio.wait(early)
        assert len(cache) == 0
        there = True
        while (found := await ask()) is None:
            pass
        assert found == "value"

    with_seeds(main, range(100))
