"""Which runs of a table to put together: universal compaction, decided without I/O.

A merge unit's runs are looked at from the newest to the oldest, as Paimon does. Once there are
``compaction.trigger`` of them, all are merged when the newer ones have outgrown the oldest (size
amplification); else the newest ones that are of about one size are (size ratio); else, above the trigger,
as many of the newest as bring their number down to it. A full compaction leaves one run of each unit.

In a table without a key nothing is merged: neighbouring small files of a partition are put together,
under the same rules.

Invariant: the runs of a task are neighbours in the order of their intervals, with no covered WAL segment
between them, and a file is in one task at most. A task says that it drops deleted keys only when it has the
oldest run of its merge unit. Every task leaves fewer runs, or a run of a lower level, so that planning again
and again comes to an end. Plans are values: they travel to other processes.
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
"""Files of a table without a key are left alone from this share of the target size on."""


class CompactionReason(enum.StrEnum):
    """Why runs are put together."""

    SIZE_AMPLIFICATION = "size amplification"
    """The newer runs together are large beside the oldest."""
    SIZE_RATIO = "size ratio"
    """The newest runs are of about one size."""
    RUN_COUNT = "run count"
    """There are more runs than the trigger."""
    SMALL_FILES = "small files"
    """Files of a table without a key are far below their target size."""
    FULL = "full"
    """Somebody asked for one run of each merge unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """Runs of one merge unit that are to become one run."""

    unit: Unit
    inputs: tuple[FileEntry, ...]
    """With their positions filled in: the oldest run first, and by key within one."""
    bottom: bool
    """Whether the oldest run of the unit is among them, so that deleted keys need not be remembered."""
    reason: CompactionReason

    @property
    def interval(self) -> Interval:
        """The hull of the intervals of its runs, which is the interval of its output."""
        return hull(self.inputs)

    @property
    def runs(self) -> int:
        """How many runs it reads."""
        return len({interval(one) for one in self.inputs})

    @property
    def rows(self) -> int:
        """Rows of every kind that it reads."""
        return sum(one.rows for one in self.inputs)

    @property
    def size(self) -> int:
        """Bytes of the files that it reads."""
        return sum(one.size for one in self.inputs)


def unit_to_compact(entry: FileEntry, schema: TableSchema) -> Unit:
    """Which files are compacted together: those of a merge unit, and without a key of a partition."""
    if not schema.primary_key:
        return entry.partition, 0
    return entry.partition if schema.key_holds_partition else (), entry.bucket


def most_runs(entries: Iterable[FileEntry], schema: TableSchema) -> int:
    """The number of runs of the merge unit that has the most: what a stop trigger is compared with."""
    found: dict[Unit, set[Interval]] = {}
    for entry in entries:
        found.setdefault(unit_to_compact(entry, schema), set()).add(interval(entry))
    return max(map(len, found.values()), default=0)


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
    """What to compact in a snapshot, the units with the most bytes first.

    Args:
        entries: its live files, with their positions filled in.
        schema: of the snapshot.
        options: of the table.
        covered: where WAL segments stand that it covers; in order.
        full: whether to leave one run of every merge unit, whatever it costs.
        holds: whether a partition is to be looked at; None = all of them. Only where partitions have
            merge units of their own.
        units: those to be looked at; None = all of them.
    """
    files = [one for one in entries if one.format is not FileFormat.WAL]
    if units is not None:
        files = [one for one in files if unit_to_compact(one, schema) in units]
    if holds is not None:
        verdicts = {partition: holds(partition) for partition in {one.partition for one in files}}
        files = [one for one in files if verdicts[one.partition]]
    if not schema.primary_key:
        tasks = list(_plan_appended(files, options, covered, full))
    elif {one.total_buckets for one in files} - {schema.buckets}:
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
    is_oldest_file = not covered or covered[0][0] > oldest
    for number, stretch in enumerate(_stretches(runs, covered)):
        bottom = number == 0 and is_oldest_file
        picked = _pick_all(stretch, bottom) if full else pick_runs(_sizes(stretch), options)
        if picked is not None:
            count, reason = picked
            yield CompactionTask(
                unit=unit,
                inputs=tuple(one for run in stretch[len(stretch) - count :] for one in run),
                bottom=bottom and count == len(stretch),
                reason=reason,
            )


def _stretches(runs: Sequence[_Run], covered: Sequence[Interval]) -> list[list[_Run]]:
    """The runs, oldest first, cut where a covered segment stands between two of them."""
    lows = [low for low, _ in covered]
    found: list[list[_Run]] = []
    place = -1
    for run in runs:
        here = bisect.bisect_left(lows, interval(run[0])[0])
        if here != place:
            found.append([])
            place = here
        found[-1].append(run)
    return found


def _pick_all(runs: Sequence[_Run], bottom: bool) -> tuple[int, CompactionReason] | None:
    is_done = bottom and all(one.level is Level.BOTTOM for one in runs[0])
    if len(runs) > 1 or (bottom and not is_done):
        return len(runs), CompactionReason.FULL
    return None


def _sizes(runs: Sequence[_Run]) -> list[int]:
    return [sum(one.size for one in run) for run in runs]


def pick_runs(sizes: Sequence[int], options: TableOptions) -> tuple[int, CompactionReason] | None:
    """How many of the newest runs to merge and why, given the sizes of all, oldest first; None = none."""
    if len(sizes) < options.compaction_trigger:
        return None
    newer = sum(sizes[1:])
    if newer * 100 > options.compaction_max_size_amplification_percent * sizes[0]:
        return len(sizes), CompactionReason.SIZE_AMPLIFICATION
    count = _alike(sizes, 1, options)
    if count > 1:
        return count, CompactionReason.SIZE_RATIO
    if len(sizes) > options.compaction_trigger:
        least = len(sizes) - options.compaction_trigger + 1
        return _alike(sizes, least, options), CompactionReason.RUN_COUNT
    return None


def _alike(sizes: Sequence[int], count: int, options: TableOptions) -> int:
    """How many of the newest runs, ``count`` at least, until an older one is larger than all of them."""
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
    for one in sorted(files, key=appended_order):
        partitions.setdefault(one.partition, []).append(one)
    for partition, mine in sorted(partitions.items()):
        for stretch in _stretches(_same_place(mine), covered):
            for group in _fitting(stretch, options.file_target_bytes):
                picked = _pick_files(group, options, full)
                if picked is not None:
                    chosen = group[len(group) - picked[0] :]
                    yield CompactionTask(
                        unit=(partition, 0),
                        inputs=tuple(one for run in chosen for one in run),
                        bottom=False,
                        reason=picked[1],
                    )


def plan_rewrite(
    entries: Iterable[FileEntry],
    *,
    covered: Sequence[Interval] = (),
    holds: Callable[[tuple[bytes, ...]], bool] | None = None,
) -> tuple[CompactionTask, ...]:
    """All files of each partition of a table without a key, to be written anew in another order.

    Args:
        entries: live files, with their positions filled in.
        covered: where WAL segments stand that the snapshot covers; in order.
        holds: whether a partition is to be looked at; None = all of them.
    """
    partitions: dict[tuple[bytes, ...], list[FileEntry]] = {}
    for one in sorted(entries, key=appended_order):
        if one.format is not FileFormat.WAL and (holds is None or holds(one.partition)):
            partitions.setdefault(one.partition, []).append(one)
    tasks = [
        CompactionTask(
            unit=(partition, 0),
            inputs=tuple(one for run in stretch for one in run),
            bottom=False,
            reason=CompactionReason.FULL,
        )
        for partition, mine in partitions.items()
        for stretch in _stretches(_same_place(mine), covered)
    ]
    return tuple(sorted(tasks, key=lambda task: task.size, reverse=True))


def _same_place(files: Sequence[FileEntry]) -> list[_Run]:
    """Files in order, those with one interval together: nothing may be put between them."""
    found: list[list[FileEntry]] = []
    for one in files:
        if found and interval(found[-1][0]) == interval(one):
            found[-1].append(one)
        else:
            found.append([one])
    return list(found)


def _fitting(runs: Sequence[_Run], target: int) -> Iterator[list[_Run]]:
    """Neighbours that are small and together no larger than a file should be."""
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
