"""Cutting the plan of a scan into splits, which several processes read each by itself.

Runs that overlap stay together. Where that is too much for one split, it is cut by keys, between pieces of
the files where these are known and else between files; a file that overlaps no other is cut by rows. What is
small is put together, across merge units too.

Invariant: every row that the scan would return is returned by exactly one split, with all that may hide it
or be folded into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.format.file_entry import FileEntry
from lakehouse.storage.key_cut import LARGE, OPENED_MAX, PieceSizes, cut_files, pieces_of
from lakehouse.storage.plan import PlannedFile, PlannedUnit, overlapping
from lakehouse.storage.runs import EVERY_ROW, RowRange
from lakehouse.storage.scan import RunSource
from lakehouse.storage.sections import EVERY_KEY, KeyRange, has_keys

__all__ = ["Split", "files_to_open", "opened_splits", "plan_splits"]

_ROWS_MIN = 16_384
"""Rows that a cut by rows leaves at least: no piece for scans has fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What one process reads."""

    entries: tuple[FileEntry, ...]
    keys: KeyRange = EVERY_KEY
    """Only rows with these keys."""
    rows: RowRange = EVERY_ROW
    """Only these pieces of the one file."""
    size: int
    """About how many bytes of files are read."""


async def opened_splits(units: Sequence[PlannedUnit], split_bytes: int, source: RunSource) -> list[Split]:
    """The splits of a plan; of files that are to be cut by keys, the pieces are looked up."""
    pieces = await pieces_of(source, files_to_open(units, split_bytes))
    return plan_splits(units, split_bytes, pieces=pieces)


def plan_splits(
    units: Iterable[PlannedUnit], split_bytes: int, *, pieces: Mapping[str, PieceSizes] | None = None
) -> list[Split]:
    """The splits of a plan, in the order of its files.

    Args:
        units: what the scan reads.
        split_bytes: about how many bytes of files a split has.
        pieces: by path, of files that overlap others; see :func:`files_to_open`.
    """
    found: list[Split] = []
    gathered: list[FileEntry] = []
    size = 0

    def close() -> None:
        nonlocal size
        if gathered:
            found.append(Split(entries=tuple(gathered), size=size))
            gathered.clear()
            size = 0

    for unit in units:
        for group in overlapping(unit.files):
            more = _size(group)
            if more > LARGE * split_bytes:
                close()
                found += _cut(group, split_bytes, pieces or {})
                continue
            if gathered and size + more > split_bytes:
                close()
            gathered += [file.entry for file in group]
            size += more
    close()
    return found


def files_to_open(units: Iterable[PlannedUnit], split_bytes: int) -> list[FileEntry]:
    """Files whose pieces tell where to cut: those of groups with few files and too many bytes."""
    return [
        file.entry
        for unit in units
        for group in overlapping(unit.files)
        if 1 < len(group) <= OPENED_MAX and _size(group) > LARGE * split_bytes
        for file in group
    ]


def _size(files: Iterable[PlannedFile]) -> int:
    return sum(file.entry.size for file in files)


def _cut(group: Sequence[PlannedFile], split_bytes: int, pieces: Mapping[str, PieceSizes]) -> Iterator[Split]:
    """A group that is too large, in several splits."""
    entries = [file.entry for file in group]
    if len(entries) == 1:
        yield from _cut_file(entries[0], split_bytes)
        return
    total = sum(entry.size for entry in entries)
    ranges = cut_files(entries, split_bytes, pieces)
    for keys in ranges:
        inside = tuple(one for one in entries if has_keys(one, keys))
        yield Split(entries=inside, keys=keys, size=total // len(ranges))


def _cut_file(entry: FileEntry, split_bytes: int) -> Iterator[Split]:
    count = max(1, min(round(entry.size / split_bytes), entry.rows // _ROWS_MIN))
    for number in range(count):
        begin, end = entry.rows * number // count, entry.rows * (number + 1) // count
        rows = (begin, end if number + 1 < count else EVERY_ROW[1])
        yield Split(entries=(entry,), rows=rows, size=entry.size // count)
