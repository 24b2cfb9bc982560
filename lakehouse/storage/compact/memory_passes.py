"""Planner of compaction passes: which runs are merged beforehand, so that a merge fits into memory.

A merge holds, of every run that has rows about a key, the piece that reaches across it, and all those
pieces together are its largest section. Where that is more than memory allows, neighbouring runs are merged
first, the newest before the older ones, into files of small pieces, until the last merge fits. Decided
without I/O, from the entries of the files and the bytes of a row.

Invariant: groups are neighbours in the order of their intervals, so that merging them first changes no
answer; every group leaves fewer runs, so that the number of passes is bounded. If everything fits, there is
one merge.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakehouse.format.metadata import FileEntry, FileFormat
from lakehouse.storage.metadata.run_order import interval

__all__ = ["MergePass", "PassPlanner", "runs_in_order"]

_HELD_SHARE = 5
"""Pieces held at once may take one part in five of the memory; their merged rows take another."""
_WHOLE_SHARE = 0.4
"""Share of the memory up to which a merge of whole files fits, however many runs there are."""
_SSTABLE_PIECE_BYTES = 1024 * 1024
"""Rough bytes of a piece of an SSTable, in the file."""
_PIECE_ROWS_LEAST = 1024
"""Minimum rows of a piece: with fewer, its metadata costs more than it saves."""

_Run = list[FileEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePass:
    """Merges to be done before the rest is planned again."""

    groups: tuple[tuple[FileEntry, ...], ...]
    """Files of neighbouring runs, oldest first; each group becomes one run."""
    piece_rows: int
    """Maximum rows of a piece of the files that are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlanner:
    """Decides whether a merge fits into memory, and which merges to do first if it does not."""

    memory_bytes: float
    """Memory for the whole merge."""
    row_bytes: float
    """Memory that a row takes, in bytes."""
    piece_rows: int
    """Maximum rows of a piece of a Parquet file."""
    known: Mapping[str, int] = field(default_factory=dict)
    """Maximum rows of a piece for single files, by path, where they differ from ``piece_rows``."""

    def knowing(self, paths: Iterable[str], piece_rows: int) -> PassPlanner:
        """Returns a planner that also knows files whose pieces have so many rows at most."""
        return replace(self, known={**self.known, **dict.fromkeys(paths, piece_rows)})

    def fits(self, inputs: Iterable[FileEntry]) -> bool:
        """Returns whether the runs may be merged at once."""
        inputs = list(inputs)
        whole = sum(entry.rows for entry in inputs) * self.row_bytes
        return (
            whole <= _WHOLE_SHARE * self.memory_bytes or self.held(inputs) <= self.memory_bytes / _HELD_SHARE
        )

    def held(self, inputs: Iterable[FileEntry]) -> float:
        """Returns the bytes of all pieces that may reach across one key: at most one of each file."""
        ends: list[tuple[bytes, int, float]] = []
        for entry in inputs:
            size = self._piece_bytes(entry)
            ends.append((entry.min_key or b"", 0, size))
            ends.append((entry.max_key or b"", 1, -size))
        # At equal keys beginnings come first, since both ends belong to a file.
        ends.sort(key=lambda end: end[:2])
        return max(itertools.accumulate((size for _, _, size in ends), initial=0.0))

    def next_pass(self, inputs: Sequence[FileEntry]) -> MergePass | None:
        """Returns the merges to do before all is merged; None = none are needed.

        Args:
            inputs: files of neighbouring runs, in any order.
        """
        if self.fits(inputs):
            return None
        left = runs_in_order(inputs)
        if len(left) < 3:
            return None  # no fewer runs can be merged beforehand
        groups: list[tuple[FileEntry, ...]] = []
        # Half of the share: the merged runs' pieces are held beside those of the runs that are left.
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
        """Returns how many of the newest runs can be merged at once: two at least."""
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
    """Returns the files of each run, oldest run first."""
    ordered = sorted(inputs, key=lambda entry: (interval(entry), entry.min_key or b"", entry.path))
    return [list(run) for _, run in itertools.groupby(ordered, interval)]
