"""Compaction of tables: no answer changes, nobody is in anybody's way, what came to nothing is taken back."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError, PermissionDeniedError, UnavailableError
from lakehouse.format.metadata.file_entry import SEQUENCE_COLUMN, FileEntry, FileFormat, Level
from lakehouse.format.metadata.snapshot import CommitKind
from lakehouse.format.schema.types import SEQUENCE_FIELD
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.open import stacked
from lakehouse.io.work.progress import Progress
from lakehouse.lake import Lake
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.table import Table
from lakehouse.testing import Fault, FaultKind, FaultyStore, PowerCut
from tests.kit.memory_pools import counted_pool
from tests.kit.worlds import NAME, Row, StepIn, process, restored, table_of

R = TypeVar("R")
SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64()})
LAYOUTS: dict[str, dict[str, Any]] = {
    "one bucket": {"primary_key": ["id"]},
    "key holds partition": {"primary_key": ["part", "id"], "partition_by": ["part"], "bucket": 2},
    "rows move between partitions": {"primary_key": ["id"], "partition_by": ["part"], "bucket": 2},
    "append-only": {"partition_by": ["part"]},
}


class RefusesFirstCommit(StoreDecorator):
    """Refuses the first commit, once another task waits for its turn, and never answers a further one."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.uploads, self.refused, self._two = 0, False, asyncio.Event()

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        if verb == "put_if_absent" and self.refused:
            await asyncio.Event().wait()
        if verb == "put_if_absent":
            self.refused = True
            await self._two.wait()
            for _ in range(100):
                await asyncio.sleep(0)
            raise PermissionDeniedError("refused", key=key)
        answer = await request()
        self.uploads += verb == "put" and "/data/" in key
        if self.uploads == 2:
            self._two.set()
        return answer


async def made(
    layout: str = "one bucket",
    *,
    store: ObjectStore | None = None,
    options: dict[str, object] | None = None,
) -> Table:
    """An empty table."""
    lake = process(store or await restored({}))
    await lake.create_database("db")
    return await lake.create_table(NAME, SCHEMA, options=options, **LAYOUTS[layout])


def row(number: int, value: int = 0, part: str = "a") -> Row:
    """A row."""
    return {"id": number, "part": part, "v": value}


async def rows_of(table: Table, snapshot: int | None = None) -> list[Row]:
    """What a reader sees, in some fixed order."""
    return sorted(await table.scan(snapshot=snapshot).to_pylist(), key=repr)


async def values_of(table: Table) -> dict[int, int]:
    """Values by key."""
    return {one["id"]: one["v"] for one in await table.scan().to_pylist()}


async def files_of(table: Table) -> Sequence[FileEntry]:
    """The entries of the newest snapshot."""
    return await (await table._table.newest()).files()


async def data_files(store: ObjectStore) -> set[str]:
    """Data files there are, whether a snapshot knows them or not."""
    return {one.key async for one in store.list("") if "/data/" in one.key}


async def fill(table: Table, *, commits: int = 8, seed: int = 1) -> None:
    """Random rows, and with a key random deletions in between."""
    drawn = random.Random(seed)
    keys = (await table.schema()).primary_key
    for _ in range(commits):
        some = [row(drawn.randrange(12), drawn.randrange(9), drawn.choice("abc")) for _ in range(5)]
        await table.append(some)
        if keys:
            gone = row(drawn.randrange(12), part=drawn.choice("abc"))
            await table.delete(keys=[{name: gone[name] for name in keys}])


# --- answers --------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["parquet", "sst"])
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_every_snapshot_reads_as_before(layout: str, file_format: str) -> None:
    """Compaction in steps, then in full, between further commits: the rows of no snapshot change."""
    table = await made(layout, options={"file.format": file_format, "compaction.trigger": 3})
    known: dict[int, list[Row]] = {}
    for turn in range(3):
        await fill(table, commits=4, seed=turn)
        before = await table.current_snapshot()
        known[before] = await rows_of(table)
        done = await table.compact(full=turn == 2)
        assert done.changed
        known[done.snapshot] = known[before]
        assert not await anext(table.changes(before), None) if layout != "append-only" else True
    fresh = await table_of(table._table.env.store)
    for number, rows in known.items():
        assert await rows_of(fresh, number) == rows
    assert not (await table.compact(full=True)).changed


async def test_a_full_compaction_leaves_one_run_of_inserts() -> None:
    """Every merge unit has one run at the bottom, without deletions."""
    table = await made("key holds partition")
    await fill(table)
    await table.compact(full=True)
    files = await files_of(table)
    assert len({(one.partition, one.bucket) for one in files}) == len(files)
    assert {(one.level, one.deletes) for one in files} == {(Level.BOTTOM, 0)}


async def test_files_have_the_format_of_their_level() -> None:
    """Commits write file.format.level0, compaction file.format."""
    table = await made(options={"file.format": "sst"})
    await fill(table)
    assert {one.format for one in await files_of(table)} == {FileFormat.PARQUET}
    await table.compact(full=True)
    assert {one.format for one in await files_of(table)} == {FileFormat.SSTABLE}


async def test_deleted_keys_are_remembered_above_older_runs() -> None:
    """A compaction of the newer runs keeps what they delete; one with the oldest forgets it."""
    table = await made(options={"compaction.trigger": "2"})
    drawn = random.Random(3)
    await table.append([row(number, drawn.randrange(1 << 40)) for number in range(2000)])
    await table.delete(keys=[{"id": 1}])
    await table.upsert([row(5000)])
    done = await table.compact()
    assert done.runs_in == 2
    upper = next(one for one in await files_of(table) if one.level is Level.COMPACTED)
    assert (upper.rows, upper.deletes) == (2, 1)
    assert 1 not in await values_of(table)
    await table.compact(full=True)
    (bottom,) = await files_of(table)
    assert (bottom.rows, bottom.deletes, bottom.level) == (2000, 0, Level.BOTTOM)


async def test_a_unit_whose_keys_are_all_deleted_has_no_file() -> None:
    """Nothing is left of rows that nobody can read."""
    table = await made()
    await table.append([row(1), row(2)])
    await table.delete("id > 0")
    done = await table.compact(full=True)
    assert (done.units, done.files_out, len(await files_of(table))) == (1, 0, 0)
    await table.append([row(3)])
    assert await values_of(table) == {3: 0}


async def test_rows_say_which_snapshot_they_came_with() -> None:
    """Through one compaction and the next, every row keeps the id of the commit that brought it."""
    table = await made()
    first = (await table.append([row(1), row(2), row(3)])).snapshot
    second = (await table.upsert([row(2)])).snapshot
    await table.compact(full=True)
    third = (await table.upsert([row(3), row(4)])).snapshot
    await table.compact(full=True)
    (entry,) = await files_of(table)
    reader = await table._table.open(entry, await table.schema())
    found = await reader.read([(await table.schema()).field("id"), SEQUENCE_FIELD])
    assert found["id"].to_pylist() == [1, 2, 3, 4]
    assert found[SEQUENCE_COLUMN].to_pylist() == [first, second, third, third]
    assert (entry.lo, entry.hi) == ((first, 1, 0), (third, 1, 0))


async def test_rows_of_an_append_only_table_keep_their_order() -> None:
    """Files that are put together, into one file or several, hold the rows as they were written."""
    store = await restored({})
    settings = Settings.resolve({"table.compaction_memory_bytes": 1024 * 1024})
    lake = Lake(stacked(store), settings=settings)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA)
    for begin in range(0, 60_000, 10_000):
        await table.append([row(number) for number in range(begin, begin + 10_000)])
    done = await table.compact(full=True)
    assert (done.files_in, done.rows_out) == (6, 60_000)
    assert done.files_out > 1
    assert [one["id"] for one in await table.scan().to_pylist()] == list(range(60_000))


async def test_output_is_cut_at_the_target_size() -> None:
    """A large run becomes files of about file.target_bytes, one key range after the other."""
    table = await made(options={"file.target_bytes": "40000"})
    drawn = random.Random(2)
    for _ in range(4):
        keys = drawn.sample(range(100_000), 10_000)
        await table.upsert([row(number, drawn.randrange(1 << 40)) for number in keys])
    done = await table.compact(full=True)
    files = sorted(await files_of(table), key=lambda one: one.min_key or b"")
    assert done.files_out == len(files) > 4
    assert all(20_000 < one.size < 60_000 for one in files[:-1])
    assert all(one.max_key < two.min_key for one, two in itertools.pairwise(files))  # type: ignore[operator]
    assert len({(one.lo, one.hi) for one in files}) == 1


async def test_compaction_reads_older_schemas() -> None:
    """Files of every schema are merged into files of the newest."""
    table = await made()
    await table.append([row(1, 1), row(2, 2)])
    await table.add_column("c", "bigint", default=7)
    await table.upsert([{**row(2, 5), "c": 8}])
    await table.rename_column("v", "w")
    before = await rows_of(table)
    await table.compact(full=True)
    assert await rows_of(table) == before
    assert {one.schema_id for one in await files_of(table)} == {(await table.schema()).id}


# --- what it says ---------------------------------------------------------------------


async def test_a_dry_run_tells_and_does_nothing() -> None:
    """What there is to do is counted, and no snapshot made."""
    table = await made()
    await fill(table)
    before = await table.current_snapshot()
    told = await table.compact(dry_run=True)
    assert (told.dry_run, told.changed, told.units, told.cost.bytes_written) == (True, False, 1, 0)
    assert await table.current_snapshot() == before
    done = await table.compact()
    assert (done.runs_in, done.files_in, done.rows_in, done.bytes_in, done.reasons) == (
        (told.runs_in, told.files_in, told.rows_in, told.bytes_in, told.reasons)
    )
    assert "would compact 1 merge units" in str(told)


async def test_progress_ends_with_all_rows() -> None:
    """Whoever asks is told how many rows were read, up to all of them."""
    table = await made("key holds partition")
    await fill(table)
    told: list[Progress] = []
    done = await table.compact(full=True, progress=told.append)
    assert {one.step for one in told} == {"merge rows"}
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert (told[-1].done, told[-1].total) == (done.rows_in, done.rows_in)


async def test_partitions_are_compacted_apart_where_they_can_be() -> None:
    """A condition on whole partitions limits what is done; any other is refused."""
    table = await made("key holds partition")
    await fill(table)
    await table.compact("part = 'b'", full=True)
    levels = {(one["partition"]["part"], one["level"]) for one in (await table.files()).to_pylist()}
    assert levels == {("a", 0), ("b", 2), ("c", 0)}
    with pytest.raises(InvalidInputError, match="partition columns"):
        await table.compact("id = 1")
    with pytest.raises(InvalidInputError, match="partition columns"):
        await (await made("rows move between partitions")).compact("part = 'b'")


# --- others at the same time ----------------------------------------------------------


class Write:
    """Adds and takes away entries, as some other commit might."""

    blind = False

    def __init__(self, *, removed: Sequence[FileEntry] = (), added: Sequence[FileEntry] = ()) -> None:
        self._removed, self._added = removed, added

    async def draft(self, base: Base) -> Draft:
        """Whatever the head is."""
        return Draft(kind=CommitKind.OVERWRITE, removed=tuple(self._removed), added=tuple(self._added))


async def write(table: Table, **what: Sequence[FileEntry]) -> int:
    """Commits such a change."""
    done = await table._table.commit(Write(**what), view=await table._table.newest())
    return done.snapshot.id


@dataclasses.dataclass
class Meeting:
    """A table that one process compacts, and another that does something right before the first commits."""

    store: ObjectStore
    hooked: StepIn
    mine: Table
    theirs: Table

    @classmethod
    async def of_three_runs(cls) -> Meeting:
        """Key 1 is there in the first run, deleted in the second; key 2 in all."""
        store = await restored({})
        theirs = await made(store=store)
        await theirs.append([row(1, 1), row(2, 1)])
        await theirs.delete(keys=[{"id": 1}])
        await theirs.upsert([row(2, 3)])
        hooked = StepIn(store)
        return cls(store, hooked, await table_of(hooked), await table_of(store))

    def before_commit(self, act: Any) -> None:
        """Does this when the compaction is about to commit."""
        self.hooked.before(0, "/snapshot/", act, verb="put_if_absent")


async def test_what_others_commit_meanwhile_stays_on_top() -> None:
    """A compaction that comes second stands where its inputs stood: newer rows win."""
    meeting = await Meeting.of_three_runs()

    async def upsert() -> None:
        await meeting.theirs.upsert([row(1, 50), row(2, 50)])

    meeting.before_commit(upsert)
    done = await meeting.mine.compact(full=True)
    assert (done.units, done.gave_way, done.snapshot) == (1, 0, 6)
    assert await values_of(meeting.theirs) == {1: 50, 2: 50}
    await meeting.theirs.compact(full=True)
    assert await values_of(meeting.theirs) == {1: 50, 2: 50}


async def gives_way(meeting: Meeting) -> None:
    """The compaction says so, and leaves no file of its own."""
    files = await data_files(meeting.store)
    done = await meeting.mine.compact(full=True)
    assert (done.changed, done.units, done.gave_way, done.files_out) == (False, 0, 1, 0)
    assert "1 gave way" in str(done)
    assert files >= await data_files(meeting.store)


async def test_a_compaction_gives_way_when_an_input_is_gone() -> None:
    """Rows that were overwritten meanwhile do not come back."""
    meeting = await Meeting.of_three_runs()

    async def overwrite() -> None:
        await meeting.theirs.overwrite([row(9, 9)])

    meeting.before_commit(overwrite)
    done = await meeting.mine.compact(full=True)
    assert (done.changed, done.gave_way) == (False, 1)
    assert await values_of(meeting.theirs) == {9: 9}
    assert len(await data_files(meeting.store)) == 4


async def test_a_compaction_gives_way_to_a_run_between_its_inputs() -> None:
    """Runs that have become neighbours of another are not put around it."""
    meeting = await Meeting.of_three_runs()
    theirs = meeting.theirs
    await theirs.upsert([row(1, 4)])
    before = await theirs.current_snapshot()
    _, _, middle, _ = sorted(await files_of(theirs), key=lambda one: one.at or 0)
    await write(theirs, removed=[middle])

    async def bring_back() -> None:
        await theirs.rollback(snapshot=before)

    meeting.before_commit(bring_back)
    await gives_way(meeting)
    assert await values_of(theirs) == {1: 4, 2: 3}


async def test_a_compaction_gives_way_to_older_rows_of_keys_it_forgot() -> None:
    """A key that a dropped deletion hid does not come back with the run it is in."""
    meeting = await Meeting.of_three_runs()
    theirs = meeting.theirs
    before = await theirs.current_snapshot()
    oldest, _, _ = sorted(await files_of(theirs), key=lambda one: one.at or 0)
    await write(theirs, removed=[oldest])

    async def bring_back() -> None:
        await theirs.rollback(snapshot=before)

    meeting.before_commit(bring_back)
    await gives_way(meeting)
    assert await values_of(theirs) == {2: 3}


async def test_a_compaction_gives_way_when_its_schema_is_undone() -> None:
    """Rows written with a schema that a rollback has taken away meanwhile are no one's."""
    meeting = await Meeting.of_three_runs()
    before = await meeting.theirs.current_snapshot()
    await meeting.theirs.add_column("c", "bigint", default=1)

    async def roll_back() -> None:
        await meeting.theirs.rollback(snapshot=before)

    meeting.before_commit(roll_back)
    await gives_way(meeting)
    assert await values_of(meeting.theirs) == {2: 3}


async def test_an_input_described_anew_is_the_same_file() -> None:
    """A file's identity is its path: another entry of it, with an index for example, takes nothing away."""
    meeting = await Meeting.of_three_runs()
    theirs = meeting.theirs

    async def describe() -> None:
        first, *_ = sorted(await files_of(theirs), key=lambda one: one.at or 0)
        await write(theirs, removed=[first], added=[dataclasses.replace(first, stats={})])

    meeting.before_commit(describe)
    done = await meeting.mine.compact(full=True)
    assert (done.units, done.gave_way) == (1, 0)
    assert await values_of(theirs) == {2: 3}


async def test_units_that_fit_are_committed_without_those_that_do_not() -> None:
    """What happens to one partition does not stop the compaction of another."""
    store = await restored({})
    theirs = await made("key holds partition", store=store)
    for value in range(3):
        await theirs.append([row(1, value, "a"), row(1, value, "b")])
    hooked = StepIn(store)
    mine = await table_of(hooked)

    async def overwrite() -> None:
        await theirs.overwrite([row(1, 9, "a")], "part = 'a'")

    hooked.before(0, "/snapshot/", overwrite, verb="put_if_absent")
    done = await mine.compact(full=True)
    assert (done.units, done.gave_way) == (1, 1)
    assert await rows_of(theirs) == [row(1, 9, "a"), row(1, 2, "b")]
    assert sorted(one.level for one in await files_of(theirs)) == [Level.FRESH, Level.BOTTOM]


@pytest.mark.timeout(120)
async def test_data_commits_are_never_refused(bucket_url: str, storage_options: dict[str, Any]) -> None:
    """Two hundred upserts beside compactions without end: none fails, and all rows are there."""
    import lakehouse

    at: dict[str, Any] = {"url": f"{bucket_url}/warehouse", "storage_options": storage_options}
    async with lakehouse.connect(**at) as ours, lakehouse.connect(**at) as theirs:
        await ours.create_database("db")
        table = await ours.create_table(NAME, SCHEMA, primary_key="id")
        other = await theirs.table(NAME)
        writing = True
        placed = 0

        async def compact() -> None:
            nonlocal placed
            while writing:
                done = await other.compact(full=True)
                placed += done.units

        compacting = asyncio.create_task(compact())
        for number in range(200):
            done = await table.upsert([row(number % 50, number), row(1000 + number, number)])
            assert done.changed
        writing = False
        await compacting
        assert placed > 4
        found = await values_of(table)
    wanted = {1000 + number: number for number in range(200)} | {n % 50: n for n in range(200)}
    assert found == wanted


# --- an end in the middle -------------------------------------------------------------


async def test_a_cancelled_compaction_takes_its_files_back() -> None:
    """Whoever stops waiting leaves nothing behind."""
    store = await restored({})
    table = await made("key holds partition", store=store)
    await fill(table)
    files = await data_files(store)
    hooked = StepIn(store)
    reached = asyncio.Event()

    async def stall() -> None:
        reached.set()
        await asyncio.sleep(60)

    hooked.before(2, "/data/", stall, verb="put")
    compacting = asyncio.create_task((await table_of(hooked)).compact(full=True))
    await reached.wait()
    compacting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await compacting
    live = {f"{table._table.root}/{one.path}" for one in await files_of(table)}
    assert await data_files(store) == files | live


async def test_a_compaction_that_is_refused_takes_its_files_back() -> None:
    """When the snapshot is certainly not created, the files that were uploaded for it are deleted."""
    store = await restored({})
    table = await made("key holds partition", store=store)
    await fill(table)
    files, before = await data_files(store), await rows_of(table)
    faulty = FaultyStore(store)
    refused = await table_of(faulty)
    faulty.planned = [Fault(kind=FaultKind.THROTTLE, verb="put_if_absent")] * 100
    with pytest.raises(UnavailableError):
        await refused.compact(full=True)
    assert await data_files(store) == files
    assert await rows_of(table) == before


async def test_no_commit_begins_after_one_that_was_refused() -> None:
    """Tasks that wait for their turn take their files back: a commit cut off half-way would leave them."""
    store = await restored({})
    table = await made("key holds partition", store=store)
    await fill(table)
    files = await data_files(store)
    refusing = RefusesFirstCommit(store)
    with pytest.raises(PermissionDeniedError):
        await (await table_of(refusing)).compact(full=True)
    assert refusing.uploads > 1
    assert await data_files(store) == files


async def test_a_crash_at_any_request_leaves_orphans_at_most() -> None:
    """A process that ends while it compacts several merge units has changed no answer."""
    for number in range(100):
        store = await restored({})
        table = await made("key holds partition", store=store)
        await fill(table, commits=2)
        before = await rows_of(table)
        faulty = FaultyStore(store)
        dying = await table_of(faulty)
        await dying.current_snapshot()
        faulty.planned = [Fault(kind=FaultKind.POWER_CUT_BEFORE, at=faulty.operations + number)]
        try:
            await dying.compact(full=True)
        except PowerCut:
            pass
        else:
            break
        fresh = await table_of(store)
        assert await rows_of(fresh) == before
        live = {f"{fresh._table.root}/{one.path}" for one in await files_of(fresh)}
        assert live <= await data_files(store)
    assert number > 10


# --- memory ---------------------------------------------------------------------------


@pytest.mark.timeout(120)
async def test_memory_is_bounded_however_large_the_runs_are() -> None:
    """Rows under way keep to table.compaction_memory_bytes while seven times as much passes through."""
    bound, each = 6 * 1024 * 1024, 400_000
    store = await restored({})
    settings = Settings.resolve({"table.compaction_memory_bytes": bound, "cache.max_bytes": 0})
    lake = Lake(stacked(store), settings=settings)
    await lake.create_database("db")
    options = {"parquet.row_group_rows": "16384"}
    table = await lake.create_table(NAME, SCHEMA, primary_key="id", options=options)
    random_values = np.random.default_rng(1)
    for number in range(6):
        ids = np.arange(number, each * 6, 6)
        values = random_values.integers(0, 1 << 60, each)
        await table.append(pa.table({"id": ids, "part": ["a"] * each, "v": values}))
    with counted_pool() as pool:
        done = await table.compact(full=True)
        peak = pool.max_memory()
    assert done.rows_out * (8 + 5 + 8) > 7 * bound
    assert (done.rows_in, done.rows_out) == (6 * each, 6 * each)
    assert 0 < peak < 3 * bound, peak / bound
