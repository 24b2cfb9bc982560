"""Cutting a compaction task by ranges of keys, so that several processes can make its output.

Invariant: the ranges hold every key once, so that what their rows become is one run together.
"""

from __future__ import annotations

from lakehouse.storage.compact.plan import CompactionTask
from lakehouse.storage.scan.scan import RunSource
from lakehouse.storage.scan.sections import EVERY_KEY, KeyRange
from lakehouse.storage.scan.work_ranges import LARGE, cut_files, pieces_of

__all__ = ["cut_task"]


async def cut_task(task: CompactionTask, source: RunSource, share_bytes: int) -> list[KeyRange]:
    """The ranges of keys that a task is best cut into; the metadata of its files is read if it is large.

    Args:
        task: of a table with a key; others are small, and left whole.
        source: opens its files.
        share_bytes: bytes of files that a range should have.
    """
    if task.size < LARGE * share_bytes or any(one.min_key is None for one in task.inputs):
        return [EVERY_KEY]
    return cut_files(task.inputs, share_bytes, await pieces_of(source, task.inputs))
