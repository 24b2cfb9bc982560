"""Plan of a compaction: universal compaction, decided without I/O.

The runs of a merge unit are considered from the newest to the oldest, as Paimon does. Once there are
``compaction.trigger`` of them, all are merged when the newer ones have outgrown the oldest (size
amplification); else the newest ones that are of about one size are (size ratio); else, above the trigger,
as many of the newest as bring their number down to it. A full compaction leaves one run of each unit.

In a table without a key nothing is merged: neighbouring small files of a partition are concatenated,
under the same rules.

Invariant: the runs of a task are neighbours in the order of their intervals, with no covered WAL segment
between them, and a file is in one task at most. A task drops deleted keys only when it has the oldest run of
its merge unit. Every task leaves fewer runs, or a run of a lower level, so that repeated planning ends. Plans
are values: they are sent to other processes.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakehouse.format.metadata import FileEntry, FileFormat, Level
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.storage.metadata.run_order import Interval, Unit, appended_order, hull, interval, units_of

__all__ = [
    "CompactionReason",
    "CompactionTask",
    "most_runs",
    "pick_runs",
    "plan_compaction",
    "plan_rewrite",
    "unit_to_compact",
]

_Run = Sequence[FileEntry]
_SMALL = 0.7
"""Share of the target size from which on a file of a table without a key is left alone."""


class CompactionReason(enum.StrEnum):
    """Reason why runs are compacted."""

    SIZE_AMPLIFICATION = "size amplification"
    """The newer runs together are large compared with the oldest."""
    SIZE_RATIO = "size ratio"
    """The newest runs are of about one size."""
    RUN_COUNT = "run count"
    """There are more runs than the trigger."""
    SMALL_FILES = "small files"
    """Files of a table without a key are far below their target size."""
    FULL = "full"
    """A caller asked for one run of each merge unit, or for a rewrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """Runs of one merge unit to merge into one run."""

    unit: Unit
    inputs: tuple[FileEntry, ...]
    """Files of the runs, positions filled in: the oldest run first, and by key within a run."""
    bottom: bool
    """True when the oldest run of the unit is among them, so that tombstones can be dropped."""
    reason: CompactionReason

    @property
    def interval(self) -> Interval:
        """Hull of the intervals of its runs, which is the interval of its output."""
        return hull(self.inputs)

    @property
    def runs(self) -> int:
        """Number of runs that it reads."""
        return len({interval(entry) for entry in self.inputs})

    @property
    def rows(self) -> int:
        """Number of rows of every kind that it reads."""
        return sum(entry.rows for entry in self.inputs)

    @property
    def size(self) -> int:
        """Bytes of the files that it reads."""
        return sum(entry.size for entry in self.inputs)


def unit_to_compact(entry: FileEntry, schema: TableSchema) -> Unit:
    """Returns the unit in which a file is compacted: its merge unit, or without a key its partition."""
    if not schema.primary_key:
        return entry.partition, 0
    return entry.partition if schema.key_holds_partition else (), entry.bucket


def most_runs(entries: Iterable[FileEntry], schema: TableSchema) -> int:
    """Returns the number of runs of the merge unit that has the most, to compare with the stop trigger."""
    intervals: dict[Unit, set[Interval]] = {}
    for entry in entries:
        intervals.setdefault(unit_to_compact(entry, schema), set()).add(interval(entry))
    return max(map(len, intervals.values()), default=0)


def plan_compaction(
    entries: Iterable[FileEntry],
    schema: TableSchema,
    options: TableOptions,
    *,
    covered: Sequence[Interval] = (),
    full: bool = False,
    holds: Callable[[tuple[bytes, ...]], bool] | None = None,
    units: Collection[Unit] | None = None,
) -> tuple[CompactionTask, ...]:
    """Plans the compaction of a snapshot; the tasks with the most bytes come first.

    Args:
        entries: live files of the snapshot, with their positions filled in.
        schema: schema of the snapshot.
        options: options of the table.
        covered: intervals of the covered WAL segments that no file holds, in order.
        full: leave one run of every merge unit, whatever it costs.
        holds: returns whether to consider a partition; None = all of them. Only for tables whose
            partitions have merge units of their own.
        units: units to consider; None = all of them.
    """
    files = [entry for entry in entries if entry.format is not FileFormat.WAL]
    if units is not None:
        files = [entry for entry in files if unit_to_compact(entry, schema) in units]
    if holds is not None:
        # Files share partitions: each is judged once.
        verdicts = {partition: holds(partition) for partition in {entry.partition for entry in files}}
        files = [entry for entry in files if verdicts[entry.partition]]
    if not schema.primary_key:
        tasks = list(_plan_appended(files, options, covered, full))
    elif {entry.total_buckets for entry in files} - {schema.buckets}:
        # In the middle of a change of buckets a unit does not hold all rows of its keys.
        tasks = []
    else:
        tasks = [
            task
            for unit, runs in units_of(files, schema).items()
            for task in _plan_unit(unit, runs, options, covered, full)
        ]
    return tuple(sorted(tasks, key=lambda task: task.size, reverse=True))


# --- tables with a key ----------------------------------------------------------------


def _plan_unit(
    unit: Unit, runs: Sequence[_Run], options: TableOptions, covered: Sequence[Interval], full: bool
) -> Iterator[CompactionTask]:
    oldest = interval(runs[0][0])[0]
    # A covered segment is a run too: below all files it is the unit's oldest run, and keeps tombstones alive.
    is_oldest_file = not covered or covered[0][0] > oldest
    for number, stretch in enumerate(_stretches(runs, covered)):
        bottom = number == 0 and is_oldest_file
        picked = _pick_all(stretch, bottom) if full else pick_runs(_sizes(stretch), options)
        if picked is not None:
            count, reason = picked
            yield CompactionTask(
                unit=unit,
                inputs=tuple(entry for run in stretch[len(stretch) - count :] for entry in run),
                bottom=bottom and count == len(stretch),
                reason=reason,
            )


def _stretches(runs: Sequence[_Run], covered: Sequence[Interval]) -> list[list[_Run]]:
    """Splits the runs, oldest first, where a covered segment lies between two of them."""
    lows = [low for low, _ in covered]
    stretches: list[list[_Run]] = []
    place = -1
    for run in runs:
        here = bisect.bisect_left(lows, interval(run[0])[0])
        if here != place:
            stretches.append([])
            place = here
        stretches[-1].append(run)
    return stretches


def _pick_all(runs: Sequence[_Run], bottom: bool) -> tuple[int, CompactionReason] | None:
    # A single run is rewritten once more if it may still hold tombstones.
    is_done = bottom and all(entry.level is Level.BOTTOM for entry in runs[0])
    if len(runs) > 1 or (bottom and not is_done):
        return len(runs), CompactionReason.FULL
    return None


def _sizes(runs: Sequence[_Run]) -> list[int]:
    return [sum(entry.size for entry in run) for run in runs]


def pick_runs(sizes: Sequence[int], options: TableOptions) -> tuple[int, CompactionReason] | None:
    """Returns how many of the newest runs to merge, and why; None = none.

    Args:
        sizes: bytes of every run, oldest first.
        options: triggers and ratios.
    """
    if len(sizes) < options.compaction_trigger:
        return None
    newer = sum(sizes[1:])
    if newer * 100 > options.compaction_max_size_amplification_percent * sizes[0]:
        return len(sizes), CompactionReason.SIZE_AMPLIFICATION
    count = _alike(sizes, 1, options)
    if count > 1:
        return count, CompactionReason.SIZE_RATIO
    if len(sizes) > options.compaction_trigger:
        # Merging n runs leaves n - 1 fewer, which brings the number down to the trigger.
        least = len(sizes) - options.compaction_trigger + 1
        return _alike(sizes, least, options), CompactionReason.RUN_COUNT
    return None


def _alike(sizes: Sequence[int], count: int, options: TableOptions) -> int:
    """Returns the number of newest runs, at least ``count``, up to an older one larger than all of them.

    An older run counts as larger when it exceeds them by more than the size ratio of the options.
    """
    together = sum(sizes[len(sizes) - count :])
    while count < len(sizes):
        older = sizes[-count - 1]
        if together * (100 + options.compaction_size_ratio_percent) < older * 100:
            break
        together += older
        count += 1
    return count


# --- tables without -------------------------------------------------------------------


def _plan_appended(
    files: Sequence[FileEntry], options: TableOptions, covered: Sequence[Interval], full: bool
) -> Iterator[CompactionTask]:
    partitions: dict[tuple[bytes, ...], list[FileEntry]] = {}
    for entry in sorted(files, key=appended_order):
        partitions.setdefault(entry.partition, []).append(entry)
    for partition, mine in sorted(partitions.items()):
        for stretch in _stretches(_same_place(mine), covered):
            for group in _fitting(stretch, options.file_target_bytes):
                picked = _pick_files(group, options, full)
                if picked is not None:
                    chosen = group[len(group) - picked[0] :]
                    yield CompactionTask(
                        unit=(partition, 0),
                        inputs=tuple(entry for run in chosen for entry in run),
                        bottom=False,
                        reason=picked[1],
                    )


def plan_rewrite(
    entries: Iterable[FileEntry],
    *,
    covered: Sequence[Interval] = (),
    holds: Callable[[tuple[bytes, ...]], bool] | None = None,
) -> tuple[CompactionTask, ...]:
    """Plans a rewrite of all files of each partition of a table without a key, in another order of rows.

    Args:
        entries: live files, with their positions filled in.
        covered: intervals of the covered WAL segments that no file holds, in order.
        holds: returns whether to rewrite a partition; None = all of them.
    """
    partitions: dict[tuple[bytes, ...], list[FileEntry]] = {}
    for entry in sorted(entries, key=appended_order):
        if entry.format is not FileFormat.WAL and (holds is None or holds(entry.partition)):
            partitions.setdefault(entry.partition, []).append(entry)
    tasks = [
        CompactionTask(
            unit=(partition, 0),
            inputs=tuple(entry for run in stretch for entry in run),
            bottom=False,
            reason=CompactionReason.FULL,
        )
        for partition, mine in partitions.items()
        for stretch in _stretches(_same_place(mine), covered)
    ]
    return tuple(sorted(tasks, key=lambda task: task.size, reverse=True))


def _same_place(files: Sequence[FileEntry]) -> list[_Run]:
    """Groups ordered files by their interval: the files of one interval are replaced together."""
    runs: list[list[FileEntry]] = []
    for entry in files:
        if runs and interval(runs[-1][0]) == interval(entry):
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return list(runs)


def _fitting(runs: Sequence[_Run], target: int) -> Iterator[list[_Run]]:
    """Yields groups of neighbouring small runs that together are no larger than a file should be."""
    group: list[_Run] = []
    room = target
    for run, size in zip(runs, _sizes(runs), strict=True):
        is_small = size < _SMALL * target
        if group and (size > room or not is_small):
            yield group
            group, room = [], target
        if is_small:
            group.append(run)
            room -= size
    if group:
        yield group


def _pick_files(
    group: Sequence[_Run], options: TableOptions, full: bool
) -> tuple[int, CompactionReason] | None:
    if full:
        return (len(group), CompactionReason.FULL) if len(group) > 1 else None
    picked = pick_runs(_sizes(group), options)
    return None if picked is None else (picked[0], CompactionReason.SMALL_FILES)
