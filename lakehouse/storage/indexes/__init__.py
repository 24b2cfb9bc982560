"""Index files of data files: built with them, opened, and asked which rows may match.

Words: *definition* (of the schema) → *index file* (of one data file) → *question* (a condition) → *answer*
(the rows of each file that may match).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.indexes.index_source_choice import SourceKind, source_kind
    from lakehouse.storage.indexes.search import IndexAnswers, IndexQuestion

__all__ = [
    "IndexAnswers", "IndexQuestion", "SourceKind", "source_kind",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "index_source_choice": "SourceKind source_kind",
        "search": "IndexAnswers IndexQuestion",
    },
)
