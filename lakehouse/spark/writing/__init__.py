"""Writes of data frames: rows are brought together by key, tasks upload, the driver commits once.

Words: *frame* → *shuffle* (rows of a bucket or a range of keys come together) → *task* (writes files) →
*message* (word of them) → *commit*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.spark.writing.frame_write import write

__all__ = [
    "write",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "frame_write": "write",
    },
)
