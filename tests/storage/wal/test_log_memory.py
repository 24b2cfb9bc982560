"""Fresh reads in the process of the writer: what they cost, and that memory says what the bucket says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakehouse.config import Settings
from lakehouse.errors import FencedError, InvalidInputError
from lakehouse.io import ObjectStore
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.storage.write.streaming_writer import TableWriter
from lakehouse.testing import ManualClock, RecordingStore
from tests.kit.streaming import made, opened, rows_of, some, vanish
from tests.kit.table_operations import LAYOUTS, SCHEMA
from tests.kit.worlds import NAME, StepIn, process, restored, table_of

SUM = {"merge_engine": "aggregation", "fields.v.aggregate": "sum"}
Read = Callable[[Table], Awaitable[int | None]]


async def added(**options: str) -> ObjectStore:
    """A store with an empty table that adds up the values of a key."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    await lake.create_table(NAME, SCHEMA, primary_key=["id"], options={**SUM, **options})
    return store


def beside(writer: TableWriter) -> Table:
    """The table in the writer's process."""
    return Table(writer._table)


async def put(writer: TableWriter, *rows: tuple[int, str, int | None]) -> int:
    """Rows that are acknowledged; the number of their segment."""
    return await (await writer.put(some(*rows)))


async def by_get(table: Table) -> int | None:
    """The value of key 1."""
    row = await table.get({"id": 1}, freshness="wal")
    return None if row is None else row["v"]


async def by_get_many(table: Table) -> int | None:
    """The value of key 1."""
    rows = (await table.get_many([{"id": 1}, {"id": 2}], freshness="wal")).to_pylist()
    return next((row["v"] for row in rows if row["id"] == 1), None)


async def by_scan(table: Table) -> int | None:
    """The value of key 1."""
    rows = await table.scan("id = 1", freshness="wal").to_pylist()
    return next((row["v"] for row in rows), None)


READS: dict[str, Read] = {"get": by_get, "get_many": by_get_many, "scan": by_scan}


# --- cost -----------------------------------------------------------------------------


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("segments", [0, 1, 50])
async def test_fresh_reads_of_the_writers_process_cost_the_look_at_the_head(segments: int, read: str) -> None:
    """However many segments nobody covers: one request, no listing and no segment."""
    store = RecordingStore(await made())
    writer = await opened(store)
    for number in range(segments):
        await put(writer, (1, "a", number))
    store.clear()
    for _ in range(3):
        assert await READS[read](beside(writer)) == (segments - 1 if segments else None)
    assert store.kinds() == {"get": 3}
    assert all("/snapshot/" in call.key for call in store.calls)
    await vanish(writer)


async def test_a_thousand_concurrent_fresh_gets_cost_a_few_looks() -> None:
    """Reads that begin together share a look that began after all of them."""
    store = RecordingStore(await made())
    writer = await opened(store)
    for number in range(20):
        await put(writer, (number, "a", number))
    store.clear()
    table = beside(writer)
    rows = await asyncio.gather(*(table.get({"id": number % 20}, freshness="wal") for number in range(1_000)))
    assert rows == [some((number % 20, "a", number % 20))[0] for number in range(1_000)]
    assert len(store.calls) <= 5
    await vanish(writer)


@pytest.mark.parametrize("segments", [0, 3])
async def test_within_a_bound_not_even_the_look_is_made(segments: int) -> None:
    """Own rows are seen at once and without a request; commits of others when the bound is over."""
    store = RecordingStore(await made())
    clock = ManualClock()
    writer = await opened(store, clock=clock)
    for number in range(segments):
        await put(writer, (1, "a", number))
    table = beside(writer)
    await table.get({"id": 1}, freshness="wal")
    store.clear()
    for _ in range(5):
        row = await table.get({"id": 1}, freshness="wal", max_staleness=10)
        assert row == (some((1, "a", segments - 1))[0] if segments else None)
        assert (await table.scan(freshness="wal", max_staleness=10).count()) == (segments > 0)
    assert store.calls == []
    await put(writer, (5, "a", 5))
    await (await table_of(store)).upsert(some((6, "a", 6)))
    store.clear()
    assert await table.get({"id": 5}, freshness="wal", max_staleness=10) is not None
    assert await table.get({"id": 6}, freshness="wal", max_staleness=10) is None
    assert store.calls == []
    await clock.advance(11)
    assert await table.get({"id": 6}, freshness="wal", max_staleness=10) is not None
    await vanish(writer)


async def test_a_bound_is_refused_where_another_process_writes() -> None:
    """Only the writer's process knows the newest rows without a look; a writer that ended knows no more."""
    store = await made()
    writer = await opened(store)
    for table in (await table_of(store), beside(writer)):
        if table.core is writer._table:
            await vanish(writer)
        with pytest.raises(InvalidInputError, match="only the process of the table's streaming writer"):
            await table.get({"id": 1}, freshness="wal", max_staleness=1)
        with pytest.raises(InvalidInputError, match="leave out max_staleness"):
            table.scan(freshness="wal", max_staleness=1)


async def test_a_bound_of_the_handle_does_not_make_fresh_reads_stale() -> None:
    """Who asks for the log gets what is newest, whatever other reads of the handle may miss."""
    store = await made()
    writer = await opened(store)
    table = beside(writer).with_staleness(100)
    await table.current_snapshot()
    await (await table_of(store)).upsert(some((6, "a", 6)))
    assert await table.get({"id": 6}) is None
    assert await table.get({"id": 6}, freshness="wal") is not None
    await vanish(writer)


async def test_segments_that_a_commit_covers_are_not_read_either() -> None:
    """Rows that another process covered by a commit are runs of the snapshot, and still in memory."""
    store = RecordingStore(await made())
    writer = await opened(store)
    for number in range(9):
        await put(writer, (number, "a", number))
    await (await table_of(store)).upsert(some((100, "b", 100)))
    await put(writer, (100, "b", 101))
    await beside(writer).current_snapshot()
    store.clear()
    assert await beside(writer).get({"id": 5}, freshness="wal") == some((5, "a", 5))[0]
    assert len(await rows_of(beside(writer), "wal")) == 10
    assert [call.key for call in store.calls if "/wal/" in call.key or call.verb == "list"] == []
    await vanish(writer)


async def test_taking_a_log_over_costs_one_commit_more_than_its_fence() -> None:
    """A takeover puts its fence and announces its epoch, whatever is in the log."""
    store = RecordingStore(await made())
    first = await opened(store)
    await put(first, (1, "a", 1))
    store.clear()
    second = await opened(store)
    puts = [call.key.rsplit("/", 2)[-2] for call in store.calls if call.verb == "put_if_absent"]
    assert puts[:2] == ["wal", "snapshot"]
    head = (await second._table.newest()).snapshot
    assert head.wal is not None
    assert head.wal.epoch == second.report().epoch
    for writer in (first, second):
        await vanish(writer)


# --- what is seen ---------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_the_process_reads_what_others_read(layout: str) -> None:
    """Put, put again, deleted, flushed, put above: memory and bucket give the same rows."""
    store = await made(layout)
    writer = await opened(store)
    for number in range(12):
        await put(writer, (number % 5, "a", number), (number, "b", number))
        if number == 6:
            await writer.flush()
        if number == 8 and LAYOUTS[layout].get("primary_key"):
            await (await writer.delete([{"id": 1, "part": "a"}] if "holds" in layout else [{"id": 1}]))
        assert await rows_of(beside(writer), "wal") == await rows_of(store, "wal")
    await vanish(writer)


@pytest.mark.parametrize("read", READS)
async def test_values_in_memory_are_folded_onto_those_in_files(read: str) -> None:
    """An engine that merges sees each operand once: in files, covered by others, or only in memory."""
    store = await added()
    writer = await opened(store)
    await put(writer, (1, "a", 1), (2, "a", 5))
    await writer.flush()
    await put(writer, (1, "a", 10))
    await (await table_of(store)).upsert(some((1, "a", 100)))
    await put(writer, (1, "a", 1_000), (1, "a", 10_000))
    await put(writer, (1, "a", 100_000))
    assert await READS[read](beside(writer)) == 111_111
    await (await writer.delete([{"id": 1}]))
    assert await READS[read](beside(writer)) is None
    await put(writer, (1, "a", 7))
    assert await READS[read](beside(writer)) == 7
    await vanish(writer)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("moves", ["cover", "flush", "cover and flush"])
async def test_rows_that_another_moves_while_they_are_read_are_seen_once(moves: str, read: str) -> None:
    """Somebody covers or flushes rows in the middle of a read: none vanishes, and none counts twice."""
    for number in range(20):
        store = await added()
        hooked = StepIn(store)
        writer = await opened(hooked)
        for value in (1, 10, 100):
            await put(writer, (1, "a", value))

        async def act(store: ObjectStore = store) -> None:
            other = await table_of(store)
            if "cover" in moves:
                await other.set_comment("covered")
            if "flush" in moves:
                await other.flush()

        hooked.before(number, "", act)
        assert await READS[read](beside(writer)) == 111, f"before request {number}"
        met = hooked.act is None
        assert await READS[read](beside(writer)) == 111
        await vanish(writer)
        if not met:
            break
    assert number >= 1


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("when", ["before the look", "after the look"])
async def test_rows_that_the_writer_flushes_while_they_are_read_are_seen_once(when: str, read: str) -> None:
    """A flush of the own process lets go of rows that a read under way has taken, or finds in the head."""
    store = await added()
    writer = await opened(store)
    for value in (1, 10, 100):
        await put(writer, (1, "a", value))
    table = writer._table
    newest, flushed = table.newest, []

    async def look() -> Any:
        view = None if when == "before the look" else await newest()
        if not flushed:
            flushed.append(True)
            await writer.flush()
        return view or await newest()

    table.newest = look  # type: ignore[method-assign]
    assert await READS[read](beside(writer)) == 111
    assert flushed
    assert not table.runs.held
    await vanish(writer)


@pytest.mark.parametrize("read", READS)
async def test_a_fresh_read_shows_no_put_without_the_commit_before_it(read: str) -> None:
    """A commit and then a put of one key come in the middle: neither is seen, the commit alone, or both."""
    seen = set()
    for number in range(20):
        store = await added()
        hooked = StepIn(store)
        writer = await opened(hooked)
        await put(writer, (1, "a", 100))
        other = await table_of(store)

        async def act(writer: TableWriter = writer, other: Table = other) -> None:
            await other.upsert(some((1, "a", 10)))
            await put(writer, (1, "a", 1))

        hooked.before(number, "", act)
        value = await READS[read](beside(writer))
        assert value in (100, 110, 111), f"before request {number}"
        seen.add(value)
        await vanish(writer)
        if hooked.act is not None:
            break
    assert 110 in seen
    assert 100 in seen or read == "get"


async def test_rows_on_their_way_are_waited_for() -> None:
    """Readers elsewhere may see a row before its acknowledgement arrives; a later read here sees it too."""
    store = await made()
    hooked = StepIn(store)
    writer = await opened(hooked)
    answered = asyncio.Event()
    inner = hooked.call

    async def late(verb: str, key: str, request: Callable[[], Awaitable[Any]], size: int = 0) -> Any:
        answer = await inner(verb, key, request, size)
        if "/wal/" in key and verb == "put_if_absent":
            await answered.wait()
        return answer

    hooked.call = late  # type: ignore[method-assign]
    ack = await writer.put(some((1, "a", 1)))
    while await rows_of(store, "wal") != [(1, "a", 1)]:  # noqa: ASYNC110  what a reader elsewhere sees
        await asyncio.sleep(0)
    assert not ack.is_done
    reading = asyncio.ensure_future(by_get(beside(writer)))
    await asyncio.sleep(0)
    answered.set()
    assert await reading == 1
    await vanish(writer)


async def test_an_outcome_that_stays_open_is_read_from_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment whose answer does not come holds up no reader for long."""
    monkeypatch.setattr("lakehouse.storage.wal.log_memory._SETTLE_S", 0.01)
    store = await made()
    writer = await opened(store)
    await put(writer, (1, "a", 1))
    with writer._session._held.sending():  # type: ignore[union-attr]
        assert await by_get(beside(writer)) == 1
    await vanish(writer)


# --- taking over ----------------------------------------------------------------------


@pytest.mark.parametrize("read", READS)
async def test_after_a_takeover_elsewhere_memory_is_not_read(read: str) -> None:
    """A writer that was fenced off and has not noticed reads what its successor acknowledged."""
    store = await added()
    first = await opened(store)
    await put(first, (1, "a", 1))
    assert await READS[read](beside(first)) == 1
    second = await opened(store)
    await put(second, (1, "a", 10))
    for _ in range(2):
        assert await READS[read](beside(first)) == await READS[read](beside(second)) == 11
    with pytest.raises(FencedError):
        await put(first, (1, "a", 100))
    assert await READS[read](beside(first)) == 11
    for writer in (first, second):
        await vanish(writer)


@pytest.mark.parametrize("read", READS)
async def test_a_takeover_in_the_middle_of_a_read_is_seen_or_comes_after_it(read: str) -> None:
    """Before whatever request of a read another process takes over and puts: old or new, never less."""
    seen = set()
    for number in range(20):
        store = await added()
        hooked = StepIn(store)
        first = await opened(hooked)
        await put(first, (1, "a", 1))
        others: list[TableWriter] = []

        async def act(store: ObjectStore = store, others: list[TableWriter] = others) -> None:
            others.append(await opened(store))
            await put(others[0], (1, "a", 10))

        hooked.before(number, "", act)
        value = await READS[read](beside(first))
        assert value in (1, 11), f"before request {number}"
        if number == 0:
            # The look at the head comes after the acknowledgement.
            assert value == 11
        seen.add(value)
        ended = hooked.act is not None
        for writer in (first, *others):
            await vanish(writer)
        if ended:
            break
    assert seen == {1, 11}


async def test_no_row_is_sent_before_the_epoch_is_announced() -> None:
    """Between its fence and its first row a writer's epoch is in a snapshot, for others to know of it."""
    store = RecordingStore(await made())
    writer = await opened(store)
    await put(writer, (1, "a", 1))
    puts = [call.key.rsplit("/", 2)[-2] for call in store.calls if call.verb == "put_if_absent"]
    assert puts[-3:] == ["wal", "snapshot", "wal"]
    await vanish(writer)


async def test_of_two_that_take_over_at_once_the_later_epoch_stays_announced() -> None:
    """A writer that announces itself behind a higher epoch is fenced, and the epoch does not go back."""
    store = await made()
    hooked = StepIn(store)
    winners: list[TableWriter] = []

    async def act() -> None:
        winners.append(await opened(store))

    # A table's log is begun by the first writer; then the fence is put, and then the epoch announced.
    await vanish(await opened(store))
    hooked.before(0, "/snapshot/", act, verb="put_if_absent")
    with pytest.raises(FencedError):
        await opened(hooked)
    await put(winners[0], (1, "a", 1))
    head = (await (await table_of(store)).core.newest()).snapshot
    assert head.wal is not None
    assert head.wal.epoch == winners[0].report().epoch
    await vanish(winners[0])


# --- bounds and ends ------------------------------------------------------------------


async def test_memory_is_bounded_and_the_bucket_is_read_beyond() -> None:
    """More rows than ``table.fresh_memory_bytes`` are read from the bucket until they are flushed."""
    store = RecordingStore(await made())
    settings = Settings.resolve({"table.fresh_memory_bytes": 20_000})
    lake = Lake(stacked(store), settings=settings)
    table = await lake.table(NAME)
    async with table.writer() as writer:
        for number in range(20):
            await put(writer, (number, "a", number))
        assert len(table.core.runs.held) < 20
        store.clear()
        assert len(await rows_of(table, "wal")) == 20
        assert "list" in store.kinds()
        await writer.flush()
        await put(writer, (100, "a", 100))
        store.clear()
        assert await table.get({"id": 100}, freshness="wal") == some((100, "a", 100))[0]
        assert store.kinds() == {"get": 1}


async def test_flushed_rows_leave_memory() -> None:
    """After a flush nothing is held, and the index of keys is gone with it."""
    store = await made()
    writer = await opened(store)
    for number in range(5):
        await put(writer, (number, "a", number))
    assert await by_get(beside(writer)) == 1
    held = writer._table.runs.held
    assert len(held) == 1 + 5  # with the fence
    await writer.flush()
    assert not held
    assert await by_get(beside(writer)) == 1
    await vanish(writer)


async def test_a_writer_that_ended_leaves_fresh_reads_to_the_bucket() -> None:
    """Closed or vanished, what it acknowledged is read, and what the next writer puts."""
    store = await made()
    for end in (TableWriter.close, vanish):
        writer = await opened(store)
        await put(writer, (1, "a", 5))
        await end(writer)
        assert await by_get(beside(writer)) == 5
    async with (await table_of(store)).writer() as other:
        await put(other, (1, "a", 6))
        assert await by_get(beside(writer)) == 6


async def test_columns_that_change_show_in_memory_as_in_files() -> None:
    """Rows put before a column was added, renamed or widened are read with the newest schema."""
    store = await made("key holds partition")
    writer = await opened(store)
    await put(writer, (1, "a", 1))
    other = await table_of(store)
    await other.rename_column("v", "w")
    await other.add_column("x", "int", default=3)
    await (await writer.put([{"id": 2, "part": "a", "w": 2}], missing="null"))
    for key in (1, 2):
        row = await beside(writer).get({"id": key, "part": "a"}, freshness="wal")
        assert row == await other.get({"id": key, "part": "a"}, freshness="wal")
        assert row is not None
        assert row["w"] == key
    await vanish(writer)
