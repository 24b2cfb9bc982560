"""Cutting a compaction task by ranges of keys, so that several processes can make its output.

Ranges end where pieces of the inputs begin, so that little is read twice: of each run, the piece across an
end. What every range's rows become is one run together, because their keys are apart.

Invariant: the ranges follow each other from no bound to no bound, so that every key is in exactly one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from lakehouse.io.fanout import map_bounded
from lakehouse.storage.compact_plan import CompactionTask
from lakehouse.storage.scan import RunSource
from lakehouse.storage.sections import EVERY_KEY, KeyRange

__all__ = ["cut_task", "key_ranges"]

_OPENS = 16
_LARGE = 1.5
"""A task is cut from so many shares on."""


async def cut_task(task: CompactionTask, source: RunSource, share_bytes: int) -> list[KeyRange]:
    """The ranges of keys that a task is best cut into; the metadata of its files is read if it is large.

    Args:
        task: of a table with a key; others are small, and left whole.
        source: opens its files.
        share_bytes: bytes of files that a range should have.
    """
    if task.size < _LARGE * share_bytes or any(one.min_key is None for one in task.inputs):
        return [EVERY_KEY]
    pieces: list[tuple[bytes, int]] = []
    async for reader in map_bounded(source.open, task.inputs, _OPENS, ordered=False):
        pieces += [(piece.min_key or b"", piece.size) for piece in reader.pieces]
    return key_ranges(pieces, share_bytes)


def key_ranges(pieces: Iterable[tuple[bytes, int]], share_bytes: int) -> list[KeyRange]:
    """Ranges of about equal size, none much larger than a share unless a piece is.

    Args:
        pieces: the first key and the size of each.
        share_bytes: what a range should have at most.
    """
    found = sorted(pieces)
    total = sum(size for _, size in found)
    count = max(1, -(-total // max(1, share_bytes)))
    cuts: list[bytes] = []
    before = 0
    for (key, size), (last, _) in zip(found, [(b"", 0), *found], strict=False):
        is_due = before * count >= total * (len(cuts) + 1)
        if is_due and key > last and len(cuts) + 1 < count:
            cuts.append(key)
        before += size
    return list(itertools.pairwise([None, *cuts, None]))
