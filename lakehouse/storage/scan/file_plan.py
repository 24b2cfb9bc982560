"""Planner of scans: which files of a snapshot are read, and how much of them, decided without I/O.

The files of a merge unit are put into runs by their intervals, oldest first. Files that a condition
excludes are left out under the rule of pruning: a file without a wanted row may still hide older
rows, so that where it overlaps an older file that has wanted ones, its keys are read.

Where a merge engine folds rows, no row replaces another: the fold of a key's rows may match
though none of them does. So there a file is left out only if no other overlaps it.

Invariant: leaving a file out never changes the answer. Conditions on key columns judge all rows of
a key alike and so always exclude; conditions on other columns exclude under that rule alone.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lakehouse.expr.bounds import Verdict
from lakehouse.expr.columnar import VERDICTS
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.kernels.arrays import U8
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.metadata.run_order import Unit, apart, appended_order, key_ends, units_of

__all__ = [
    "REASONS",
    "FilePlan",
    "Judged",
    "PlannedFile",
    "PlannedUnit",
    "Prunes",
    "overlapping",
    "plan_files",
]

REASONS = ("stats", "partition", "index")
"""Sources of a verdict about a file."""


class Prunes(Protocol):
    """Judge of files and their pieces by a condition, which deleted rows never match."""

    def excludes_keys(self, entry: FileEntry) -> str | None:
        """Returns why no key matches (``partition``, ``bucket``, ``key range``); None = one may."""
        ...

    def judge(self, entry: FileEntry) -> tuple[Verdict, str]:
        """Returns whether rows of the file match, and the reason (``partition``, ``stats``, ``index``)."""
        ...

    def judge_all(self, entries: Sequence[FileEntry]) -> Judged:
        """Returns the verdict of :meth:`judge` for each file; never more is pruned than by it."""
        ...

    def excludes_piece(self, entry: FileEntry, piece: Piece) -> bool:
        """Returns whether no key of a piece of the file can match."""
        ...

    def judge_piece(self, entry: FileEntry, piece: Piece) -> Verdict:
        """Returns whether rows of a piece of the file match."""
        ...


class Judged:
    """Verdicts about many files, in their order.

    Args:
        verdicts: of each file the number in :data:`~lakehouse.expr.columnar.VERDICTS`.
        reasons: of each file the number in :data:`REASONS` of what the verdict comes from.
    """

    __slots__ = ("reasons", "verdicts")

    def __init__(self, verdicts: U8, reasons: U8) -> None:
        self.verdicts, self.reasons = verdicts, reasons

    @classmethod
    def of(cls, verdicts: Sequence[tuple[Verdict, str]]) -> Judged:
        """Returns verdicts that were made one by one."""
        numbers = [(VERDICTS.index(verdict), REASONS.index(reason)) for verdict, reason in verdicts]
        columns = np.array(numbers, np.uint8).reshape(-1, 2)
        return cls(columns[:, 0].copy(), columns[:, 1].copy())

    def __iter__(self) -> Iterator[tuple[Verdict, str]]:
        for verdict, reason in zip(self.verdicts.tolist(), self.reasons.tolist(), strict=True):
            yield VERDICTS[verdict], REASONS[reason]

    def kept(self) -> list[int]:
        """Returns the places of the files that have rows that may match."""
        return np.flatnonzero(self.verdicts).tolist()

    def pruned(self) -> dict[str, int]:
        """Returns the number of files that have none, by reason."""
        counts = np.bincount(self.reasons[self.verdicts == 0], minlength=len(REASONS)).tolist()
        return {reason: count for reason, count in zip(REASONS, counts, strict=True) if count}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A file that a scan reads."""

    entry: FileEntry
    age: int
    """Place of its run among the runs of the merge unit, oldest first, from 0."""
    wanted: bool = True
    """Whether rows of the file may match; else only its keys are read."""
    matches: bool = False
    """Whether all its rows are known to match."""
    alone: bool = False
    """Whether no other file that is read may have one of its keys."""

    @property
    def answered_by_stats(self) -> bool:
        """Whether the entry alone determines the rows that the scan returns, except for their values."""
        return self.alone and self.matches


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnit:
    """The files of one merge unit that are read, by first key (append-only tables: in order of commit)."""

    unit: Unit
    files: tuple[PlannedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """The files that a scan reads, and counts of the others."""

    units: tuple[PlannedUnit, ...]
    considered: int
    """Number of the snapshot's files."""
    pruned: dict[str, int]
    """Number of files left out, by reason: ``partition``, ``bucket``, ``key range``, ``stats``, ``index``."""

    @property
    def keys_only(self) -> int:
        """Number of files without a wanted row that are read because they may hide older rows."""
        return sum(not file.wanted for unit in self.units for file in unit.files)


def plan_files(entries: Sequence[FileEntry], schema: TableSchema, prunes: Prunes | None = None) -> FilePlan:
    """Plans a scan of these files, the live ones of one snapshot.

    Args:
        entries: the files, with their positions filled in.
        schema: the snapshot's schema.
        prunes: the condition; None = every row is wanted.
    """
    plan = _plan_keyed if schema.primary_key else _plan_appended
    pruned: dict[str, int] = {}
    return FilePlan(
        units=tuple(plan(entries, schema, prunes, pruned)), considered=len(entries), pruned=pruned
    )


def overlapping(files: Iterable[PlannedFile]) -> Iterator[list[PlannedFile]]:
    """Groups the files of a merge unit, given by first key, so that no two groups can share keys."""
    return apart(files, lambda file: key_ends(file.entry))


def _plan_appended(
    entries: Sequence[FileEntry], schema: TableSchema, prunes: Prunes | None, pruned: dict[str, int]
) -> Iterable[PlannedUnit]:
    """Plans files whose rows hide no others: whatever cannot match is left out."""
    if prunes is None:
        kept = [(entry, True) for entry in entries]
    else:
        judged = prunes.judge_all(entries)
        pruned |= judged.pruned()
        all_match = (judged.verdicts == VERDICTS.index(Verdict.ALL)).tolist()
        kept = [(entries[at], all_match[at]) for at in judged.kept()]
    # Sorted after they are chosen: of a million files a plan may keep one.
    kept.sort(key=lambda file: appended_order(file[0]))
    files = [PlannedFile(entry=entry, age=0, matches=matches, alone=True) for entry, matches in kept]
    if files:
        yield PlannedUnit(unit=((), 0), files=tuple(files))


def _plan_keyed(
    entries: Sequence[FileEntry], schema: TableSchema, prunes: Prunes | None, pruned: dict[str, int]
) -> Iterable[PlannedUnit]:
    kept = []
    for entry in entries:
        reason = prunes.excludes_keys(entry) if prunes else None
        if reason is None:
            kept.append(entry)
        else:
            _count(pruned, reason)
    plan_unit = _plan_folded if schema.merging.is_mergeable and prunes else _plan_unit
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
        for entry, (verdict, reason) in zip(run, _judged(run, prunes), strict=True):
            if verdict is not Verdict.NONE:
                wanted.append(entry)
                files.append(PlannedFile(entry=entry, age=age, matches=verdict is Verdict.ALL))
            # Its rows do not match, but they may replace rows of older files that do.
            elif any(ranges.overlap(entry) for ranges in older):
                files.append(PlannedFile(entry=entry, age=age, wanted=False))
            else:
                _count(pruned, reason)
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
        for entry, (verdict, reason) in zip(run, prunes.judge_all(run), strict=True):
            # One row's verdict decides nothing for its key when it is folded with rows of other files.
            is_folded = verdict is not Verdict.SOME and any(other_run.overlap(entry) for other_run in others)
            if verdict is Verdict.NONE and not is_folded:
                _count(pruned, reason)
            else:
                matches = verdict is Verdict.ALL and not is_folded
                files.append(PlannedFile(entry=entry, age=age, matches=matches))
    return files


def _judged(entries: Sequence[FileEntry], prunes: Prunes | None) -> Iterable[tuple[Verdict, str]]:
    return prunes.judge_all(entries) if prunes else [(Verdict.ALL, "")] * len(entries)


class _KeyRanges:
    """Key ranges of the files of a run; they may overlap where a run has files in several partitions."""

    __slots__ = ("_lows", "_reach")

    def __init__(self, files: Sequence[FileEntry]) -> None:
        self._lows = [file.min_key or b"" for file in files]
        # The greatest key of each file and those before it.
        self._reach = list(itertools.accumulate((file.max_key or b"" for file in files), max))

    def overlap(self, entry: FileEntry) -> bool:
        """Returns whether a file may have keys between the entry's first and last."""
        below = bisect.bisect_right(self._lows, entry.max_key or b"")
        return below > 0 and self._reach[below - 1] >= (entry.min_key or b"")


def _marked_alone(files: Sequence[PlannedFile]) -> Iterator[PlannedFile]:
    """Yields the files, given by first key, with those marked that overlap no other."""
    for group in overlapping(files):
        if len(group) == 1:
            yield dataclasses.replace(group[0], alone=True)
        else:
            yield from group


def _count(pruned: dict[str, int], reason: str) -> None:
    pruned[reason] = pruned.get(reason, 0) + 1
