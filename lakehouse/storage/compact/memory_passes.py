"""Which runs of a compaction are merged beforehand, so that memory need not hold a piece of each at once.

A merge holds, of every run that has rows about a key, the piece that reaches across it, and all those
pieces together are its largest section. Where that is more than memory allows, neighbouring runs are merged
first, the newest before the older ones, into files of small pieces, until a last merge of what there is then
fits. Decided without I/O, from the entries of the files and what a row takes.

Invariant: groups are neighbours in the order of their intervals, so that merging them first changes no
answer; every group leaves fewer runs, so that passes come to an end. What fits is left to one merge.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakehouse.format.metadata import FileEntry, FileFormat
from lakehouse.storage.metadata.run_order import interval

__all__ = ["MergePass", "PassPlanner", "runs_in_order"]

_HELD_SHARE = 5
"""Pieces held at once may take one part in five of the memory; what is made of them takes another."""
_WHOLE_SHARE = 0.4
"""A merge of no more than such a part of the memory fits, however many runs there are."""
_SSTABLE_PIECE_BYTES = 1024 * 1024
"""About what a piece of an SSTable has of its file."""
_PIECE_ROWS_LEAST = 1024
"""Pieces with fewer rows are not worth their metadata."""

_Run = list[FileEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePass:
    """Merges to be done before the next look at what there is."""

    groups: tuple[tuple[FileEntry, ...], ...]
    """The files of neighbouring runs, oldest first: of each group one run is to be made."""
    piece_rows: int
    """Rows of a piece of the files that are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlanner:
    """Looks whether a merge fits into memory, and what to do first if it does not."""

    memory_bytes: float
    row_bytes: float
    """What a row takes in memory."""
    piece_rows: int
    """Most rows of a piece of a Parquet file."""
    known: Mapping[str, int] = field(default_factory=dict)
    """The same of single files, by path."""

    def knowing(self, paths: Iterable[str], piece_rows: int) -> PassPlanner:
        """The same, with files whose pieces have so many rows at most."""
        return replace(self, known={**self.known, **dict.fromkeys(paths, piece_rows)})

    def fits(self, inputs: Iterable[FileEntry]) -> bool:
        """Whether the runs may be merged at once."""
        inputs = list(inputs)
        whole = sum(one.rows for one in inputs) * self.row_bytes
        return (
            whole <= _WHOLE_SHARE * self.memory_bytes or self.held(inputs) <= self.memory_bytes / _HELD_SHARE
        )

    def held(self, inputs: Iterable[FileEntry]) -> float:
        """Bytes of all pieces that may reach across one key: at most one of each file that has the key."""
        ends: list[tuple[bytes, int, float]] = []
        for one in inputs:
            size = self._piece_bytes(one)
            ends.append((one.min_key or b"", 0, size))
            ends.append((one.max_key or b"", 1, -size))
        ends.sort(key=lambda end: end[:2])
        return max(itertools.accumulate((size for _, _, size in ends), initial=0.0))

    def next_pass(self, inputs: Sequence[FileEntry]) -> MergePass | None:
        """What to merge before all is merged; None = nothing.

        Args:
            inputs: files of neighbouring runs, in any order.
        """
        if self.fits(inputs):
            return None
        left = runs_in_order(inputs)
        if len(left) < 3:
            return None  # no fewer runs can be merged beforehand
        groups: list[tuple[FileEntry, ...]] = []
        room = self.memory_bytes / _HELD_SHARE / 2
        while len(left) > 1 and (not groups or self.held(itertools.chain(*left)) > room):
            count = self._fitting_runs(left)
            groups.insert(0, tuple(itertools.chain(*left[-count:])))
            del left[-count:]
        if not left and len(groups) == 1:
            return None  # they are merged at once as soon as beforehand
        rows = max(_PIECE_ROWS_LEAST, int(room / len(groups) / self.row_bytes))
        return MergePass(groups=tuple(groups), piece_rows=min(rows, self.piece_rows))

    def _fitting_runs(self, runs: Sequence[_Run]) -> int:
        """How many of the newest runs can be merged at once: two at least."""
        count, files = 2, [*runs[-2], *runs[-1]]
        while count < len(runs) and self.fits(files := [*runs[-count - 1], *files]):
            count += 1
        return count

    def _piece_bytes(self, entry: FileEntry) -> float:
        rows = entry.rows
        if entry.format is FileFormat.SSTABLE:
            rows = min(rows, 1 + rows * _SSTABLE_PIECE_BYTES // max(1, entry.size))
        else:
            rows = min(rows, self.known.get(entry.path, self.piece_rows))
        return rows * self.row_bytes


def runs_in_order(inputs: Iterable[FileEntry]) -> list[_Run]:
    """The files of each run, oldest run first."""
    ordered = sorted(inputs, key=lambda one: (interval(one), one.min_key or b"", one.path))
    return [list(run) for _, run in itertools.groupby(ordered, interval)]
