"""Search of a file's indexes: which rows may match a condition, for few requests.

Words: *condition* (on a target) → *probe* (what an index is asked) → *round* (probes that are read
together) → *selection* (rows that may match). A *tree* is conditions under and and or.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.index.search.file_indexes import FileIndexes, FileIndexReader
    from lakehouse.index.search.probes import plan
    from lakehouse.index.search.rounds import ProbeRounds
    from lakehouse.index.search.selection import RowSelection
    from lakehouse.index.search.target_conditions import HasWords, Holds, conditions
    from lakehouse.index.search.tree import ANY_ROW, NO_ROW, Every, Some, Tree, every, leaves, some

__all__ = [
    "ANY_ROW", "NO_ROW", "Every", "FileIndexReader", "FileIndexes", "HasWords", "Holds", "ProbeRounds",
    "RowSelection", "Some", "Tree", "conditions", "every", "leaves", "plan", "some",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "file_indexes": "FileIndexReader FileIndexes",
        "probes": "plan",
        "rounds": "ProbeRounds",
        "selection": "RowSelection",
        "target_conditions": "HasWords Holds conditions",
        "tree": "ANY_ROW NO_ROW Every Some Tree every leaves some",
    },
)
