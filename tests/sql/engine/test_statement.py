"""One statement under way."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.config import SqlSettings
from lakehouse.errors import (
    CorruptionError,
    InternalError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.io import measure, open_store
from lakehouse.io.decorators import StoreDecorator
from lakehouse.sql.engine import LoopBridge, SqlInstance, SqlStatement, failure_of
from lakehouse.testing import Fault, FaultKind, FaultyStore, RecordingStore, memory_store

R = TypeVar("R")
ROWS = 20_000


@pytest.fixture
async def instance() -> AsyncIterator[SqlInstance]:
    """An instance of two threads."""
    made = SqlInstance(SqlSettings(threads=2))
    yield made
    await made.aclose()


@pytest.fixture
async def statement(instance: SqlInstance) -> AsyncIterator[SqlStatement]:
    """A statement under way."""
    async with instance.statement() as made:
        yield made


async def _rows(statement: SqlStatement, text: str, parameters: list[object] | None = None) -> list[object]:
    async with await statement.stream(text, parameters) as batches:
        return [tuple(row.values()) async for batch in batches for row in batch.to_pylist()]


def _parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"a": range(ROWS), "s": [str(a) for a in range(ROWS)]}), sink, row_group_size=5000
    )
    return sink.getvalue()


def _blocked(bridge: LoopBridge, begun: asyncio.Event) -> pa.RecordBatchReader:
    """A source that waits on the loop for what never comes."""

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def batches() -> Iterator[pa.RecordBatch]:
        bridge.wait(forever())
        yield pa.record_batch({"a": [1]})

    return pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())


async def test_files_are_read_through_their_store(statement: SqlStatement) -> None:
    """DuckDB reads a Parquet file of a store by its virtual path, and asks for no size and no listing."""
    store, data = RecordingStore(memory_store()), _parquet()
    await store.put("t/1.parquet", data)
    store.clear()
    path = statement.files.add(store, "t/1.parquet", len(data))
    await statement.define("v", f"SELECT * FROM read_parquet('{path}')")
    assert await _rows(statement, "SELECT count(*), sum(a), max(s) FROM v WHERE a >= $1", [10]) == [
        (ROWS - 10, sum(range(10, ROWS)), "9999")
    ]
    assert {call.verb for call in store.calls} == {"get_range"}


async def test_footers_are_fetched_once(statement: SqlStatement) -> None:
    """A view and its query read the footer of a file again and again, for one request."""
    store, data = RecordingStore(memory_store()), _parquet()
    await store.put("t/1.parquet", data)
    store.clear()
    path = statement.files.add(store, "t/1.parquet", len(data))
    await statement.define("v", f"SELECT * FROM read_parquet('{path}')")
    await statement.plan("SELECT a FROM v")
    assert await _rows(statement, "SELECT min(a) FROM v WHERE false") == [(None,)]
    assert len(store.calls) == 1


async def test_requests_of_duckdbs_threads_are_counted(instance: SqlInstance) -> None:
    """What DuckDB's threads read counts into the statement's cost and into the caller's."""
    store, data = open_store("memory://test-costs-of-sql"), _parquet()
    await store.put("t/1.parquet", data)
    with measure() as outer:
        async with instance.statement() as statement:
            path = statement.files.add(store, "t/1.parquet", len(data))
            await _rows(statement, "SELECT sum(a) FROM read_parquet($1)", [path])
    assert statement.cost.requests == outer.requests > 1
    assert set(statement.cost.by_kind()) == {"get"}


async def test_paths_as_parameters_are_refused_too(statement: SqlStatement) -> None:
    """A path that was not added is refused by its name, also where a parameter or an expression gives it."""
    for text, parameters in (
        ("SELECT * FROM read_parquet($1)", ["lake://q/x.parquet"]),
        ("SELECT * FROM read_text('lake://q/' || 'x')", None),
        ("SELECT * FROM glob('lake://q/**')", None),
        ("SELECT * FROM 'lake://q/x.parquet'", None),
        ("SELECT * FROM read_csv('/etc/passwd')", None),
    ):
        with pytest.raises(PermissionDeniedError):
            await _rows(statement, text, parameters)


async def test_paths_of_other_statements_are_refused(instance: SqlInstance) -> None:
    """A statement cannot read the file of another one that is under way, though it knows the path."""
    store, data = memory_store(), _parquet()
    await store.put("t/1.parquet", data)
    async with instance.statement() as one, instance.statement() as other:
        path = one.files.add(store, "t/1.parquet", len(data))
        with pytest.raises(PermissionDeniedError):
            await _rows(other, f"SELECT * FROM read_parquet('{path}')")
        assert await _rows(one, f"SELECT count(*) FROM read_parquet('{path}')") == [(ROWS,)]


async def test_sources_are_read_by_name(statement: SqlStatement) -> None:
    """A registered source is a table of this statement."""
    await statement.register("source", pa.table({"a": [1, 2]}))
    assert await _rows(statement, "SELECT sum(a) FROM source") == [(3,)]


async def test_names_are_quoted(statement: SqlStatement) -> None:
    """A view may have any name, and its name is never read as SQL."""
    name = 'a"; DROP VIEW x; --'
    await statement.define(name, "SELECT 1 AS one")
    assert await _rows(statement, 'FROM "a""; DROP VIEW x; --"') == [(1,)]


async def test_plans_are_of_one_query(statement: SqlStatement) -> None:
    """A plan is refused for text that would run something behind it."""
    with pytest.raises(InvalidInputError, match="one query is expected"):
        await statement.plan("SELECT 1; CREATE TABLE t (a INT)")


async def test_plans_are_trees(statement: SqlStatement) -> None:
    """A plan tells the scans of a query with their columns and filters, and reads nothing."""
    await statement.register("source", pa.table({"a": [1, 2], "b": [3, 4]}))
    (root,) = await statement.plan("SELECT b FROM source WHERE a = $1", [1])
    assert "a = 1" in str(root)


async def test_progress_is_told_while_a_query_runs(statement: SqlStatement) -> None:
    """A query over files tells which part of it is done, and nothing is told before and afterwards."""
    store, data, begun, gate = memory_store(), _parquet(), asyncio.Event(), asyncio.Event()

    class Gated(StoreDecorator):
        async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
            if key == "t/2.parquet":
                begun.set()
                await gate.wait()
            return await request()

    paths = []
    for key in ("t/1.parquet", "t/2.parquet"):
        await store.put(key, data)
        paths.append(statement.files.add(Gated(store), key, len(data)))
    assert await statement.progress() is None
    query = asyncio.create_task(_rows(statement, f"SELECT sum(a) FROM read_parquet({paths})"))
    await begun.wait()
    told = await statement.progress()
    assert told is not None
    assert 0 <= told < 1
    gate.set()
    assert await query
    assert await statement.progress() is None


async def test_settings_of_a_statement_are_its_own(instance: SqlInstance) -> None:
    """A statement may set its time zone; another one under way does not see it, nor does a later one."""
    text = "SELECT current_setting('TimeZone')"
    async with instance.statement() as one, instance.statement() as other:
        before = await _rows(other, text)
        await one.configure("TimeZone", "Asia/Tokyo")
        assert await _rows(one, text) == [("Asia/Tokyo",)]
        assert await _rows(other, text) == before
    async with instance.statement() as later:
        assert await _rows(later, text) == before


@pytest.mark.parametrize("name", ["threads", "memory_limit", "TimeZone = 'x'; --"])
async def test_other_settings_are_refused(statement: SqlStatement, name: str) -> None:
    """What is no setting of a statement cannot be set by it."""
    with pytest.raises(InvalidInputError, match="no setting of a statement"):
        await statement.configure(name, 1)


async def test_values_of_settings_are_quoted(statement: SqlStatement) -> None:
    """A value is text for DuckDB and never SQL."""
    with pytest.raises(InvalidInputError):
        await statement.configure("TimeZone", "x'; SELECT 1; --")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT 1 + FROM x", "FROM"),
        ("SELECT abz FROM (SELECT 1 AS abc) WHERE abc = $1", "abz"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT CAST(a || 'x' AS INT) FROM range(3) t(a)", "CAST(a || 'x' AS INT)"),
        ("SELECT CAST(if(a = 900000, 'x', '1') AS INT) FROM range(1000000) t(a)", "CAST(if("),
    ],
)
async def test_errors_have_their_place(statement: SqlStatement, text: str, place: str) -> None:
    """An error has its place in the text, whether it shows in planning, at first or amid the rows."""
    with pytest.raises(InvalidInputError) as caught:
        await _rows(statement, text, [1] if "$1" in text else None)
    failure = failure_of(caught.value)
    assert failure is not None
    assert failure.offset == text.index(place)
    assert caught.value.__cause__ is None


async def test_places_of_plans_count_from_the_text(statement: SqlStatement) -> None:
    """An error of a plan has its place in the query, not in the command that explains it."""
    with pytest.raises(InvalidInputError) as caught:
        await statement.plan("SELECT abz FROM (SELECT 1 AS abc)")
    assert failure_of(caught.value).offset == 7  # type: ignore[union-attr]


async def test_parameters_that_duckdb_cannot_take_are_wrong_input(statement: SqlStatement) -> None:
    """A parameter of another type is the caller's error, and so is one that is missing."""
    for parameters in ([object()], ["\ud800"], [], {"x": 1}):
        with pytest.raises(InvalidInputError):
            await statement.stream("SELECT $1", parameters)


async def test_the_error_of_a_source_is_raised_itself(statement: SqlStatement) -> None:
    """What a source asked of the loop, and failed, is raised as the same object, not as DuckDB's text."""
    own = NotFoundError("the manifest is gone")

    async def fails() -> None:
        raise own

    def batches() -> Iterator[pa.RecordBatch]:
        statement.bridge.wait(fails())
        yield pa.record_batch({"a": [1]})

    await statement.register(
        "source", pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    )
    with pytest.raises(NotFoundError) as caught:
        await _rows(statement, "SELECT * FROM source")
    assert caught.value is own


async def test_the_error_of_a_store_is_raised_itself(statement: SqlStatement) -> None:
    """A request of DuckDB's threads that fails ends the statement with the store's error."""
    data = _parquet()
    inner = memory_store()
    await inner.put("t/1.parquet", data)
    store = FaultyStore(inner, [Fault(kind=FaultKind.THROTTLE, at=1)])
    path = statement.files.add(store, "t/1.parquet", len(data))
    with pytest.raises(UnavailableError) as caught:
        await _rows(statement, f"SELECT sum(a) FROM read_parquet('{path}')")
    assert failure_of(caught.value) is None


async def test_a_damaged_file_is_told_by_its_key(statement: SqlStatement) -> None:
    """A file that is no Parquet is a CorruptionError with the key, and no virtual path in the text."""
    store = memory_store()
    await store.put("t/1.parquet", b"no parquet" * 10)
    path = statement.files.add(store, "t/1.parquet", 100)
    with pytest.raises(CorruptionError) as caught:
        await _rows(statement, f"SELECT * FROM read_parquet('{path}')")
    assert caught.value.context["key"] == "t/1.parquet"
    assert "lake://" not in str(caught.value)


async def test_too_little_memory_is_a_kind_of_its_own() -> None:
    """A query that needs more memory than is allowed says which setting to raise."""
    instance = SqlInstance(SqlSettings(threads=1, memory_bytes=64 * 1024 * 1024, spill_bytes=0))
    async with instance.statement() as statement:
        with pytest.raises(UnavailableError, match=r"sql\.memory_bytes") as caught:
            await _rows(statement, "SELECT length(list(a)) FROM range(20000000) t(a)")
        assert caught.value.kind == "out-of-memory"
        assert await _rows(statement, "SELECT 1") == [(1,)]
    await instance.aclose()


async def test_time_is_bounded_where_it_is_set(statement: SqlStatement) -> None:
    """A query that takes longer than its statement may ends with kind timeout."""
    await statement.configure("max_execution_time", 30)
    with pytest.raises(UnavailableError) as caught:
        await _rows(statement, "SELECT count(*) FROM range(100000000000) t(a) WHERE a % 7 = 3")
    assert caught.value.kind == "timeout"


async def test_a_cancelled_query_ends_within_a_second(instance: SqlInstance) -> None:
    """A query that computes ends soon after its task is cancelled, and its turn is free again."""
    begun = asyncio.Event()

    async def long() -> None:
        async with instance.statement() as statement:
            begun.set()
            await _rows(statement, "SELECT count(*) FROM range(100000000000) t(a) WHERE a % 7 = 3")

    task = asyncio.create_task(long())
    await begun.wait()
    at = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - at < 1


async def test_a_blocked_source_is_cancelled(instance: SqlInstance) -> None:
    """A query whose source waits on the loop ends when its task is cancelled, and so does the wait."""
    begun = asyncio.Event()

    async def long() -> None:
        async with instance.statement() as statement:
            await statement.register("source", _blocked(statement.bridge, begun))
            await _rows(statement, "SELECT * FROM source")

    task = asyncio.create_task(long())
    await begun.wait()
    at, before = time.monotonic(), len(asyncio.all_tasks())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - at < 1
    assert len(asyncio.all_tasks()) == before - 2


async def test_ending_a_statement_ends_who_waits_for_it(instance: SqlInstance) -> None:
    """A call under way is told that the statement was interrupted when another task ends it."""
    begun = asyncio.Event()
    async with instance.statement() as statement:
        await statement.register("source", _blocked(statement.bridge, begun))
        waiting = asyncio.create_task(_rows(statement, "SELECT * FROM source"))
        await begun.wait()
        await statement.aclose()
        with pytest.raises(LakehouseError) as caught:
            await waiting
        assert caught.value.kind == "interrupted"
        with pytest.raises(InvalidInputError) as closed:
            await statement.stream("SELECT 1")
        assert closed.value.kind == "closed"


async def test_several_may_end_a_statement_at_once(instance: SqlInstance) -> None:
    """However many tasks end a statement at the same time, it ends once, and all of them wait for it."""
    for _ in range(20):
        async with instance.statement() as statement:
            waiting = asyncio.create_task(_rows(statement, "SELECT count(*) FROM range(100000000000)"))
            await asyncio.sleep(0)
            await asyncio.gather(*(statement.aclose() for _ in range(8)))
            assert await statement.progress() is None
            with pytest.raises(LakehouseError):
                await waiting


async def test_statements_stay_usable_after_an_error(statement: SqlStatement) -> None:
    """A query that failed leaves the statement as it was, and its error behind."""
    with pytest.raises(PermissionDeniedError):
        await _rows(statement, "SELECT * FROM glob('lake://q/**')")
    with pytest.raises(InvalidInputError):
        await _rows(statement, "SELECT nothing")
    assert await _rows(statement, "SELECT 1") == [(1,)]


async def test_a_bug_of_duckdb_renews_the_instance(
    instance: SqlInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error that DuckDB does not come back from, the next statement has another DuckDB."""

    def broken() -> None:
        raise RuntimeError("FATAL Error: the database was invalidated")

    async with instance.statement() as statement:
        first = statement.database
        with pytest.raises(InternalError):
            await statement.run(broken)
    async with instance.statement() as statement:
        assert statement.database is not first
        assert await _rows(statement, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("ending", ["all rows", "an error", "a limit", "a close", "nothing"])
async def test_nothing_of_a_statement_is_left(instance: SqlInstance, ending: str) -> None:
    """However a statement ends, its connection, its tasks and its files are gone afterwards."""
    store, data = memory_store(), _parquet()
    await store.put("t/1.parquet", data)
    tasks, text = asyncio.all_tasks(), "SELECT a FROM read_parquet($1)"
    async with instance.statement() as statement:
        path = statement.files.add(store, "t/1.parquet", len(data))
        if ending == "an error":
            with pytest.raises(InvalidInputError):
                await _rows(statement, "SELECT nothing FROM read_parquet($1)", [path])
        elif ending != "nothing":
            batches = await statement.stream(
                text + " LIMIT 1" * (ending == "a limit"), [path], batch_rows=100
            )
            if ending == "a close":
                await anext(batches)
            else:
                assert [batch async for batch in batches]
    async with instance.statement() as later:
        # The database's own connection, and this statement's.
        assert await later.execute("SELECT count FROM duckdb_connection_count()") == [(2,)]
        assert set(later.database.file_system.statements) == {later.files.token}
    assert asyncio.all_tasks() == tasks
