"""Division of planned files into shares of about equal size, which several readers work on.

Invariant: every byte range of every file is in exactly one share, and a share is never empty.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from lakehouse.errors import InvalidInputError
from lakehouse.iceberg.planning.tasks import ScanTask

__all__ = ["SplitSizes", "shares"]

_TARGET, _OPEN_COST = 128 << 20, 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSizes:
    """Sizes that decide what is read together; the names are those of Iceberg's table properties."""

    target: int = _TARGET
    """Bytes of a share (``read.split.target-size``)."""
    open_cost: int = _OPEN_COST
    """Least weight of a file, for the time that opening it takes (``read.split.open-file-cost``)."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Returns what a table's properties say, else Iceberg's defaults; what is no size is ignored."""
        given = (properties.get(f"read.split.{name}", "") for name in ("target-size", "open-file-cost"))
        target, open_cost = (int(text) if text.isdecimal() else None for text in given)
        return cls(target=target or _TARGET, open_cost=_OPEN_COST if open_cost is None else open_cost)

    def __post_init__(self) -> None:
        if self.target < 1 or self.open_cost < 0:
            raise InvalidInputError(
                f"splits have a target size from 1 and an open cost from 0, not {self.target} and "
                f"{self.open_cost}"
            )


def shares(tasks: Iterable[ScanTask], sizes: SplitSizes) -> list[tuple[ScanTask, ...]]:
    """Groups tasks, those of large files divided, in the order in which they were planned."""
    found: list[tuple[ScanTask, ...]] = []
    gathered: list[ScanTask] = []
    weight = 0
    for task in tasks:
        for part in _divided(task, sizes.target):
            more = max(_length(part), sizes.open_cost)
            if gathered and weight + more > sizes.target:
                found.append(tuple(gathered))
                gathered, weight = [], 0
            gathered.append(part)
            weight += more
    return [*found, tuple(gathered)] if gathered else found


def _divided(task: ScanTask, target: int) -> Iterator[ScanTask]:
    size = _length(task)
    if size <= target:
        yield task
        return
    begin, end = task.start, task.start + size
    for cut in _cuts(task.split_offsets, begin, end, target):
        yield replace(task, start=begin, length=cut - begin)
        begin = cut
    yield replace(task, start=begin, length=end - begin)


def _cuts(offsets: Sequence[int], begin: int, end: int, target: int) -> Iterator[int]:
    """Yields the places to cut at: where row groups begin when that is known, else every target size."""
    while end - begin > target:
        begin += target
        if offsets:
            # The last row group that begins within the share starts the next one, unless it is the only one.
            at = bisect.bisect_right(offsets, begin) - 1
            if at < 0 or offsets[at] <= begin - target:
                at += 1
            if at >= len(offsets):
                return
            begin = offsets[at]
        if begin >= end:
            return
        yield begin


def _length(task: ScanTask) -> int:
    return task.size - task.start if task.length is None else task.length
