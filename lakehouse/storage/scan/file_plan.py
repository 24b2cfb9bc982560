"""Which files of a snapshot a scan reads, and how much of them: decided without I/O.

The files of a merge unit are put into runs by their intervals, oldest first. What a condition
excludes is left out under the rule of pruning: a file without a wanted row may still hide older
rows, so that where it overlaps an older file that has wanted ones, its keys are read.

Where a merge engine folds rows, none is a version that another replaces: what a key comes to may
match though no row of it does. So there a file is left out only if no other overlaps it.

Invariant: leaving a file out never changes the answer. Conditions on key columns judge all rows of
a key alike and so always exclude; conditions on other columns exclude under the rule alone.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakehouse.expr.bounds import Verdict
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.metadata.run_order import Unit, apart, appended_order, key_ends, units_of

__all__ = ["FilePlan", "PlannedFile", "PlannedUnit", "Prunes", "overlapping", "plan_files"]


class Prunes(Protocol):
    """What a condition says of files and their pieces; deleted rows never match it."""

    def excludes_keys(self, entry: FileEntry) -> str | None:
        """By what (``partition``, ``bucket``, ``key range``) no key of the file can match; None = one may."""
        ...

    def judge(self, entry: FileEntry) -> tuple[Verdict, str]:
        """Whether rows of the file match, and what tells (``partition``, ``stats``, ``index``)."""
        ...

    def excludes_piece(self, entry: FileEntry, piece: Piece) -> bool:
        """Whether no key of a piece of the file can match."""
        ...

    def judge_piece(self, entry: FileEntry, piece: Piece) -> Verdict:
        """Whether rows of a piece of the file match."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A file that is read."""

    entry: FileEntry
    age: int
    """Place of its run among those of the merge unit, oldest first."""
    wanted: bool = True
    """Whether rows of it may match; else only its keys are read."""
    matches: bool = False
    """Whether all its rows are known to match."""
    alone: bool = False
    """Whether no other file that is read may have one of its keys."""

    @property
    def told(self) -> bool:
        """Whether the entry tells which rows there will be, were it not for their values."""
        return self.alone and self.matches


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnit:
    """The files of one merge unit that are read, by first key (append-only tables: as they came)."""

    unit: Unit
    files: tuple[PlannedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """The files a scan reads, and what became of the others."""

    units: tuple[PlannedUnit, ...]
    considered: int
    pruned: dict[str, int]
    """How many files were left out, by what told that they can be."""

    @property
    def keys_only(self) -> int:
        """Files of which no row is wanted, read because they may hide older rows."""
        return sum(not file.wanted for unit in self.units for file in unit.files)


def plan_files(entries: Sequence[FileEntry], schema: TableSchema, prunes: Prunes | None = None) -> FilePlan:
    """The plan of a scan of these files, the live ones of one snapshot.

    Args:
        entries: with their positions filled in.
        schema: of the snapshot.
        prunes: the condition; None = every row is wanted.
    """
    plan = _plan_keyed if schema.primary_key else _plan_appended
    pruned: dict[str, int] = {}
    return FilePlan(
        units=tuple(plan(entries, schema, prunes, pruned)), considered=len(entries), pruned=pruned
    )


def overlapping(files: Iterable[PlannedFile]) -> Iterator[list[PlannedFile]]:
    """The files of a merge unit, by first key, in groups that share keys as far as their bounds tell."""
    return apart(files, lambda file: key_ends(file.entry))


def _plan_appended(
    entries: Sequence[FileEntry], schema: TableSchema, prunes: Prunes | None, pruned: dict[str, int]
) -> Iterable[PlannedUnit]:
    """Rows that no other hides: what cannot match is left out."""
    files = []
    for entry in sorted(entries, key=appended_order):
        verdict, told = prunes.judge(entry) if prunes else (Verdict.ALL, "")
        if verdict is Verdict.NONE:
            _count(pruned, told)
        else:
            files.append(PlannedFile(entry=entry, age=0, matches=verdict is Verdict.ALL, alone=True))
    if files:
        yield PlannedUnit(unit=((), 0), files=tuple(files))


def _plan_keyed(
    entries: Sequence[FileEntry], schema: TableSchema, prunes: Prunes | None, pruned: dict[str, int]
) -> Iterable[PlannedUnit]:
    kept = []
    for entry in entries:
        told = prunes.excludes_keys(entry) if prunes else None
        if told is None:
            kept.append(entry)
        else:
            _count(pruned, told)
    plan_unit = _plan_folded if schema.merging.folds and prunes else _plan_unit
    for unit, runs in units_of(kept, schema).items():
        files = plan_unit(runs, prunes, pruned)
        if files:
            files.sort(key=lambda file: (file.entry.min_key or b"", file.age))
            yield PlannedUnit(unit=unit, files=tuple(_marked_alone(files)))


def _plan_unit(
    runs: Sequence[Sequence[FileEntry]], prunes: Prunes | None, pruned: dict[str, int]
) -> list[PlannedFile]:
    files: list[PlannedFile] = []
    older: list[_KeyRanges] = []
    for age, run in enumerate(runs):
        wanted = []
        for entry in run:
            verdict, told = prunes.judge(entry) if prunes else (Verdict.ALL, "")
            if verdict is not Verdict.NONE:
                wanted.append(entry)
                files.append(PlannedFile(entry=entry, age=age, matches=verdict is Verdict.ALL))
            elif any(ranges.overlap(entry) for ranges in older):
                files.append(PlannedFile(entry=entry, age=age, wanted=False))
            else:
                _count(pruned, told)
        if wanted:
            older.append(_KeyRanges(wanted))
    return files


def _plan_folded(
    runs: Sequence[Sequence[FileEntry]], prunes: Prunes | None, pruned: dict[str, int]
) -> list[PlannedFile]:
    assert prunes is not None
    files: list[PlannedFile] = []
    ranges = [_KeyRanges(run) for run in runs]
    for age, run in enumerate(runs):
        others = ranges[:age] + ranges[age + 1 :]
        for entry in run:
            verdict, told = prunes.judge(entry)
            is_folded = verdict is not Verdict.SOME and any(one.overlap(entry) for one in others)
            if verdict is Verdict.NONE and not is_folded:
                _count(pruned, told)
            else:
                matches = verdict is Verdict.ALL and not is_folded
                files.append(PlannedFile(entry=entry, age=age, matches=matches))
    return files


class _KeyRanges:
    """The key ranges of the files of a run; they may overlap where a run has files in several partitions."""

    __slots__ = ("_lows", "_reach")

    def __init__(self, files: Sequence[FileEntry]) -> None:
        self._lows = [file.min_key or b"" for file in files]
        # The greatest key of each file and those before it.
        self._reach = list(itertools.accumulate((file.max_key or b"" for file in files), max))

    def overlap(self, entry: FileEntry) -> bool:
        """Whether a file has keys between the entry's first and last, as far as ranges tell."""
        below = bisect.bisect_right(self._lows, entry.max_key or b"")
        return below > 0 and self._reach[below - 1] >= (entry.min_key or b"")


def _marked_alone(files: Sequence[PlannedFile]) -> Iterator[PlannedFile]:
    """The files, by first key, with word of which overlap none of the others."""
    for group in overlapping(files):
        if len(group) == 1:
            yield dataclasses.replace(group[0], alone=True)
        else:
            yield from group


def _count(pruned: dict[str, int], told: str) -> None:
    pruned[told] = pruned.get(told, 0) + 1
