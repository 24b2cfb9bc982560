"""LakeCaches without await: the twin of :mod:`lakehouse.lake.cache`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/cache.py: edit that file, then run `make docs`.

from __future__ import annotations

from lakehouse.lake.cache import LakeCaches as AsyncLakeCaches
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.lake.caches import LakeCache

__all__ = ["LakeCaches"]


class LakeCaches:
    """Base of ``Lake`` with what is cached."""

    def __init__(self, wrapped: AsyncLakeCaches, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def cache(self) -> LakeCache:
        """Caches of the lake: statistics, refresh, prewarm and clear."""
        return LakeCache(self._wrapped.cache, self._bridge)
