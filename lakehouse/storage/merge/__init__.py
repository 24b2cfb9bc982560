"""Merging: the rows of one key become one row.

Words: *operand* (a row before it is merged) → *fold* (all operands of a key) → *row*. An *engine* says how;
a *group* is the rows of one key, side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.merge.ordering import kinds_of, merge_order, survivors

__all__ = ["kinds_of", "merge_order", "survivors"]

__getattr__, __dir__ = door(__name__, {"ordering": "kinds_of merge_order survivors"})
