"""The write-ahead log: appended to, read as of a moment, turned into runs.

Words: *log* → *segment* (one object, some puts) → *tail* (segments that no snapshot covers) → *segment run*
(their rows, merged and in key order).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.wal.tail import Tail

__all__ = [
    "Tail",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "tail": "Tail",
    },
)
