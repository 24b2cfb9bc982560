"""Random histories of a table with expiry, sweeps, rescaling and compaction next to a dict per snapshot.

The store's clock is the test's, so that graces end when it says. Two processes take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Coroutine
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakehouse.errors import NotFoundError
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import Fault, FaultKind, FaultyStore, ManualClock, PowerCut, memory_store
from tests.kit.timed_store import TimedStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

T = TypeVar("T")
Rows = dict[tuple[int, str], dict[str, Any]]

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64()})
LAYOUTS: list[dict[str, Any]] = [
    {"primary_key": ["id"], "bucket": 2},
    {"primary_key": ["id", "part"], "partition_by": ["part"], "bucket": 3},
    {"primary_key": ["id"], "partition_by": ["part"]},
]
rows = st.lists(
    st.fixed_dictionaries({"id": st.integers(0, 9), "part": st.sampled_from("ab"), "v": st.integers(0, 3)}),
    min_size=1,
    max_size=5,
)
who = st.integers(0, 1)


class MaintainedTable(RuleBasedStateMachine):
    """A table that is kept small while it is used."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = TimedStore(memory_store())
        self.faulty = FaultyStore(self.store)
        self.key: tuple[str, ...] = ("id",)
        self.now: Rows = {}
        self.past: dict[int, Rows] = {}
        self.tags: dict[str, int] = {}
        self.names = 0
        self.earliest = 1
        self.garbage: set[str] = set()
        """Data files that calls which came to nothing may have left."""
        self.handles: list[Table] = []

    def teardown(self) -> None:
        """Ends the loop."""
        self.runner.close()

    def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs on the machine's own loop."""
        return self.runner.run(work)

    async def opened(self) -> Table:
        """A process that opens the table afresh."""
        return await Lake(stacked(self.faulty), clock=ManualClock()).table("db.t")

    @initialize(layout=st.sampled_from(LAYOUTS))
    def create(self, layout: dict[str, Any]) -> None:
        """An empty table, opened by two processes."""
        self.key = tuple(layout["primary_key"])

        async def work() -> None:
            lake = Lake(stacked(self.faulty), clock=ManualClock())
            await lake.create_database("db")
            await lake.create_table("db.t", SCHEMA, **layout)
            self.handles = [await self.opened(), await self.opened()]

        self.run_async(work())
        self.past[1] = {}

    def key_of(self, row: dict[str, Any]) -> tuple[int, str]:
        """What tells rows apart."""
        return row["id"], row["part"] if "part" in self.key else ""

    def remember(self, snapshot: int) -> None:
        """What the newest snapshot holds."""
        for number in range(max(self.past) + 1, snapshot):
            self.past[number] = dict(self.past[number - 1])
        self.past[snapshot] = dict(self.now)

    def retained(self) -> list[int]:
        """Snapshots that exist."""
        return sorted(one for one in self.past if one >= self.earliest or one in self.tags.values())

    # --- what users do ------------------------------------------------------------

    @rule(some=rows, who=who)
    def upsert(self, some: list[dict[str, Any]], who: int) -> None:
        """Rows replace those of their keys."""
        result = self.run_async(self.handles[who].upsert(some))
        self.now.update({self.key_of(row): row for row in some})
        self.remember(result.snapshot)

    @rule(v=st.integers(0, 3), who=who)
    def delete(self, v: int, who: int) -> None:
        """The rows that match are gone."""
        result = self.run_async(self.handles[who].delete(f"v = {v}"))
        self.now = {key: row for key, row in self.now.items() if row["v"] != v}
        if result.changed:
            self.remember(result.snapshot)

    @rule(some=rows, who=who)
    def overwrite(self, some: list[dict[str, Any]], who: int) -> None:
        """Nothing but the new rows is left."""
        result = self.run_async(self.handles[who].overwrite(some))
        self.now = {self.key_of(row): row for row in some}
        self.remember(result.snapshot)

    @rule(data=st.data(), who=who)
    def tag(self, data: st.DataObject, who: int) -> None:
        """A snapshot that has not expired can be tagged, no other."""
        number = data.draw(st.sampled_from(sorted(self.past)))
        name = f"t{self.names}"
        self.names += 1
        try:
            result = self.run_async(self.handles[who].create_tag(name, snapshot=number))
        except NotFoundError:
            assert number < self.earliest
            return
        assert number >= self.earliest
        self.tags[name] = number
        self.remember(result.snapshot)

    @precondition(lambda self: self.tags)
    @rule(data=st.data(), who=who)
    def untag(self, data: st.DataObject, who: int) -> None:
        """A tag that is gone keeps nothing."""
        name = data.draw(st.sampled_from(sorted(self.tags)))
        result = self.run_async(self.handles[who].delete_tag(name))
        del self.tags[name]
        self.remember(result.snapshot)

    @rule(data=st.data(), who=who)
    def rollback(self, data: st.DataObject, who: int) -> None:
        """A snapshot that exists becomes the newest."""
        number = data.draw(st.sampled_from(self.retained()))
        result = self.run_async(self.handles[who].rollback(snapshot=number))
        self.now = dict(self.past[number])
        self.remember(result.snapshot)

    # --- maintenance --------------------------------------------------------------

    @rule(minutes=st.sampled_from([10, 61, 24 * 61]))
    def time_passes(self, minutes: int) -> None:
        """The store's clock goes on."""
        self.store.advance(minutes * 60)

    @rule(retain=st.none() | st.integers(1, 5), grace=st.sampled_from([None, None, 0]), who=who)
    def expire(self, retain: int | None, grace: int | None, who: int) -> None:
        """Older snapshots are gone for readers; without a grace nothing of them is left."""
        newest = max(self.past)
        result = self.run_async(self.handles[who].expire_snapshots(retain=retain, grace_s=grace))
        if retain is not None:
            self.earliest = max(self.earliest, newest - retain + 1)
        assert result.earliest == self.earliest
        self.remember(result.snapshot)
        if grace == 0:
            self.run_async(self.check_garbage())

    async def check_garbage(self) -> None:
        """There is no object of a snapshot that does not exist."""
        table, needed = self.handles[0], set[str]()
        for number in self.retained():
            files = await (await table._table.view(snapshot=number)).files()
            needed |= {one.path for one in files}
        root = table._table.root
        keys = [one.key.removeprefix(root + "/") async for one in self.store.list(f"{root}/")]
        snapshots = {int(key[-20:]) for key in keys if key.startswith("snapshot/snapshot-")}
        assert snapshots == set(self.retained())
        orphans = {key for key in keys if key.startswith("data/")} - needed
        assert all(key in self.garbage for key in orphans), orphans - self.garbage

    @rule(who=who)
    def sweep(self, who: int) -> None:
        """Orphans older than a day are gone; nothing that a snapshot needs is."""
        root = self.handles[0]._table.root
        key = f"{root}/data/bucket-0/{uuid.uuid4()}.parquet"
        self.run_async(self.store.put(key, b"x"))
        self.store.advance(25 * 3600)
        result = self.run_async(self.handles[who].remove_orphans())
        self.remember(result.snapshot)
        assert not self.run_async(self.store.exists(key))
        self.garbage = set()

    @rule(buckets=st.integers(1, 4), who=who)
    def rescale(self, buckets: int, who: int) -> None:
        """Another number of buckets changes no answer."""
        result = self.run_async(self.handles[who].rescale(buckets))
        if result.changed:
            self.remember(result.snapshot)

    @rule(full=st.booleans(), who=who)
    def compact(self, full: bool, who: int) -> None:
        """Compaction changes no answer."""
        self.run_async(self.handles[who].compact(full=full))
        self.remember(self.run_async(self.handles[who].current_snapshot()))

    @rule(
        what=st.sampled_from(["expire", "sweep", "rescale"]),
        after=st.integers(0, 12),
        kind=st.sampled_from([FaultKind.POWER_CUT_BEFORE, FaultKind.POWER_CUT_AFTER]),
    )
    def crash(self, what: str, after: int, kind: FaultKind) -> None:
        """Maintenance that ends anywhere has lost nothing."""
        newest, table = max(self.past), self.handles[0]
        calls = {
            "expire": lambda: table.expire_snapshots(retain=2, grace_s=0),
            "sweep": table.remove_orphans,
            "rescale": lambda: table.rescale(5),
        }
        self.faulty.planned = [Fault(kind=kind, at=self.faulty.operations + after)]
        with contextlib.suppress(PowerCut):
            self.run_async(calls[what]())
        self.faulty.planned, self.faulty.power = [], True
        self.handles = [self.run_async(self.opened()) for _ in range(2)]
        head = self.run_async(self.handles[0]._table.snapshots.head()).snapshot
        if head.id > newest:
            self.remember(head.id)
        self.earliest = head.earliest
        if what == "rescale":
            keys = self.run_async(self.data_keys())
            self.garbage |= keys

    async def data_keys(self) -> set[str]:
        """Data files that there are."""
        root = self.handles[0]._table.root
        return {one.key.removeprefix(root + "/") async for one in self.store.list(f"{root}/data/")}

    # --- what must hold -----------------------------------------------------------

    @invariant()
    def newest_reads_as_the_model(self) -> None:
        """Also for a process that has written nothing of it."""
        if self.past:
            self.check(max(self.past))

    def check(self, number: int) -> None:
        """A snapshot holds what it held."""
        found = self.run_async(self.handles[1].scan(snapshot=number).to_pylist())
        assert sorted(found, key=self.key_of) == sorted(self.past[number].values(), key=self.key_of)

    @rule()
    def every_retained_snapshot_reads_as_the_model(self) -> None:
        """And no other can be read."""
        for number in self.past:
            if number in self.retained():
                self.check(number)
            else:
                with contextlib.suppress(NotFoundError):
                    self.run_async(self.handles[1].scan(snapshot=number).to_arrow())
                    raise AssertionError(f"snapshot {number} has expired and was read")

    @rule(deep=st.booleans())
    def it_verifies(self, deep: bool) -> None:
        """Nothing is damaged, whatever was done."""
        report = self.run_async(self.handles[0].verify(deep=deep))
        assert report.ok, str(report)


TestMaintainedTable = MaintainedTable.TestCase
TestMaintainedTable.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
