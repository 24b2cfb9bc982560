"""Random histories of a table next to a dict per snapshot: every retained snapshot reads as the model.

Two processes take turns. Each builds on the head it knew last, so whenever the other one has committed
since, it loses the race for the next snapshot and comes second.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakehouse.config import Settings
from lakehouse.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.io import ObjectStore
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.commit.committer import Committed
from lakehouse.storage.compact.executor import ReplaceRuns
from lakehouse.storage.compact.plan import CompactionReason, CompactionTask
from lakehouse.storage.compact.run_merger import MergedRuns, merge_runs
from lakehouse.storage.metadata.run_order import Interval, covered_intervals, hull, units_of
from lakehouse.storage.table import Table
from lakehouse.testing import Fault, FaultKind, FaultyStore, PowerCut, memory_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

T = TypeVar("T")
Row = dict[str, Any]
Rows = dict[tuple[int, str], Row]

ONE_BY_ONE = Settings.resolve({"table.compaction_concurrency": 1})
"""Merge units of a compaction are committed apart: how many snapshots it makes does not depend on chance."""
PARTS = ("a", "b", "c")
LAYOUTS = [
    {"primary_key": ["id"]},
    {"primary_key": ["id"], "bucket": 3},
    {"primary_key": ["id", "part"], "partition_by": ["part"], "bucket": 2},
    {"primary_key": ["id"], "partition_by": ["part"], "bucket": 2},
]
FORMATS = [{}, {"file.format.level0": "sst"}]
SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64(), "s": pa.string()})

rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 6),
            "part": st.sampled_from(PARTS),
            "v": st.none() | st.integers(-3, 3),
            "s": st.none() | st.sampled_from(["", "x", "xy", "z"]),
        }
    ),
    min_size=1,
    max_size=5,
)

Predicate = tuple[str, Callable[[Row], bool | None]]
leaves: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(lambda n: (f"v > {n}", lambda r: None if r["v"] is None else r["v"] > n), st.integers(-3, 3)),
    st.builds(lambda n: (f"v = {n}", lambda r: None if r["v"] is None else r["v"] == n), st.integers(-3, 3)),
    st.builds(lambda n: (f"id <= {n}", lambda r: r["id"] <= n), st.integers(0, 6)),
    st.builds(lambda p: (f"part = '{p}'", lambda r: r["part"] == p), st.sampled_from(PARTS)),
    st.just(("v IS NULL", lambda r: r["v"] is None)),
    st.just(("s LIKE 'x%'", lambda r: None if r["s"] is None else r["s"].startswith("x"))),
)


def _both(one: Predicate, other: Predicate) -> Predicate:
    def holds(row: Row) -> bool | None:
        left, right = one[1](row), other[1](row)
        return False if left is False or right is False else (None if None in (left, right) else True)

    return f"({one[0]}) AND ({other[0]})", holds


def _either(one: Predicate, other: Predicate) -> Predicate:
    def holds(row: Row) -> bool | None:
        left, right = one[1](row), other[1](row)
        return True if left or right else (None if None in (left, right) else False)

    return f"({one[0]}) OR ({other[0]})", holds


def _not(one: Predicate) -> Predicate:
    def holds(row: Row) -> bool | None:
        found = one[1](row)
        return None if found is None else not found

    return f"NOT ({one[0]})", holds


predicates = st.recursive(
    leaves,
    lambda some: st.one_of(
        st.builds(_both, some, some), st.builds(_either, some, some), st.builds(_not, some)
    ),
    max_leaves=3,
)


def stretches(
    files: Sequence[FileEntry], schema: TableSchema, covered: Sequence[Interval]
) -> list[CompactionTask]:
    """Every way to merge neighbouring runs, whatever a planner would think of it."""
    found = []
    for unit, runs in units_of(files, schema).items():
        for first, last in itertools.combinations(range(len(runs) + 1), 2):
            inputs = tuple(one for run in runs[first:last] for one in run)
            lo, hi = hull(inputs)
            bottom = first == 0 and not any(high < lo for _, high in covered)
            if not any(low <= hi and high >= lo for low, high in covered):
                task = CompactionTask(unit=unit, inputs=inputs, bottom=bottom, reason=CompactionReason.FULL)
                found.append(task)
    return found


class TableHistory(RuleBasedStateMachine):
    """A table, and what each of its snapshots holds."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.inner: ObjectStore = memory_store()
        self.faulty = FaultyStore(self.inner)
        self.key: tuple[str, ...] = ("id",)
        self.now: Rows = {}
        self.columns = ["id", "part", "v", "s"]
        self.past: dict[int, tuple[list[str], Rows]] = {}
        self.tags: dict[str, int] = {}
        self.fresh_names = 0
        self.defaults: dict[str, int | None] = {}
        self.handles: list[Table] = []
        self.merged: list[MergedRuns] = []
        """Runs that were merged and not put in their place yet."""

    def teardown(self) -> None:
        """Ends the loop."""
        self.runner.close()

    def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs on the machine's own loop."""
        return self.runner.run(work)

    async def opened(self) -> Table:
        """A process that opens the table afresh."""
        return await Lake(stacked(self.faulty), settings=ONE_BY_ONE).table("db.t")

    @initialize(layout=st.sampled_from(LAYOUTS), options=st.sampled_from(FORMATS))
    def create(self, layout: dict[str, Any], options: dict[str, str]) -> None:
        """An empty table, opened by two processes."""
        self.key = tuple(layout["primary_key"])

        async def work() -> None:
            lake = Lake(stacked(self.faulty))
            await lake.create_database("db")
            await lake.create_table("db.t", SCHEMA, options=options, **layout)
            self.handles = [await self.opened(), await self.opened()]

        self.run_async(work())
        self.remember(1)

    def key_of(self, row: Row) -> tuple[int, str]:
        """What tells rows apart."""
        return row["id"], row["part"] if "part" in self.key else ""

    def remember(self, snapshot: int) -> None:
        """What the new snapshot holds."""
        self.past[snapshot] = (list(self.columns), {key: dict(row) for key, row in self.now.items()})

    def put(self, some: list[Row]) -> None:
        """Upserts into the model."""
        for row in some:
            full = {name: row.get(name, self.defaults.get(name)) for name in self.columns}
            self.now[self.key_of(row)] = full

    def known(self, some: list[Row]) -> list[Row]:
        """Rows with the columns there are."""
        return [{name: value for name, value in row.items() if name in self.columns} for row in some]

    @rule(some=rows, who=st.integers(0, 1))
    def upsert(self, some: list[Row], who: int) -> None:
        """Rows replace those of their keys, whichever process writes them."""
        result = self.run_async(self.handles[who].upsert(self.known(some), missing="null"))
        self.put(self.known(some))
        self.remember(result.snapshot)

    @rule(some=rows, who=st.integers(0, 1))
    def insert(self, some: list[Row], who: int) -> None:
        """Rows of new keys are added; a key that is there, or comes twice, refuses all."""
        keys = {self.key_of(row) for row in some}
        taken = keys & self.now.keys()
        try:
            result = self.run_async(self.handles[who].append(self.known(some), on_conflict="error"))
        except InvalidInputError:
            assert len(keys) < len(some)
            return
        except AlreadyExistsError:
            assert taken
            return
        assert not taken
        assert len(keys) == len(some)
        self.put(self.known(some))
        self.remember(result.snapshot)

    @rule(some=rows, who=st.integers(0, 1))
    def delete_keys(self, some: list[Row], who: int) -> None:
        """Keys are gone, whether they were there or not."""
        keys = [{name: row[name] for name in self.key} for row in some]
        result = self.run_async(self.handles[who].delete(keys=keys))
        for row in some:
            self.now.pop(self.key_of(row), None)
        self.remember(result.snapshot)

    @rule(predicate=predicates, who=st.integers(0, 1))
    def delete_where(self, predicate: Predicate, who: int) -> None:
        """The rows that match are gone, and no other."""
        text, holds = predicate
        if not self.speaks_of_columns(text):
            return
        result = self.run_async(self.handles[who].delete(text))
        doomed = [key for key, row in self.now.items() if holds(row)]
        for key in doomed:
            del self.now[key]
        if doomed:
            assert result.changed
        if result.changed:
            assert result.rows >= len(doomed)
            self.remember(result.snapshot)

    @rule(some=rows, who=st.integers(0, 1))
    def overwrite(self, some: list[Row], who: int) -> None:
        """Nothing but the new rows is left."""
        result = self.run_async(self.handles[who].overwrite(self.known(some)))
        self.now = {}
        self.put(self.known(some))
        self.remember(result.snapshot)

    @rule(some=rows, predicate=predicates, who=st.integers(0, 1))
    def overwrite_where(self, some: list[Row], predicate: Predicate, who: int) -> None:
        """The rows that match are replaced by rows that match."""
        text, holds = predicate
        if not self.speaks_of_columns(text):
            return
        fitting = self.known([row for row in some if holds(row)])
        result = self.run_async(self.handles[who].overwrite(fitting, text))
        self.now = {key: row for key, row in self.now.items() if not holds(row)}
        self.put(fitting)
        if result.changed:
            self.remember(result.snapshot)

    def speaks_of_columns(self, text: str) -> bool:
        """Whether the columns of a condition are all there."""
        return not any(name in text.split() or f"({name}" in text for name in {"v", "s"} - set(self.columns))

    @rule(default=st.none() | st.integers(0, 3))
    def add_column(self, default: int | None) -> None:
        """A new column has its default in old rows."""
        if len(self.columns) > 6:
            return
        self.fresh_names += 1
        name = f"c{self.fresh_names}"
        result = self.run_async(self.handles[0].add_column(name, "int", default=default))
        self.columns.append(name)
        for row in self.now.values():
            row[name] = default
        self.defaults[name] = default
        self.remember(result.snapshot)

    @precondition(lambda self: len(self.columns) > 4 or "s" in self.columns)
    @rule()
    def drop_column(self) -> None:
        """A dropped column is gone from newer snapshots and still there in older ones."""
        name = self.columns[-1]
        if name in ("id", "part", "v"):
            return
        result = self.run_async(self.handles[1].drop_column(name))
        self.columns.remove(name)
        for row in self.now.values():
            del row[name]
        self.remember(result.snapshot)

    @rule(data=st.data())
    def tag(self, data: st.DataObject) -> None:
        """A tag names a snapshot."""
        number = data.draw(st.sampled_from(sorted(self.past)))
        name = f"t{len(self.tags)}"
        result = self.run_async(self.handles[0].create_tag(name, snapshot=number))
        self.tags[name] = number
        self.remember(result.snapshot)

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        """An older state is the newest again, its columns included."""
        number = data.draw(st.sampled_from(sorted(self.past)))
        result = self.run_async(self.handles[1].rollback(snapshot=number))
        columns, held = self.past[number]
        self.columns, self.now = list(columns), {key: dict(row) for key, row in held.items()}
        self.remember(result.snapshot)

    @rule(data=st.data(), who=st.integers(0, 1), later=st.booleans())
    def merge_neighbours(self, data: st.DataObject, who: int, later: bool) -> None:
        """Some neighbouring runs of some merge unit are merged, and put in their place at once or later."""
        core = self.handles[who]._table

        async def tasks() -> list[CompactionTask]:
            view = await core.newest()
            return stretches(await view.files(), view.schema, covered_intervals(view.snapshot))

        found = self.run_async(tasks())
        if not found:
            return
        task = data.draw(st.sampled_from(found))

        async def merge() -> MergedRuns:
            view = await core.newest()
            where = core.env.store, core.root, view.schema, view.options
            return await merge_runs(*where, task, core, memory_bytes=1 << 20)

        self.merged.append(self.run_async(merge()))
        if not later:
            self.place_merged(len(self.merged) - 1, who)

    @precondition(lambda self: self.merged)
    @rule(data=st.data(), who=st.integers(0, 1))
    def place_some(self, data: st.DataObject, who: int) -> None:
        """Whatever others did since runs were merged, no answer changes when they are put in their place."""
        self.place_merged(data.draw(st.integers(0, len(self.merged) - 1)), who)

    def place_merged(self, number: int, who: int) -> None:
        """Commits a merge, or gives way."""
        merged, core = self.merged.pop(number), self.handles[who]._table

        async def work() -> Committed | None:
            view = await core.newest()
            change = ReplaceRuns([merged], view.schema)
            with contextlib.suppress(ConflictError):
                return await core.commit(change, view=view)
            return None

        done = self.run_async(work())
        if done is not None and done.changed:
            self.remember(done.snapshot.id)

    @rule(who=st.integers(0, 1), full=st.booleans())
    def compact(self, who: int, full: bool) -> None:
        """What the planner picks is compacted; in full, one run of inserts is left of each merge unit."""
        result = self.run_async(self.handles[who].compact(full=full))
        assert result.gave_way == 0
        if result.changed:
            assert result.commits <= result.units
            newest = self.run_async(self.handles[who].current_snapshot())
            for snapshot in range(newest - result.commits + 1, newest + 1):
                self.remember(snapshot)

    @rule(who=st.integers(0, 1))
    def reopen(self, who: int) -> None:
        """A process ends, and another one opens the table."""
        self.handles[who] = self.run_async(self.opened())

    @rule(
        some=rows,
        after=st.integers(0, 5),
        kind=st.sampled_from([FaultKind.POWER_CUT_BEFORE, FaultKind.POWER_CUT_AFTER]),
    )
    def crash(self, some: list[Row], after: int, kind: FaultKind) -> None:
        """A process that ends in the middle of a write has made all of it visible, or nothing."""
        self.faulty.planned = [Fault(kind=kind, at=self.faulty.operations + after)]
        snapshot = None
        with contextlib.suppress(PowerCut):
            snapshot = self.run_async(self.handles[0].upsert(self.known(some), missing="null")).snapshot
        self.faulty.planned, self.faulty.power = [], True
        self.handles = [self.run_async(self.opened()) for _ in range(2)]
        newest = self.run_async(self.handles[0].current_snapshot())
        assert snapshot in (None, newest)
        if newest > max(self.past):
            self.put(self.known(some))
            self.remember(newest)

    # --- what must hold ---------------------------------------------------------------

    async def check(
        self, read: Callable[[], Awaitable[pa.Table]], columns: list[str], wanted: list[Row]
    ) -> None:
        """A reading has these columns and rows, in whatever order."""
        found = await read()
        assert found.column_names == columns
        order = sorted(columns)
        as_key = lambda row: repr([row[name] for name in order])  # noqa: E731
        assert sorted(found.to_pylist(), key=as_key) == sorted(wanted, key=as_key)

    @invariant()
    def newest_reads_as_the_model(self) -> None:
        """Also for a process that has written nothing of it."""
        if self.past:
            scan = self.handles[1].scan()
            self.run_async(self.check(scan.to_arrow, self.columns, list(self.now.values())))

    @rule(data=st.data())
    def some_snapshot_reads_as_the_model(self, data: st.DataObject) -> None:
        """A snapshot reads the same for ever."""
        number = data.draw(st.sampled_from(sorted(self.past)))
        columns, held = self.past[number]
        scan = self.handles[0].scan(snapshot=number)
        self.run_async(self.check(scan.to_arrow, columns, list(held.values())))

    @rule(predicate=predicates, data=st.data())
    def conditions_select_rows(self, predicate: Predicate, data: st.DataObject) -> None:
        """A condition on whatever columns finds exactly the rows that match, in any snapshot."""
        number = data.draw(st.sampled_from(sorted(self.past)))
        columns, held = self.past[number]
        text, holds = predicate
        if "s" not in columns and "s LIKE" in text:
            return
        wanted = [row for row in held.values() if holds(row)]
        scan = self.handles[0].scan(text, snapshot=number)
        self.run_async(self.check(scan.to_arrow, columns, wanted))

    @rule(some=rows)
    def keys_find_rows(self, some: list[Row]) -> None:
        """A key finds its row, or none."""
        for row in some:
            key = {name: row[name] for name in self.key}
            found = self.run_async(self.handles[1].get(key))
            assert found == self.now.get(self.key_of(row))

    @rule(data=st.data())
    def changes_are_net(self, data: st.DataObject) -> None:
        """Changes between two snapshots are what differs between their rows."""
        start = data.draw(st.sampled_from(sorted(self.past)))
        end = data.draw(st.sampled_from([n for n in sorted(self.past) if n >= start]))
        columns = self.past[end][0]

        def seen(number: int) -> Rows:
            names, held = self.past[number]
            return {
                key: {name: row.get(name) if name in names else None for name in columns}
                for key, row in held.items()
            }

        if self.past[start][0] != columns:
            return

        async def work() -> list[Row]:
            tables = [table async for table in self.handles[0].changes(start, end)]
            return [row for table in tables for row in table.to_pylist()]

        before, after = seen(start), seen(end)
        wanted = [{**row, "_change": "insert"} for key, row in after.items() if key not in before]
        wanted += [{**row, "_change": "delete"} for key, row in before.items() if key not in after]
        for key in before.keys() & after.keys():
            if before[key] != after[key]:
                wanted += [
                    {**before[key], "_change": "update_before"},
                    {**after[key], "_change": "update_after"},
                ]
        found = self.run_async(work())
        assert sorted(found, key=repr) == sorted(wanted, key=repr)

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def tags_find_snapshots(self, data: st.DataObject) -> None:
        """A tag reads as the snapshot it names; one that is not there is an error."""
        name = data.draw(st.sampled_from(sorted(self.tags)))
        columns, held = self.past[self.tags[name]]
        scan = self.handles[0].scan(tag=name)
        self.run_async(self.check(scan.to_arrow, columns, list(held.values())))
        with contextlib.suppress(NotFoundError):
            self.run_async(self.handles[0].scan(tag="nobody").to_arrow())
            raise AssertionError("a tag that was never made was found")


TestTableHistory = TableHistory.TestCase
TestTableHistory.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
