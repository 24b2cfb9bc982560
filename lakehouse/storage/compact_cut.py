"""Division of a compaction task into key ranges, so that several processes can make its output.

Invariant: the ranges hold every key once, so that their outputs are one run together.
"""

from __future__ import annotations

from lakehouse.storage.compact_plan import CompactionTask
from lakehouse.storage.key_cut import LARGE, cut_files, pieces_of
from lakehouse.storage.scan import RunSource
from lakehouse.storage.sections import EVERY_KEY, KeyRange

__all__ = ["cut_task"]


async def cut_task(task: CompactionTask, source: RunSource, share_bytes: int) -> list[KeyRange]:
    """Returns the key ranges to divide a task into; for a large one the metadata of its files is read.

    Args:
        task: a task of a table with a key; tasks of other tables are small, and left whole.
        source: opens its files.
        share_bytes: bytes of files that a range should have.
    """
    # A file without bounds may hold any key: every range would have to read it.
    if task.size < LARGE * share_bytes or any(entry.min_key is None for entry in task.inputs):
        return [EVERY_KEY]
    return cut_files(task.inputs, share_bytes, await pieces_of(source, task.inputs))
