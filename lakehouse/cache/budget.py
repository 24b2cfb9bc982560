"""The bytes that all caches of an engine share, and the place where caches are made.

Invariant: what the caches hold weighs no more than ``cache.max_bytes``, and no group is
pushed below its guaranteed floor by others. Weights are measured and err upwards, so that
the process grows by little more than :attr:`CacheBudget.weight`.

One budget serves one event loop at a time. A new loop finds the values of the last one;
loads that were under way there are forgotten. Threads need budgets of their own.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from math import isinf
from operator import itemgetter
from typing import Any, Self

from lakehouse.cache.flight import Home
from lakehouse.cache.ledger import Ledger
from lakehouse.cache.region import CacheRegion, LoadGate
from lakehouse.cache.spec import CacheSpec
from lakehouse.cache.stats import CacheStats
from lakehouse.clock import Clock, SystemClock
from lakehouse.config import WHOLE_BUDGET, CacheSettings, LayerSettings, MetaCacheSettings, Settings
from lakehouse.errors import InvalidInputError

__all__ = ["CacheBudget"]


class CacheBudget:
    """Named caches under one limit of bytes.

    Args:
        settings: the limit, and how refreshes run.
        layers: settings of single caches, by their names.
        clock: source of time, for tests.
    """

    def __init__(
        self,
        settings: CacheSettings | None = None,
        *,
        layers: MetaCacheSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings or CacheSettings()
        self._layers = layers or MetaCacheSettings()
        self._clock = clock or SystemClock()
        max_bytes = self.settings.max_bytes
        self._ledger = Ledger(max_bytes, int(max_bytes * self.settings.max_entry_share))
        self._home = Home()
        self._regions: dict[tuple[str, str], CacheRegion[Any, Any]] = {}
        self._asked: dict[tuple[str, str], CacheSpec] = {}
        """Specs that regions were asked for by: most are asked for again by the same."""
        self._names: dict[str, list[str]] = {}
        """Names of the regions of each group."""

    @classmethod
    def of(cls, settings: Settings, *, clock: Clock | None = None) -> Self:
        """A budget as all settings together describe it."""
        return cls(settings.cache, layers=settings.meta.cache, clock=clock)

    def __repr__(self) -> str:
        return f"CacheBudget(weight={self.weight}, max_bytes={self.settings.max_bytes})"

    @property
    def weight(self) -> int:
        """Bytes held by all caches."""
        return self._ledger.weight

    def region(
        self, spec: CacheSpec, *, group: str | None = None, gate: LoadGate | None = None
    ) -> CacheRegion[Any, Any]:
        """The cache that ``spec`` and the settings of its name describe, made at the first call.

        Regions of one ``group``, such as an account's, share a floor and have keys of their
        own; a region without one is a group by the spec's name. Loads go through ``gate``.
        """
        group = spec.name if group is None else group
        names = spec.name, group
        region = self._regions.get(names)
        if region is not None and self._asked[names] is spec:
            return region
        asked, spec = spec, self._configured(spec)
        if region is None:
            region = CacheRegion(
                spec,
                group=group,
                ledger=self._ledger,
                home=self._home,
                clock=self._clock,
                settings=self.settings,
                gate=gate,
            )
            self._regions[names] = region
            self._names.setdefault(group, []).append(spec.name)
        elif region.spec != spec:
            raise InvalidInputError(
                f"cache {spec.name!r} of group {group!r} exists with other bounds: give one of them another "
                "name, or the same spec",
                cache=spec.name,
                group=group,
            )
        self._asked[names] = asked
        return region

    def _configured(self, spec: CacheSpec) -> CacheSpec:
        """The spec with what the settings of its layer say; theirs are bounds beside its own."""
        layer = self._layers.entry(spec.name)
        if layer is None:
            return spec
        given: dict[str, Any] = {"enabled": spec.enabled and layer.enable}
        if not isinf(layer.ttl):
            given["expire_after_write_s" if spec.grows_stale else "expire_after_access_s"] = layer.ttl
        if isinstance(layer, LayerSettings) and layer.refresh:
            given["refresh_after_write_s"] = layer.refresh
        if layer.max_bytes < WHOLE_BUDGET:
            given["max_bytes"] = layer.max_bytes
        return replace(spec, **given)

    def guarantee(self, group: str, floor_bytes: int) -> None:
        """Entries of the group are not evicted for others while it holds no more than this.

        All floors together must fit the budget.
        """
        self._ledger.guarantee(group, floor_bytes)

    def forget(self, group: str) -> int:
        """Drops the group with its regions, entries and floor; says how many entries."""
        dropped = 0
        for name in self._names.pop(group, ()):
            dropped += self._regions.pop((name, group)).invalidate_all()
            del self._asked[name, group]
        self._ledger.close(group)
        return dropped

    def regions(self, name: str | None = None, *, group: str | None = None) -> list[CacheRegion[Any, Any]]:
        """Caches of that name and group that there are; None = any."""
        return [
            region
            for names, region in sorted(self._regions.items(), key=itemgetter(0))
            if name in (None, names[0]) and group in (None, names[1])
        ]

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
