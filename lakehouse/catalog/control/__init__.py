"""Control of caches by users: statistics, refresh, prewarm and clear, as ``lake.cache``.

Words: *refresh* drops what may be stale, so that the next look is fresh; *deep*, with the content behind it.
*Prewarm* loads ahead of the first query. *Clear* empties layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.control.caches import LakeCache, PrewarmReport

__all__ = ["LakeCache", "PrewarmReport"]

__getattr__, __dir__ = door(__name__, {"caches": "LakeCache PrewarmReport"})
