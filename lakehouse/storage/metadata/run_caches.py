"""The caches that readers of data files share: metadata of files, and rows decoded for point reads.

Keys begin with the table's directory and the file's path, ``(root, path, …)``. Directories carry a
uuid and paths are written once, so no entry ever goes stale; what is deleted is forgotten when room
is needed. One pair of caches serves one store.

Invariant: both together hold no more than their budget; metadata is weighed apart, so that rows
passing through do not hide what it costs.
"""

from __future__ import annotations

from typing import Any

from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec, weigh

__all__ = ["RunCaches"]


def _weigh(value: Any) -> int:
    """What the value says it weighs, as one with objects of C++ inside has to; else what is measured."""
    said = getattr(value, "weight", None)
    return said if isinstance(said, int) else weigh(value)


_METADATA = CacheSpec(name="run-metadata", weigh=_weigh)
_BLOCKS = CacheSpec(name="run-data", weigh=_weigh)


class RunCaches:
    """The two caches of an engine's data files.

    Args:
        budget: bytes that they share, among themselves and with the caches of other layers.
    """

    __slots__ = ("blocks", "metadata")

    def __init__(self, budget: CacheBudget) -> None:
        self.metadata: CacheRegion[Any, Any] = budget.region(_METADATA)
        """Parsed footers and indexes by ``(root, path)``."""
        self.blocks: CacheRegion[Any, Any] = budget.region(_BLOCKS)
        """Bytes and decoded rows by ``(root, path, …)``."""
