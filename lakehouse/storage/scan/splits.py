"""Division of a scan's plan into splits, which several processes read independently.

Runs that overlap stay together. Where that is too much for one split, it is cut by keys, between pieces of
the files where these are known and else between files; a file that overlaps no other is cut by rows. Small
groups share a split, across merge units too. Where pieces have been judged by the condition as well, only
those that it keeps count.

Invariant: every row that the scan would return is returned by exactly one split, with all rows that may
hide it or be folded into it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.storage.files.reader import (
    EVERY_KEY,
    EVERY_ROW,
    KeyRange,
    Piece,
    RowRange,
    RunSource,
    has_keys,
)
from lakehouse.storage.scan.file_plan import PlannedFile, PlannedUnit, overlapping
from lakehouse.storage.scan.work_ranges import LARGE, OPENED_MAX, cut_files, opened_pieces, piece_sizes

__all__ = ["Pieces", "Split", "files_to_open", "opened_splits", "plan_splits", "planned_bytes"]

Pieces: TypeAlias = Mapping[str, Sequence[Piece]]
"""Pieces of a file that take part, by its path; a file without an entry is read whole."""

_ROWS_MIN = 16_384
"""Minimum rows of a split that is cut by rows: no piece for scans has fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Share of a scan that one process reads."""

    entries: tuple[FileEntry, ...]
    keys: KeyRange = EVERY_KEY
    """Range of keys to return."""
    rows: RowRange = EVERY_ROW
    """Range of row numbers whose pieces are read, where there is one file only."""
    size: int
    """Estimated bytes of files that are read."""


def planned_bytes(units: Iterable[PlannedUnit], pieces: Pieces) -> int:
    """Returns the bytes of files that a plan reads."""
    return sum(_size(unit.files, pieces) for unit in units)


async def opened_splits(
    units: Sequence[PlannedUnit],
    split_bytes: int,
    source: RunSource,
    schema: TableSchema,
    *,
    pieces: Pieces | None = None,
) -> list[Split]:
    """Plans splits; looks up the pieces of files that are to be cut by keys."""
    known = pieces or {}
    opened = await opened_pieces(source, schema, files_to_open(units, split_bytes, pieces=known))
    return plan_splits(units, split_bytes, pieces={**opened, **known})


def plan_splits(
    units: Iterable[PlannedUnit], split_bytes: int, *, pieces: Pieces | None = None
) -> list[Split]:
    """Plans splits, in the order of the plan's files.

    Args:
        units: the files that the scan reads.
        split_bytes: target size of a split, in bytes of files.
        pieces: known pieces of files, judged by the condition or looked up because files overlap; see
            :func:`files_to_open`.
    """
    known = pieces or {}
    splits: list[Split] = []
    gathered: list[FileEntry] = []
    size = passed = place = 0

    def close() -> None:
        nonlocal size
        if gathered:
            splits.append(Split(entries=tuple(gathered), size=size))
            gathered.clear()
            size = 0

    for unit in units:
        for group in overlapping(unit.files):
            # A file of which the condition leaves no piece is not read at all.
            group = [file for file in group if known.get(file.entry.path) != []]
            more = _size(group, known)
            if more > LARGE * split_bytes:
                close()
                passed = place = 0
                splits += _cut(group, split_bytes, known)
                continue
            # A group belongs where its middle falls: splits are about equal, and no small one is left over.
            middle = (passed + more // 2) // split_bytes
            if middle > place:
                close()
                place = middle
            gathered += [file.entry for file in group]
            size += more
            passed += more
    close()
    return splits


def files_to_open(
    units: Iterable[PlannedUnit], split_bytes: int, *, pieces: Pieces | None = None
) -> list[FileEntry]:
    """Returns the files whose pieces decide where to cut: groups of few files with too many bytes."""
    known = pieces or {}
    return [
        file.entry
        for unit in units
        for group in overlapping(unit.files)
        if 1 < len(group) <= OPENED_MAX and _size(group, known) > LARGE * split_bytes
        for file in group
        if file.entry.path not in known
    ]


def _size(files: Iterable[PlannedFile], pieces: Pieces) -> int:
    return sum(_file_size(file.entry, pieces) for file in files)


def _file_size(entry: FileEntry, pieces: Pieces) -> int:
    known = pieces.get(entry.path)
    return entry.size if known is None else sum(piece.size for piece in known)


def _cut(group: Sequence[PlannedFile], split_bytes: int, pieces: Pieces) -> Iterator[Split]:
    """Divides a group that is too large into several splits."""
    entries = [file.entry for file in group]
    if len(entries) == 1:
        yield from _cut_file(entries[0], split_bytes, pieces.get(entries[0].path))
        return
    total = _size(group, pieces)
    begins = {entry.path: piece_sizes(pieces[entry.path]) for entry in entries if entry.path in pieces}
    ranges = cut_files(entries, split_bytes, begins)
    for keys in ranges:
        inside = tuple(entry for entry in entries if has_keys(entry, keys))
        yield Split(entries=inside, keys=keys, size=total // len(ranges))


def _cut_file(entry: FileEntry, split_bytes: int, pieces: Sequence[Piece] | None) -> Iterator[Split]:
    """Divides a file that overlaps no other: by its pieces where they are known, else by rows."""
    size = entry.size if pieces is None else sum(piece.size for piece in pieces)
    count = max(1, min(round(size / split_bytes), entry.rows // _ROWS_MIN))
    if pieces is None:
        begins = [entry.rows * number // count for number in range(count)]
    else:
        before = np.cumsum([0, *(piece.size for piece in pieces[:-1])])
        places = np.searchsorted(before, [size * number // count for number in range(count)])
        # A large piece may get several cuts; it is not divided.
        begins = [pieces[at].first_row for at in dict.fromkeys(places.tolist()) if at < len(pieces)]
    for begin, end in itertools.pairwise([*begins, EVERY_ROW[1]]):
        yield Split(entries=(entry,), rows=(begin, end), size=size // len(begins))
