"""Random histories of a table with a streaming writer: acknowledged rows and snapshots, next to a model.

The model is one sequence of what was acknowledged. A snapshot holds what came before it, as far as its
``wal`` says, so that flushes and compactions, which come when they like, can be judged as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakehouse.config import Settings
from lakehouse.errors import AlreadyExistsError, FencedError, InvalidInputError, LakehouseError
from lakehouse.format.metadata.snapshot import CommitKind
from lakehouse.io import ObjectStore
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.storage.write.streaming_writer import TableWriter
from lakehouse.testing import Fault, FaultKind, FaultyStore, PowerCut, memory_store
from tests.kit.streaming import vanish
from tests.kit.streaming_model import WORLDS, Kept, Layout, Row, State
from tests.models.test_table_model import Predicate, predicates, rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

T = TypeVar("T")
SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64(), "s": pa.string()})
SETTINGS = Settings.resolve({"table.compaction_concurrency": 1})
OPTIONS: list[dict[str, str]] = [
    {},
    {"wal.segments_max": "2"},
    {"write.memtable_bytes": "1024", "file.format.level0": "sst", "wal.compression": "zstd"},
]
SILENT = (CommitKind.FLUSH, CommitKind.WAL, CommitKind.COMPACT)
"""Commits that change no row."""
CUTS = st.sampled_from([FaultKind.POWER_CUT_BEFORE, FaultKind.POWER_CUT_AFTER])
who = st.integers(0, 1)
chance = st.integers(0, 1_000)
"""Picks a snapshot; how many there are may depend on when a flush came."""
groups = st.lists(st.tuples(st.booleans(), rows), min_size=1, max_size=4)
"""Puts, or deletes of keys, that follow each other closely."""


class StreamedTable(RuleBasedStateMachine):
    """A table, its writer, and what each of its snapshots holds."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.inner: ObjectStore = memory_store()
        self.handles: list[Table] = []
        """Two processes that write, each on the head it knew last, and one that reads."""
        self.writer: TableWriter | None = None
        self.writer_store = FaultyStore(self.inner)
        self.fenced: list[TableWriter] = []
        self.state = State(WORLDS[0])
        """With every row that was acknowledged."""
        self.past: dict[int, State] = {}
        self.segments: dict[int, State] = {}
        """After each segment of the log."""
        self.upto: dict[int, int] = {}
        """How far each snapshot covers the log."""
        self.tags: dict[str, int] = {}
        self.earliest = 1
        self.names = 0

    def teardown(self) -> None:
        """Every snapshot there is reads as it did, nothing is damaged, and all of it ends."""
        try:
            if self.past:
                for number in self.retained():
                    self.run_async(self.check_snapshot(number))
                report = self.run_async(self.reader.verify(deep=True))
                assert report.ok, report
        finally:
            for writer in [*self.fenced, *([self.writer] if self.writer else [])]:
                self.run_async(vanish(writer))
            self.runner.close()

    def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs on the machine's own loop."""
        return self.runner.run(work)

    @property
    def reader(self) -> Table:
        """The process that reads."""
        return self.handles[2]

    async def opened(self, store: ObjectStore | None = None) -> Table:
        """A process that opens the table afresh."""
        return await Lake(stacked(store or self.inner), settings=SETTINGS).table("db.t")

    @initialize(layout=st.sampled_from(WORLDS), options=st.sampled_from(OPTIONS))
    def create(self, layout: Layout, options: dict[str, str]) -> None:
        """An empty table, opened by two processes."""
        self.state = State(layout)
        table = {**layout.table, "options": {**layout.table.get("options", {}), **options}}

        async def work() -> None:
            lake = Lake(stacked(self.inner), settings=SETTINGS)
            await lake.create_database("db")
            await lake.create_table("db.t", SCHEMA, **table)
            self.handles = [await self.opened() for _ in range(3)]

        self.run_async(work())
        self.committed(1)

    # --- the model ----------------------------------------------------------------

    def committed(self, snapshot: int) -> None:
        """A commit of ours came behind all that was acknowledged."""
        self.past[snapshot] = self.state.copy()

    def acknowledged(self, segment: int) -> None:
        """A segment is there, and what was put up to it."""
        self.segments[segment] = self.state.copy()

    @invariant()
    def find_silent_commits(self) -> None:
        """Flushes and compactions read as the model at the place up to which they cover the log."""
        if not self.past:
            return

        async def work() -> None:
            session = self.writer._session if self.writer is not None else None
            while session is not None and (session._memtables.waiting or session._inherited):
                assert session._failure is None
                await asyncio.sleep(0.001)
            table = await self.opened()
            core = table._table
            head = (await core.newest()).snapshot
            for number in range(1, head.id + 1):
                if number in self.upto:
                    continue
                snapshot = await core.snapshots.snapshot(number, head)
                upto = snapshot.wal.upto if snapshot.wal is not None else 0
                self.upto[number] = upto
                if number not in self.past:
                    assert snapshot.kind in SILENT, snapshot.kind
                    before, known = self.upto[number - 1], [one for one in self.segments if one <= upto]
                    newer = upto > before and max(known, default=0) > before
                    self.past[number] = self.segments[max(known)] if newer else self.past[number - 1]
                assert upto >= self.upto.get(number - 1, 0)

        self.run_async(work())

    def some_snapshot(self, chance: int) -> int:
        """One of those there are."""
        self.find_silent_commits()
        there = self.retained()
        return there[chance % len(there)]

    def retained(self) -> list[int]:
        """Snapshots that exist."""
        return sorted(one for one in self.past if one >= self.earliest or one in self.tags.values())

    async def log_end(self) -> int:
        """Number of the newest segment; 0 when there is none."""
        return await (await self.opened())._table.wal.log.newest() or 0

    def known(self, some: list[Row]) -> list[Row]:
        """Rows with the columns there are."""
        return [{name: value for name, value in row.items() if name in self.state.columns} for row in some]

    def keys(self, some: list[Row]) -> list[Row]:
        """The keys of rows."""
        return [{name: row[name] for name in self.state.layout.key} for row in some]

    @property
    def is_keyed(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self.state.layout.key)

    # --- the writer ---------------------------------------------------------------

    @rule()
    def take_over(self) -> None:
        """A writer is opened by a new process; the one before, if there is one, is fenced off."""
        store = FaultyStore(self.inner)

        async def work() -> TableWriter:
            writer = (await self.opened(store)).writer()
            return await writer.__aenter__()

        if self.writer is not None:
            self.fenced.append(self.writer)
        self.writer, self.writer_store = self.run_async(work()), store
        self.acknowledged(self.run_async(self.log_end()))

    @precondition(lambda self: self.writer)
    @rule(some=groups, at_once=st.booleans())
    def stream(self, some: list[tuple[bool, list[Row]]], at_once: bool) -> None:
        """Rows and deletions are acknowledged, each after the other or all together."""
        writer = self.writer
        assert writer is not None

        async def work() -> None:
            acks = []
            for deletes, group in some:
                if deletes and self.is_keyed:
                    acks.append(await writer.delete(self.keys(group)))
                    change: Callable[[], None] = lambda group=group: self.state.delete(group)  # noqa: E731
                else:
                    acks.append(await writer.put(self.known(group), missing="null"))
                    change = lambda group=group: self.state.put(group)  # noqa: E731
                if not at_once:
                    change()
                    self.acknowledged(await acks[-1])
                else:
                    changes.append(change)
            for change, ack in zip(changes, acks if at_once else [], strict=True):
                change()
                self.acknowledged(await ack)

        changes: list[Callable[[], None]] = []
        self.run_async(work())

    @precondition(lambda self: self.writer)
    @rule()
    def flush_writer(self) -> None:
        """Afterwards readers of the newest snapshot see everything that was put."""
        writer = self.writer
        assert writer is not None
        self.run_async(writer.flush())
        self.find_silent_commits()
        assert self.past[max(self.past)].kept() == self.state.kept()

    @rule(who=who)
    def flush_table(self, who: int) -> None:
        """Any process may put the log into files; no row is left in it."""

        async def work() -> None:
            done = await self.handles[who].flush()
            core = self.reader._table
            snapshot = await core.snapshots.snapshot(done.snapshot, (await core.newest()).snapshot)
            assert not snapshot.segments

        self.run_async(work())
        self.find_silent_commits()
        assert self.past[max(self.past)].kept() == self.state.kept()

    @precondition(lambda self: self.writer)
    @rule(close=st.booleans())
    def end_writer(self, close: bool) -> None:
        """A writer is closed, or its process ends between two requests."""
        writer = self.writer
        assert writer is not None
        self.run_async(writer.close() if close else vanish(writer))
        self.writer = None
        self.find_silent_commits()
        if close:
            assert self.past[max(self.past)].kept() == self.state.kept()

    @precondition(lambda self: self.fenced)
    @rule(some=rows, data=st.data())
    def fenced_writers_put_nothing(self, some: list[Row], data: st.DataObject) -> None:
        """A writer that lost the log gets nothing into it; closing it does no harm."""
        writer = data.draw(st.sampled_from(self.fenced))

        async def work() -> None:
            with pytest.raises(FencedError):
                await (await writer.put(self.known(some), missing="null"))
            await writer.close()

        self.run_async(work())
        self.fenced.remove(writer)

    @precondition(lambda self: self.writer)
    @rule(
        some=rows,
        after=st.integers(0, 6),
        kind=CUTS,
        what=st.sampled_from(["put", "flush", "close", "open"]),
    )
    def crash_writer(self, some: list[Row], after: int, kind: FaultKind, what: str) -> None:
        """Power is cut at some request: acknowledged rows stay, those on their way are there or not."""
        writer, store = self.writer, self.writer_store
        assert writer is not None
        store.planned = [Fault(kind=kind, at=store.operations + after)]
        before = self.run_async(self.log_end())

        async def work() -> bool:
            try:
                if what == "put":
                    await (await writer.put(self.known(some), missing="null"))
                elif what == "flush":
                    await writer.flush()
                elif what == "close":
                    await writer.close()
                else:
                    other = (await self.opened(store)).writer()
                    await other.__aenter__()
                    self.fenced.append(other)
            except (PowerCut, LakehouseError):
                return False
            finally:
                store.power = False
            return True

        done = self.run_async(work())
        self.run_async(vanish(writer))
        for one in [one for one in self.fenced if what == "open"]:
            self.run_async(vanish(one))
            self.fenced.remove(one)
        self.writer = None
        end = self.run_async(self.log_end())
        assert end in (before, before + 1)
        if what == "put":
            assert not (done and end == before)
            if end > before:
                self.state.put(self.known(some))
        if end > before:
            self.acknowledged(end)

    # --- batch commits ------------------------------------------------------------

    @precondition(lambda self: self.is_keyed)
    @rule(some=rows, who=who)
    def upsert(self, some: list[Row], who: int) -> None:
        """Rows stand above all that was acknowledged before."""
        result = self.run_async(self.handles[who].upsert(self.known(some), missing="null"))
        self.state.put(self.known(some))
        self.committed(result.snapshot)

    @precondition(lambda self: not self.is_keyed)
    @rule(some=rows, who=who)
    def append(self, some: list[Row], who: int) -> None:
        """Rows are added once."""
        result = self.run_async(self.handles[who].append(self.known(some), missing="null"))
        self.state.put(self.known(some))
        self.committed(result.snapshot)

    @precondition(lambda self: self.is_keyed)
    @rule(some=rows, who=who)
    def insert(self, some: list[Row], who: int) -> None:
        """A key that was acknowledged, or comes twice, is not new."""
        taken = any(self.state.find(self.state.key_of(row)) for row in some)
        repeated = len({self.state.key_of(row) for row in some}) < len(some)
        try:
            result = self.run_async(self.handles[who].append(self.known(some), on_conflict="error"))
        except InvalidInputError:
            assert repeated
            return
        except AlreadyExistsError:
            assert taken
            return
        assert not taken
        assert not repeated
        self.state.put(self.known(some))
        self.committed(result.snapshot)

    @precondition(lambda self: self.is_keyed)
    @rule(some=rows, who=who)
    def delete_keys(self, some: list[Row], who: int) -> None:
        """Keys are gone, also those that are in the log only."""
        result = self.run_async(self.handles[who].delete(keys=self.keys(some)))
        self.state.delete(some)
        self.committed(result.snapshot)

    @rule(predicate=predicates, who=who)
    def delete_where(self, predicate: Predicate, who: int) -> None:
        """The rows that match are gone, and no other."""
        result = self.run_async(self.handles[who].delete(predicate[0]))
        gone = self.state.remove(predicate[1])
        assert result.changed or not gone
        if result.changed:
            self.committed(result.snapshot)

    @rule(some=rows | st.just([]), who=who)
    def overwrite(self, some: list[Row], who: int) -> None:
        """Nothing but the new rows is left, in files or in the log."""
        result = self.run_async(self.handles[who].overwrite(self.known(some)))
        assert result.changed or not self.state.rows
        self.state.rows = []
        self.state.put(self.known(some))
        if result.changed:
            self.committed(result.snapshot)

    @rule(some=rows, predicate=predicates | st.sampled_from(["a", "b"]), who=who)
    def overwrite_where(self, some: list[Row], predicate: Predicate | str, who: int) -> None:
        """The rows that match are replaced by rows that match: of a partition, or of any condition."""
        if isinstance(predicate, str):
            part, predicate = predicate, (f"part = '{predicate}'", lambda row: row["part"] == part)
        text, holds = predicate
        fitting = self.known([row for row in some if holds(row)])
        result = self.run_async(self.handles[who].overwrite(fitting, text))
        gone = self.state.remove(holds)
        self.state.put(fitting)
        assert result.changed or not (gone or fitting)
        if result.changed:
            self.committed(result.snapshot)

    @precondition(lambda self: self.is_keyed)
    @rule(some=rows, after=st.integers(0, 6), kind=CUTS)
    def crash_upsert(self, some: list[Row], after: int, kind: FaultKind) -> None:
        """Power is cut in a batch write: all of it is there, or nothing, and the log is untouched."""
        store = FaultyStore(self.inner)

        async def work() -> int | None:
            table = await self.opened(store)
            store.planned = [Fault(kind=kind, at=store.operations + after)]
            try:
                return (await table.upsert(self.known(some), missing="null")).snapshot
            except PowerCut:
                return None
            finally:
                store.power = False

        async def kind_of(number: int) -> CommitKind:
            core = (await self.opened())._table
            return (await core.snapshots.snapshot(number, (await core.newest()).snapshot)).kind

        snapshot = self.run_async(work())
        last = self.run_async(self.reader.current_snapshot())
        mine = [
            one
            for one in range(max(self.upto) + 1, last + 1)
            if self.run_async(kind_of(one)) is CommitKind.UPSERT
        ]
        assert mine == ([snapshot] if snapshot is not None else mine[:1])
        if mine:
            self.state.put(self.known(some))
            self.committed(mine[0])

    # --- schema, tags, rollback, maintenance --------------------------------------

    @precondition(lambda self: len(self.state.columns) < 7)
    @rule(default=st.none() | st.integers(0, 3), who=who)
    def add_column(self, default: int | None, who: int) -> None:
        """A column comes while a writer is open."""
        self.names += 1
        if self.state.layout.merge is not None:
            default = None  # each row would bring it in again
        result = self.run_async(self.handles[who].add_column(f"c{self.names}", "int", default=default))
        self.state.add_column(f"c{self.names}", default)
        self.committed(result.snapshot)

    @precondition(lambda self: len(self.state.columns) > 4)
    @rule(who=who, data=st.data(), rename=st.booleans())
    def drop_or_rename_column(self, who: int, data: st.DataObject, rename: bool) -> None:
        """A column goes, or gets another name, while a writer is open."""
        name = data.draw(st.sampled_from(self.state.columns[4:]))
        self.names += 1
        if rename:
            result = self.run_async(self.handles[who].rename_column(name, f"c{self.names}"))
            self.state.rename_column(name, f"c{self.names}")
        else:
            result = self.run_async(self.handles[who].drop_column(name))
            self.state.drop_column(name)
        self.committed(result.snapshot)

    @rule(chance=chance)
    def tag(self, chance: int) -> None:
        """A tag names a snapshot; making it covers the log, as every commit does."""
        number = self.some_snapshot(chance)
        name = f"t{len(self.tags)}"
        result = self.run_async(self.handles[0].create_tag(name, snapshot=number))
        self.tags[name] = number
        self.committed(result.snapshot)

    @rule(chance=chance)
    def rollback(self, chance: int) -> None:
        """An older state is the newest again; rows acknowledged before are gone, later ones are not."""
        number = self.some_snapshot(chance)
        result = self.run_async(self.handles[1].rollback(snapshot=number))
        self.state = self.past[number].copy()
        self.committed(result.snapshot)

    @rule(who=who, full=st.booleans())
    def compact(self, who: int, full: bool) -> None:
        """Runs are merged around what is in the log."""
        self.run_async(self.handles[who].compact(full=full))

    @rule(who=who, retain=st.integers(2, 5))
    def expire(self, who: int, retain: int) -> None:
        """Older snapshots are gone, with what they alone had of files and of the log; tagged ones stay.

        Without a grace: nobody may go on from what is deleted, so all look at the head before.
        """

        async def work() -> None:
            for writer in self.fenced:
                await vanish(writer)
            for table in self.handles:
                await table.current_snapshot()
            if self.writer is not None:
                await self.writer._table.newest()
            found = await self.handles[who].expire_snapshots(retain=retain, grace_s=0)
            if found.earliest > self.earliest:
                self.earliest = found.earliest
                self.committed(found.snapshot)

        self.find_silent_commits()
        self.run_async(work())
        self.fenced.clear()

    @precondition(lambda self: self.is_keyed)
    @rule(who=who, buckets=st.integers(1, 4))
    def rescale(self, who: int, buckets: int) -> None:
        """The table gets another number of buckets while rows are in the log."""
        result = self.run_async(self.handles[who].rescale(buckets))
        if result.changed:
            self.committed(result.snapshot)

    @rule(who=who)
    def reopen(self, who: int) -> None:
        """A process ends, and another one opens the table."""
        self.handles[who] = self.run_async(self.opened())

    # --- what must hold -----------------------------------------------------------

    async def check(self, found: pa.Table, wanted: Kept) -> None:
        """A reading has these columns and rows, in whatever order."""
        columns, held = wanted
        assert found.column_names == columns
        order = sorted(columns)
        as_key = lambda row: repr([row[name] for name in order])  # noqa: E731
        assert sorted(found.to_pylist(), key=as_key) == sorted(held, key=as_key)

    async def check_snapshot(self, number: int) -> None:
        """A snapshot reads as the model said when it was made."""
        found = await self.reader.scan(snapshot=number).to_arrow()
        await self.check(found, self.past[number].kept())

    @invariant()
    def fresh_reads_see_what_was_acknowledged(self) -> None:
        """All of it, once, and nothing else; also by a process that has written nothing of it."""
        if self.past:
            self.find_silent_commits()
            found = self.run_async(self.reader.scan(freshness="wal").to_arrow())
            self.run_async(self.check(found, self.state.kept()))
            # Also in the processes of writers, of whom some have lost the log and not noticed.
            for writer in [*self.fenced, *([self.writer] if self.writer else [])]:
                found = self.run_async(Table(writer._table).scan(freshness="wal").to_arrow())
                self.run_async(self.check(found, self.state.kept()))
            number = self.run_async(self.reader.current_snapshot())
            self.find_silent_commits()
            self.run_async(self.check_snapshot(number))

    @rule(chance=chance)
    def some_snapshot_reads_as_the_model(self, chance: int) -> None:
        """A snapshot reads the same for ever."""
        self.run_async(self.check_snapshot(self.some_snapshot(chance)))

    @rule(predicate=predicates)
    def conditions_select_fresh_rows(self, predicate: Predicate) -> None:
        """A condition finds exactly the acknowledged rows that match."""
        text, holds = predicate

        async def work() -> None:
            found = await self.reader.scan(text, freshness="wal").to_arrow()
            await self.check(found, (self.state.columns, [row for row in self.state.rows if holds(row)]))
            count = await self.reader.scan(text, freshness="wal").count()
            assert count == found.num_rows

        self.run_async(work())

    @precondition(lambda self: self.is_keyed)
    @rule(some=rows)
    def keys_find_fresh_rows(self, some: list[Row]) -> None:
        """Keys find their rows, in the log or in files."""

        async def work() -> None:
            for row in some:
                (key,) = self.keys([row])
                tables = [self.reader, *([Table(self.writer._table)] if self.writer else [])]
                for table in tables:
                    found = await table.get(key, freshness="wal")
                    assert found == self.state.find(self.state.key_of(row))
            keys = list({tuple(key.items()): key for key in self.keys(some)}.values())
            many = await self.reader.get_many(keys, freshness="wal")
            there = [self.state.find(self.state.key_of(key)) for key in keys]
            await self.check(many, (self.state.columns, [row for row in there if row is not None]))

        self.run_async(work())

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def tags_find_snapshots(self, data: st.DataObject) -> None:
        """A tag reads as the snapshot it names."""
        name = data.draw(st.sampled_from(sorted(self.tags)))
        found = self.run_async(self.reader.scan(tag=name).to_arrow())
        self.run_async(self.check(found, self.past[self.tags[name]].kept()))


TestStreamedTable = StreamedTable.TestCase
TestStreamedTable.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
