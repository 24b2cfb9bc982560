"""Caches of a lake: ``lake.cache``."""

from __future__ import annotations

from lakehouse.catalog.control import LakeCache
from lakehouse.lake.state import LakeState

__all__ = ["LakeCaches"]


class LakeCaches:
    """Base of ``Lake`` with what is cached."""

    _state: LakeState

    @property
    def cache(self) -> LakeCache:
        """Caches of the lake: statistics, refresh, prewarm and clear."""
        return self._state.cache
