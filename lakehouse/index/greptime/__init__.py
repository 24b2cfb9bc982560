"""Directories of GreptimeDB: keys of its objects, its manifests, and the index files they refer to.

Words: *table directory* → *region* (a shard, with an id) → *manifest* (which files it has) → *file*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.index.greptime.layout import RegionDir

__all__ = [
    "RegionDir",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "layout": "RegionDir",
    },
)
