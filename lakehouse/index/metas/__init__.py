"""Metadata of indexes, enumerated: one entry for each file, index and target, as values or rows.

Words: *source* (where index files come from) → *file* → *entry* (one index of it, one target) → *row* (an
entry in one of the *shapes*: compact, flat, GreptimeDB's). A *problem* is a file that could not be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.index.metas.enumerate import (
        Authorise,
        IndexMetaScan,
        ScanStats,
        iterate_index_metas,
        masked_location,
    )
    from lakehouse.index.metas.rows import COMPACT, RowShape
    from lakehouse.index.metas.sources import FileProblem, IndexFile, IsVisible

__all__ = [
    "COMPACT", "Authorise", "FileProblem", "IndexFile", "IndexMetaScan", "IsVisible", "RowShape",
    "ScanStats", "iterate_index_metas", "masked_location",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "enumerate": "Authorise IndexMetaScan ScanStats iterate_index_metas masked_location",
        "rows": "COMPACT RowShape",
        "sources": "FileProblem IndexFile IsVisible",
    },
)
