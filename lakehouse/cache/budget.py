"""The bytes that all caches of an engine share, and the place where caches are made.

Invariant: what the caches hold weighs no more than ``cache.max_bytes``, and no group is
pushed below its guaranteed floor by others. Weights are measured and err upwards, so that
the process grows by little more than :attr:`CacheBudget.weight`.

One budget serves one event loop at a time. A new loop finds the values of the last one;
loads that were under way there are forgotten. Threads need budgets of their own.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from lakehouse.cache.flight import Home
from lakehouse.cache.ledger import Ledger
from lakehouse.cache.region import CacheRegion
from lakehouse.cache.spec import CacheSpec
from lakehouse.cache.stats import CacheStats
from lakehouse.clock import Clock, SystemClock
from lakehouse.config import CacheSettings
from lakehouse.errors import InvalidInputError

__all__ = ["CacheBudget"]


class CacheBudget:
    """Named caches under one limit of bytes."""

    def __init__(self, settings: CacheSettings | None = None, *, clock: Clock | None = None) -> None:
        self.settings = settings or CacheSettings()
        self._clock = clock or SystemClock()
        max_bytes = self.settings.max_bytes
        self._ledger = Ledger(max_bytes, int(max_bytes * self.settings.max_entry_share))
        self._home = Home()
        self._regions: dict[tuple[str, str], CacheRegion[Any, Any]] = {}

    def __repr__(self) -> str:
        return f"CacheBudget(weight={self.weight}, max_bytes={self.settings.max_bytes})"

    @property
    def weight(self) -> int:
        """Bytes held by all caches."""
        return self._ledger.weight

    def region(self, spec: CacheSpec, *, group: str | None = None) -> CacheRegion[Any, Any]:
        """The cache that ``spec`` describes, made at the first call.

        Regions of one ``group``, such as an account's, share a floor and have keys of their
        own; a region without one is a group by the spec's name.
        """
        group = spec.name if group is None else group
        region = self._regions.get((spec.name, group))
        if region is None:
            region = CacheRegion(
                spec,
                group=group,
                ledger=self._ledger,
                home=self._home,
                clock=self._clock,
                settings=self.settings,
            )
            self._regions[spec.name, group] = region
        elif region.spec != spec:
            raise InvalidInputError(
                f"cache {spec.name!r} of group {group!r} exists with other bounds: give one of them another "
                "name, or the same spec",
                cache=spec.name,
                group=group,
            )
        return region

    def guarantee(self, group: str, floor_bytes: int) -> None:
        """Entries of the group are not evicted for others while it holds no more than this.

        All floors together must fit the budget.
        """
        self._ledger.guarantee(group, floor_bytes)

    def forget(self, group: str) -> int:
        """Drops the group with its regions, entries and floor; says how many entries."""
        dropped = 0
        for name, owner in [names for names in self._regions if names[1] == group]:
            dropped += self._regions.pop((name, owner)).invalidate_all()
        self._ledger.close(group)
        return dropped

    def invalidate_tag(self, tag: Hashable) -> int:
        """Drops every entry of any cache that carries the tag; says how many."""
        return sum([region.invalidate_tag(tag) for region in self._regions.values()])

    def invalidate_all(self) -> int:
        """Drops everything; says how many entries."""
        return sum([region.invalidate_all() for region in self._regions.values()])

    def purge_expired(self) -> int:
        """Drops what is too old to be served, in all caches; says how many entries."""
        return sum([region.purge_expired() for region in self._regions.values()])

    def stats(self) -> tuple[CacheStats, ...]:
        """Statistics of every cache, by name and group."""
        return tuple(self._regions[names].stats() for names in sorted(self._regions))

    async def aclose(self) -> None:
        """Cancels loads and refreshes under way on this loop; values stay."""
        await self._home.here().clear()
