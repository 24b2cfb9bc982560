"""Directories of GreptimeDB: keys of its objects, its manifests, and the index files they refer to.

Words: *table directory* → *region* (a shard, with an id) → *manifest* (which files it has) → *file*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.index.greptime.layout import DATA_DIRECTORY, RegionDir

__all__ = [
    "DATA_DIRECTORY",
    "RegionDir",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "layout": "DATA_DIRECTORY RegionDir",
    },
)
