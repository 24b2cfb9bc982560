"""Clustering by executors: the files of append-only tables written anew in the order of some columns.

Tasks read files and cut their rows into ranges, whose bounds come from a sample; Spark's shuffle brings
the rows of a range together, as Arrow data that it looks at no further; a task for each range sorts and
writes them. Partitions are rewritten each for itself, and each takes its files' place or gives way, as a
compaction does: when a row of it was deleted meanwhile, the delete stays and the partition is as it was.

A table with a primary key is ordered by its key, and rows of a key are found by it, so there is nothing to
choose: ``compact(full=True)`` writes it anew.

Invariant: every row is there once, whatever was committed meanwhile, with the snapshot it came with. No
executor holds more rows than a range has, which a sample has sized.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import pyarrow as pa
from pyspark.sql import SparkSession

from lakehouse.errors import InternalError, InvalidInputError
from lakehouse.expr import Expr
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.io.cost import Cost, counting, measure
from lakehouse.io.work import ProgressCallback, in_thread
from lakehouse.spark.jobs.job import Job, TableAt, Tally, memory_of_task
from lakehouse.spark.runtime.connection import Connection
from lakehouse.spark.runtime.errors import carried, plain_errors
from lakehouse.spark.runtime.table_blobs import blobs, rows_of
from lakehouse.storage.compact import (
    ClusterOrder,
    CompactionTask,
    CompactResult,
    Curve,
    MergedCommits,
    MergedRuns,
    cut_at,
    parse_order,
    plan_rewrite,
    range_bounds,
    result_of_plan,
    rows_with_places,
    sampled,
    write_in_order,
)
from lakehouse.storage.files import UploadedFiles
from lakehouse.storage.metadata import Interval, covered_intervals
from lakehouse.storage.rows import RowSize, joined
from lakehouse.storage.scan import partition_test, to_expr
from lakehouse.storage.tables import OpenTable, View, check_count

__all__ = ["rewrite"]

_SAMPLED = 200
"""Rows sampled per range to find its bounds."""
_SAMPLED_LEAST = 8_192
"""Rows sampled per partition, at least."""
_READ_BYTES = 256 * 1024 * 1024
"""Bytes of files that a task reads, about."""
_RANGE_SHARE = 5
"""Parts of a task's memory, one of which is for the rows of a range: they are there as they came, in order
and encoded."""
_BLOB_BYTES = 8 * 1024 * 1024
"""Bytes of rows that are one value for Spark, about."""
_BATCH_RANGES = 16
"""Ranges of one shuffle, for each task that can run at once; more partitions follow in further ones."""
_ROWS = "range int, rows binary, cost binary"
"""Columns between tasks: a range, with rows of it (once it is written: its files) or the cost of a task."""
_ARROW = pa.schema({"range": pa.int32(), "rows": pa.binary(), "cost": pa.binary()})


def rewrite(
    spark: SparkSession,
    table: str,
    *,
    connection: Connection | None = None,
    sort_by: Sequence[str] | str | None = None,
    zorder_by: Sequence[str] | str | None = None,
    where: Expr | str | None = None,
    target_bytes: int | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> CompactResult:
    """Writes the files of an append-only table anew, in an order that lets scans leave out more of them.

    Args:
        spark: the session.
        table: ``db.table``, without a primary key.
        connection: the warehouse; None = the one that was registered.
        sort_by: columns; ``-name`` is descending.
        zorder_by: two to eight columns of equal weight, for conditions on any of them.
        where: a condition on partition columns; None = the whole table.
        target_bytes: size of files; None = the table's option ``file.target_bytes``.
        dry_run: only say what there is to do.
        progress: called with the number of rows that were read.

    Example::

        lakehouse.spark.rewrite(spark, "web.events", zorder_by=["user", "time"], where="day < '2026-01-01'")
    """
    job = Job(spark, table, connection, progress)
    check_count("target_bytes", target_bytes)
    view = job.call(job.core.newest)
    if view.schema.primary_key:
        raise InvalidInputError(
            f"{table} has a primary key, and its rows stand in the order of that: use compact(full=True) to "
            "write it anew, and indexes for conditions on other columns"
        )
    order = parse_order(view.schema, sort_by=sort_by, zorder_by=zorder_by)
    tasks = job.call(_planned, view, to_expr(where))
    if dry_run or not tasks:
        result = dataclasses.replace(result_of_plan(tasks, view.snapshot.id), dry_run=dry_run)
    else:
        with job.holding(view):
            result = _Rewrite(job, view, order, target_bytes).run(tasks)
    return dataclasses.replace(result, cost=job.cost)


async def _planned(view: View, where: Expr | None) -> tuple[CompactionTask, ...]:
    holds = None
    if where is not None:
        holds = partition_test(where, view.schema)
        if holds is None:
            raise InvalidInputError("rewrite takes a condition on partition columns alone")
    return plan_rewrite(await view.files(), covered=covered_intervals(view.snapshot), holds=holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file to be read."""

    entry: FileEntry
    number: int
    """Position of the file within its unit."""
    unit: int
    interval: Interval
    """Interval of the unit, which the new files take over."""
    sample_rows: int

    @property
    def rows(self) -> int:
        """Number of its rows."""
        return self.entry.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """A partition, and the bounds that cut its rows into ranges."""

    partition: tuple[bytes, ...]
    curve: Curve
    bounds: pa.Table
    first_range: int
    """Number of its first range among those of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shuffle:
    """Plan of one batch, as it travels to its tasks."""

    at: TableAt
    schema: TableSchema
    units: dict[int, _Unit]
    target_bytes: int | None
    slots: int

    def unit_of(self, number: int) -> _Unit:
        """Returns the unit that a range belongs to."""
        mine = [unit for unit in self.units.values() if unit.first_range <= number]
        return max(mine, key=attrgetter("first_range"))


class _Rewrite:
    """One rewrite, in the driver."""

    def __init__(self, job: Job, view: View, order: ClusterOrder, target_bytes: int | None) -> None:
        self._job, self._view, self._order, self._target = job, view, order, target_bytes
        self._range_bytes = job.task_memory() // _RANGE_SHARE
        self._commits = MergedCommits(job.core, view)

    def run(self, tasks: Sequence[CompactionTask]) -> CompactResult:
        """Samples, shuffles and commits."""
        counts = [self._ranges(task) for task in tasks]
        files = [self._files(at, task, counts[at]) for at, task in enumerate(tasks)]
        samples = self._samples(files)
        works, weights, batches = [], [], _batches(counts, self._job.slots * _BATCH_RANGES)
        for batch in batches:
            units, ranges = {}, 0
            for at in batch:
                curve = Curve.of(self._order, samples[at])
                bounds = range_bounds(curve, samples[at], counts[at])
                units[at] = _Unit(partition=tasks[at].unit[0], curve=curve, bounds=bounds, first_range=ranges)
                ranges += bounds.num_rows + 1
            mine = [file for at in batch for file in files[at]]
            works.append(partial(self._shuffled, self._shuffle(units), mine, ranges))
            weights.append(sum(tasks[at].rows for at in batch))

        def done(number: int, result: tuple[dict[int, UploadedFiles], Cost]) -> None:
            written, cost = result
            self._job.pay(cost)
            units = works[number].args[0].units
            merged = [_merged(tasks[at], units[at], written) for at in batches[number]]
            self._job.call(self._commits.commit, merged)

        self._job.watch("rewrite rows", works, weights, done)
        return self._commits.result()

    def _ranges(self, task: CompactionTask) -> int:
        """Returns how many ranges a partition has: each fits into memory and makes a file at least, about."""
        fields = self._view.schema.fields
        per_row = int(RowSize(fields, fields, task.inputs).bytes_per_row)
        target = self._target or self._view.options.file_target_bytes
        by_memory = -(-task.rows * per_row // self._range_bytes)
        return max(1, by_memory, task.size // target)

    def _files(self, unit: int, task: CompactionTask, ranges: int) -> list[_File]:
        wanted = max(_SAMPLED_LEAST, _SAMPLED * ranges)
        return [
            _File(
                entry=entry,
                number=number,
                unit=unit,
                interval=task.interval,
                sample_rows=max(1, wanted * entry.rows // max(1, task.rows)),
            )
            for number, entry in enumerate(task.inputs)
        ]

    def _samples(self, files: Sequence[Sequence[_File]]) -> list[pa.Table]:
        """Samples the rows of each unit, which show where to cut it."""
        samples: list[list[pa.Table]] = [[] for _ in files]

        def done(results: Sequence[tuple[int, list[list[pa.Table]]]]) -> None:
            for at, [tables] in results:
                for file, table in zip(groups[at], tables, strict=True):
                    samples[file.unit].append(table)

        groups = _grouped([file for of_unit in files for file in of_unit])
        work = partial(_sample, self._view.schema, self._order)
        self._job.run("sample files", work, [[group] for group in groups], done, weight=len)
        return [pa.concat_tables(tables) for tables in samples]

    def _shuffle(self, units: dict[int, _Unit]) -> _Shuffle:
        return _Shuffle(
            at=self._job.at,
            schema=self._view.schema,
            units=units,
            target_bytes=self._target,
            slots=self._job.slots_of_machine,
        )

    def _shuffled(
        self, shuffle: _Shuffle, files: Sequence[_File], ranges: int, tally: Tally
    ) -> tuple[dict[int, UploadedFiles], Cost]:
        """Reads and writes a batch; returns the files of each range, and the cost."""
        groups = _grouped(files)
        read = partial(_read_task, shuffle, groups, tally)
        rows = self._job.spark.range(0, len(groups), 1, len(groups)).mapInArrow(read, _ROWS)
        together = rows.repartitionById(ranges, "range").mapInArrow(partial(_write_task, shuffle), _ROWS)
        with plain_errors():
            outcomes = together.collect()
        written: dict[int, UploadedFiles] = {}
        cost = Cost()
        for row in outcomes:
            cost = cost + pickle.loads(bytes(row.cost))  # noqa: S301 - ours
            if row.rows is not None:
                written[row.range] = pickle.loads(bytes(row.rows))  # noqa: S301 - ours
        return written, cost


def _merged(task: CompactionTask, unit: _Unit, written: dict[int, UploadedFiles]) -> MergedRuns:
    """Returns the new files of a partition: its ranges in order, in the place of the files that were read."""
    numbers = range(unit.first_range, unit.first_range + unit.bounds.num_rows + 1)
    files = UploadedFiles.joined(written[number] for number in numbers if number in written)
    # The commit takes the old files away: rows that got lost on the way must not go unnoticed.
    if files.rows != task.rows:
        raise InternalError(
            f"{task.rows} rows of partition {task.unit[0]} became {files.rows}: nothing was committed"
        )
    lo, hi = task.interval
    entries = (dataclasses.replace(entry, run=run, lo=lo, hi=hi) for run, entry in enumerate(files.entries))
    return MergedRuns(task=task, files=dataclasses.replace(files, entries=tuple(entries)))


def _batches(counts: Sequence[int], most: int) -> list[list[int]]:
    """Divides units, by number and in order, into batches of ``most`` ranges; a larger unit is one alone."""
    batches: list[list[int]] = []
    ranges = most
    for number, count in enumerate(counts):
        if ranges + count > most:
            batches.append([])
            ranges = 0
        batches[-1].append(number)
        ranges += count
    return batches


def _grouped(files: Iterable[_File]) -> list[list[_File]]:
    """Groups files, in their order, by tasks."""
    groups: list[list[_File]] = []
    room = 0
    for file in files:
        if file.entry.size > room:
            groups.append([])
            room = _READ_BYTES
        groups[-1].append(file)
        room -= file.entry.size
    return groups


# --- in executors ---------------------------------------------------------------------


async def _sample(
    schema: TableSchema, order: ClusterOrder, table: OpenTable, files: Sequence[_File]
) -> list[pa.Table]:
    return [await sampled(table, schema, order, file.number, file.entry, file.sample_rows) for file in files]


def _read_task(
    shuffle: _Shuffle, groups: Sequence[Sequence[_File]], tally: Tally, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of some files, cut by ranges; runs in an executor."""
    with carried():
        house, table = shuffle.at.opened()
        memory = house.call(memory_of_task, table, shuffle.slots)
        for number in [value for batch in batches for value in batch.column(0).to_pylist()]:
            cost = Cost()
            gathered = _Gathered(memory // _RANGE_SHARE)
            for file in groups[number]:
                unit = shuffle.units[file.unit]
                with closing(
                    house.iterate(partial(_cut_rows, table, shuffle.schema, unit, file, memory, cost))
                ) as cuts:
                    for part, rows in cuts:
                        yield from gathered.add(part, rows)
            yield from gathered.rest()
            # A range that is sure to exist takes the cost to a task that writes.
            yield _row(shuffle.units[groups[number][0].unit].first_range, cost=pickle.dumps(cost))
            tally.add(sum(file.rows for file in groups[number]))


async def _cut_rows(
    table: OpenTable, schema: TableSchema, unit: _Unit, file: _File, memory: int, cost: Cost
) -> AsyncGenerator[tuple[int, pa.Table], None]:
    """Yields the rows of a file with the numbers of their ranges."""
    tables = rows_with_places(
        table,
        schema,
        file.number,
        file.entry,
        interval=file.interval,
        memory_bytes=memory // _RANGE_SHARE,
    )
    async with aclosing(tables):
        while True:
            with counting(cost):  # it must not count what happens between two tables
                arrow_rows = await anext(tables, None)
            if arrow_rows is None:
                return
            keyed = await in_thread(unit.curve.keyed, arrow_rows)
            for number, rows in await in_thread(_cut, unit, keyed):
                yield unit.first_range + number, rows


def _cut(unit: _Unit, rows: pa.Table) -> list[tuple[int, pa.Table]]:
    return list(cut_at(unit.curve, rows, unit.bounds))


class _Gathered:
    """Rows by ranges, on their way to Spark."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._size = 0
        self._tables: dict[int, list[pa.Table]] = {}

    def add(self, number: int, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Takes rows of a range; yields all there are when they exceed the room."""
        self._tables.setdefault(number, []).append(rows)
        self._size += rows.nbytes
        if self._size > self._room:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yields all rows there are, range by range."""
        tables, self._tables, self._size = self._tables, {}, 0
        for number in sorted(tables):
            # Popped, so that the rows of a range are freed as soon as they are handed on.
            together = pa.concat_tables(tables.pop(number))
            step = max(1, _BLOB_BYTES * together.num_rows // max(1, together.nbytes))
            for begin in range(0, together.num_rows, step):
                yield _row(number, rows=blobs([together.slice(begin, step)]))


def _write_task(shuffle: _Shuffle, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes the rows of a range; yields its files, and the cost of it and of what was read for it."""
    with carried():
        number, tables, cost = -1, [], Cost()
        for batch in batches:
            for place, rows, paid in zip(*(batch.column(at) for at in range(3)), strict=True):
                number = place.as_py()
                if paid.is_valid:
                    cost = cost + pickle.loads(paid.as_buffer())  # noqa: S301 - ours
                else:
                    tables.append(rows_of(rows.as_buffer()))
        if number < 0:
            return  # neither rows nor a cost came: no row is in this range
        written: bytes | None = None
        if tables:
            house, table = shuffle.at.opened()
            value, own = house.call(_write, table, shuffle, number, tables)
            written, cost = pickle.dumps(value), cost + own
        yield _row(number, rows=pa.array([written], pa.binary()), cost=pickle.dumps(cost))


async def _write(
    table: OpenTable, shuffle: _Shuffle, number: int, tables: list[pa.Table]
) -> tuple[UploadedFiles, Cost]:
    unit = shuffle.unit_of(number)
    options = TableOptions.parse(shuffle.schema.options)
    if shuffle.target_bytes is not None:
        options = dataclasses.replace(options, file_target_bytes=shuffle.target_bytes)
    with measure() as cost:
        rows = [await in_thread(_sorted, unit.curve, tables)]
        written = await write_in_order(table, shuffle.schema, options, unit.partition, rows)
    return written, cost


def _sorted(curve: Curve, tables: list[pa.Table]) -> pa.Table:
    """Returns all rows in order; empties the list, so that the rows are held once."""
    together = joined(tables)
    order = curve.sorted(together)
    return curve.bare(together).take(order)


def _row(number: int, *, rows: pa.BinaryArray | None = None, cost: bytes | None = None) -> pa.RecordBatch:
    columns = [
        pa.array([number], pa.int32()),
        pa.nulls(1, pa.binary()) if rows is None else rows,
        pa.array([cost], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
