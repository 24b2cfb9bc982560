"""Files of a snapshot, with columns beside them: what a plan of a million files looks at.

The entries of a manifest never change, and most plans look at all of them and keep few. So what plans look
at is collected once for each manifest, as arrays, and the entries are only touched when they are kept.

Invariant: a column says of each entry what the entry says.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.metadata.stats_table import StatsColumn, stats_columns
from lakehouse.kernels.arrays import I64, Mask

__all__ = ["ColumnarEntries", "LiveFiles"]

_PART_MIN = 256
"""Number of entries from which on a manifest is worth columns of its own."""


class ColumnarEntries(tuple[FileEntry, ...]):
    """Entries of a manifest, with columns that are made when they are first asked for."""

    def __init__(self, _: Iterable[FileEntry]) -> None:
        self._live_rows: I64 | None = None
        self._partitions: tuple[I64, list[tuple[bytes, ...]]] | None = None
        self._stats: dict[int, StatsColumn] = {}

    @property
    def live_rows(self) -> I64:
        """Rows of each file without those that delete."""
        if self._live_rows is None:
            self._live_rows = np.array([entry.rows - entry.deletes for entry in self], np.int64)
        return self._live_rows

    @property
    def partitions(self) -> tuple[I64, list[tuple[bytes, ...]]]:
        """For each file the number of its partition, and the partitions."""
        if self._partitions is None:
            numbers: dict[tuple[bytes, ...], int] = {}
            of_files = [numbers.setdefault(entry.partition, len(numbers)) for entry in self]
            self._partitions = np.array(of_files, np.int64), list(numbers)
        return self._partitions

    def stats(self, field: int) -> StatsColumn:
        """Statistics of a field in each file."""
        column = self._stats.get(field)
        if column is None:
            found = stats_columns([entry.stats for entry in self], [field])
            column = self._stats[field] = found[field]
        return column

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


class LiveFiles(Sequence[FileEntry]):
    """Files in a fixed order, and the manifests that they are from; nothing of these is copied.

    Args:
        parts: entries, and which of them are meant; None = all.
    """

    __slots__ = ("_ends", "_kept", "_parts")

    def __init__(self, parts: Sequence[tuple[Sequence[FileEntry], Mask | None]]) -> None:
        self._parts = tuple(parts)
        self._kept = [
            entries if mask is None else [entries[at] for at in np.flatnonzero(mask).tolist()]
            for entries, mask in parts
        ]
        self._ends = list(itertools.accumulate(map(len, self._kept)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[FileEntry]:
        return itertools.chain.from_iterable(self._kept)

    @overload
    def __getitem__(self, at: int) -> FileEntry: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[FileEntry, ...]: ...
    def __getitem__(self, at: int | slice) -> FileEntry | tuple[FileEntry, ...]:
        if isinstance(at, slice):
            return tuple(self)[at]
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(f"there are {len(self)} files, and none with number {at}")
        part = bisect.bisect_right(self._ends, place)
        return self._kept[part][place - (self._ends[part - 1] if part else 0)]

    def with_more(self, entries: Sequence[FileEntry]) -> LiveFiles:
        """Returns these files and others behind them."""
        return LiveFiles([*self._parts, (entries, None)]) if entries else self

    def parts(self) -> Iterator[tuple[ColumnarEntries, Mask | None]]:
        """Yields neighbouring files that have columns together, and which of them are meant; None = all."""
        few: list[FileEntry] = []
        for (entries, mask), kept in zip(self._parts, self._kept, strict=True):
            if isinstance(entries, ColumnarEntries) and len(entries) >= _PART_MIN:
                if few:
                    yield ColumnarEntries(few), None
                    few = []
                yield entries, mask
            else:
                few += kept
        if few:
            yield ColumnarEntries(few), None

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)
