"""Building of indexes: rows become the blobs of one puffin file.

Words: *spec* (what to build, and how) → *target* (what an index is about) → *target rows* (its values).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.index.building.builder import IndexSpec, PuffinIndexBuilder
    from lakehouse.index.building.target_rows import wide_type

__all__ = [
    "IndexSpec", "PuffinIndexBuilder", "wide_type",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "builder": "IndexSpec PuffinIndexBuilder",
        "target_rows": "wide_type",
    },
)
