"""Jobs of executors: compaction, clustering, maintenance, enumeration of indexes.

Words: *job* (one call) → *wave* (tasks that run beside each other) → *task* → *commit* (by the driver).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.spark.jobs.compaction import compact
    from lakehouse.spark.jobs.enumeration import collect_index_metas

__all__ = [
    "collect_index_metas", "compact",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "compaction": "compact",
        "enumeration": "collect_index_metas",
    },
)
