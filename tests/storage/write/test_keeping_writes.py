"""Upserts that keep what older rows have in the columns that they lack: reads, races, and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakehouse
from lakehouse.errors import ConflictError, InvalidInputError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.testing import RecordingStore
from tests.kit.worlds import NAME, Row, StepIn, World, process, restored, saved, table_of

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "part": pa.string(),
        "a": pa.int64(),
        "b": pa.string(),
        "c": pa.list_(pa.struct([("x", pa.int32())])),
    }
)
LAYOUTS: dict[str, dict[str, Any]] = {
    "one bucket": {"primary_key": "id"},
    "rows move between partitions": {"primary_key": "id", "partition_by": "part", "bucket": 3},
    "key holds partition": {"primary_key": ["part", "id"], "partition_by": "part", "bucket": 2},
    "sst": {"primary_key": "id", "options": {"file.format.level0": "sst"}},
}
FIRST: list[Row] = [
    {"id": n, "part": "xy"[n % 2], "a": n, "b": f"b{n}", "c": [{"x": n}] if n else None} for n in range(6)
]


async def made(layout: str = "one bucket", **options: object) -> ObjectStore:
    """A table of six rows, in two files."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    how = {**LAYOUTS[layout], "options": {**LAYOUTS[layout].get("options", {}), **options}}
    table = await lake.create_table(NAME, SCHEMA, **how)
    await table.append(FIRST[:4])
    await table.append(FIRST[4:])
    return store


def by_id(rows: list[Row]) -> dict[int, Row]:
    """Rows by their id."""
    return {row["id"]: row for row in rows}


async def rows_of(store: ObjectStore) -> dict[int, Row]:
    """What a process reads that opens the table afresh."""
    return by_id(await (await table_of(store)).scan(freshness="wal").to_pylist())


async def stored(store: ObjectStore) -> set[str]:
    """Paths of all data files that there are."""
    return {f"data/{one.key.partition('/data/')[2]}" async for one in store.list("") if "/data/" in one.key}


def changed(before: dict[int, Row], some: list[Row]) -> dict[int, Row]:
    """What reading, changing and writing row by row comes to."""
    after = {key: dict(row) for key, row in before.items()}
    for row in some:
        after[row["id"]] = {**dict.fromkeys(SCHEMA.names), **after.get(row["id"], {}), **row}
    return after


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_columns_that_are_left_out_stay_as_they_are(layout: str) -> None:
    """Of rows that are there; new rows have null, and a null that is given is written."""
    store = await made(layout)
    some: list[Row] = [
        {"id": 1, "part": "y", "a": 100},
        {"id": 2, "part": "x", "b": None},
        {"id": 5, "part": "y", "c": [{"x": -1}, None]},
        {"id": 77, "part": "y", "b": "new"},
        {"id": 1, "part": "y", "b": "later", "a": 101},
    ]
    done = await (await table_of(store)).upsert(some, missing="keep")
    assert done.rows == 5
    assert await rows_of(store) == changed(by_id(FIRST), some)


async def test_whole_columns_may_be_left_out() -> None:
    """Tables and frames lack a column in all rows; rows of several tables may lack different ones."""
    store = await made()
    tables = [pa.table({"id": [1, 3], "a": [10, 30]}), pa.table({"b": ["x", "y"], "id": [3, 50]})]
    await (await table_of(store)).upsert(iter(tables), missing="keep")
    some = [row for table in tables for row in table.to_pylist()]
    assert await rows_of(store) == changed(by_id(FIRST), some)


async def test_appends_keep_as_upserts_do() -> None:
    """A row that is appended replaces one as well."""
    store = await made()
    await (await table_of(store)).append([{"id": 1, "a": 5}], missing="keep")
    assert await rows_of(store) == changed(by_id(FIRST), [{"id": 1, "a": 5}])


async def test_defaults_are_for_new_rows() -> None:
    """A column with a default keeps its value in a row that is there, and has the default in a new one."""
    store = await made()
    table = await table_of(store)
    await table.add_column("kind", "string", default="old")
    await table.set_default("kind", "new")
    await table.upsert([{**FIRST[1], "kind": "own"}])
    await table.upsert([{"id": 1, "a": 1}, {"id": 2, "a": 2}, {"id": 50, "a": 3}], missing="keep")
    rows = await rows_of(store)
    assert [rows[number]["kind"] for number in (1, 2, 50)] == ["own", "old", "new"]


async def test_a_new_row_needs_what_must_not_be_null() -> None:
    """A required column may be left out of a row that is there; of a new one its key is named."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("n", pa.int64(), nullable=False), ("s", pa.string())]
    )
    table = await lake.create_table(NAME, schema, primary_key="id")
    await table.append([{"id": 1, "n": 7, "s": "a"}])
    await table.upsert([{"id": 1, "s": "b"}, {"id": 2, "n": 3, "s": "c"}], missing="keep")
    assert await rows_of(store) == {1: {"id": 1, "n": 7, "s": "b"}, 2: {"id": 2, "n": 3, "s": "c"}}
    with pytest.raises(
        InvalidInputError, match=r"column 'n' of the row with key \{'id': 9\} must not be null"
    ):
        await table.upsert([{"id": 9, "s": "b"}, {"id": 1, "n": 1}], missing="keep")
    with pytest.raises(InvalidInputError, match="column 'id', row 1: null"):
        await table.upsert([{"id": 9, "n": 1}, {"n": 1}], missing="keep")
    with pytest.raises(InvalidInputError, match="the rows have no column 'id', of the key"):
        await table.upsert([{"n": 1}], missing="keep")


async def test_rows_of_the_log_are_kept_too() -> None:
    """What a streaming writer had acknowledged before the call is read, in files or not."""
    store = await made()
    writer = (await table_of(store)).writer()
    async with writer:
        await (await writer.put([{**FIRST[1], "b": "streamed"}]))
        await (await table_of(store)).upsert([{"id": 1, "a": 9}], missing="keep")
    assert (await rows_of(store))[1] == {**FIRST[1], "a": 9, "b": "streamed"}


async def test_a_sequence_decides_between_calls_and_not_within_one() -> None:
    """In a table with a sequence field an older row changes nothing, and a call has each key once."""
    store = await made(**{"sequence.field": "a"})
    table = await table_of(store)
    await table.upsert([{"id": 3, "a": 2, "b": "late"}], missing="keep")
    await table.upsert([{"id": 2, "a": 9, "b": "early"}], missing="keep")
    await table.upsert([{"id": 1, "b": "same"}], missing="keep")
    rows = await rows_of(store)
    assert [rows[number]["b"] for number in (1, 2, 3)] == ["same", "early", "b3"]
    assert rows[2]["c"] == [{"x": 2}]
    with pytest.raises(InvalidInputError, match=r"rows 0 and 1 .* sequence field"):
        await table.upsert([{"id": 1, "a": 5}, {"id": 1, "b": "x"}], missing="keep")


async def test_rows_that_are_too_many_are_refused() -> None:
    """A call that would hold more than the setting allows says so, and leaves nothing behind."""
    async with lakehouse.connect("memory://keep-much", settings={"table.keep_memory_bytes": 1000}) as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, SCHEMA, primary_key="id")
        with pytest.raises(InvalidInputError, match=r"more than 1,000 bytes.*table.keep_memory_bytes"):
            await table.upsert(pa.table({"id": list(range(1000))}), missing="keep")
        assert await table.current_snapshot() == 1


# --- others commit meanwhile ----------------------------------------------------------

_ids = st.integers(0, 7)
_rows = st.lists(
    st.fixed_dictionaries(
        {"id": _ids},
        optional={"a": st.none() | st.integers(0, 9), "b": st.none() | st.sampled_from(["", "x", "yy"])},
    ),
    min_size=1,
    max_size=6,
)
_Act = tuple[str, list[Row]]
_acts = st.tuples(st.sampled_from(["null", "keep", "delete", "where", "compact", "overwrite", "tag"]), _rows)


async def act(table: Table, one: _Act) -> None:
    """What somebody else commits."""
    how, rows = one
    if how in ("null", "keep"):
        await table.upsert(rows, missing=how)  # type: ignore[arg-type]
    elif how == "delete":
        await table.delete(keys=[{"id": row["id"]} for row in rows])
    elif how == "where":
        await table.delete(f"id > {rows[0]['id']}")
    elif how == "compact":
        await table.compact(full=True)
    elif how == "overwrite":
        await table.overwrite(rows)
    else:
        await table.create_tag("t", replace=True)


def acted(before: dict[int, Row], one: _Act) -> dict[int, Row]:
    """The rows after it."""
    how, rows = one
    if how == "keep":
        return changed(before, rows)
    whole = [{**dict.fromkeys(SCHEMA.names), **row} for row in rows]
    if how == "null":
        return {**before, **by_id(whole)}
    if how == "delete":
        return {key: row for key, row in before.items() if key not in by_id(rows)}
    if how == "where":
        return {key: row for key, row in before.items() if key <= rows[0]["id"]}
    return by_id(whole) if how == "overwrite" else before


_world: dict[str, World] = {}


async def _raced(some: list[Row], acts: list[_Act]) -> None:
    if "world" not in _world:
        _world["world"] = await saved(await made())
    store = await restored(_world["world"])
    hooked = StepIn(store)
    table, other = await table_of(hooked), await table_of(store)
    left = list(acts)

    async def step_in() -> None:
        await act(other, left.pop(0))
        if left:
            hooked.before(0, "/snapshot/snapshot-", step_in, verb="put_if_absent")

    hooked.before(0, "/snapshot/snapshot-", step_in, verb="put_if_absent")
    done = await table.upsert(some, missing="keep")
    expected = by_id(FIRST)
    for one in acts[: len(acts) - len(left)]:
        expected = acted(expected, one)
    assert await rows_of(store) == changed(expected, some)
    files = (await (await table_of(store)).files())["path"].to_pylist()
    assert set(files) <= await stored(store)
    assert done.snapshot == await other.current_snapshot()


@settings(max_examples=40, deadline=None)
@given(some=_rows, acts=st.lists(_acts, min_size=1, max_size=2))
def test_keeping_is_reading_changing_and_writing_at_once(some: list[Row], acts: list[_Act]) -> None:
    """Whatever others commit between the look and the commit, the result is that of the upsert after it."""
    asyncio.run(_raced(some, acts))


async def test_many_processes_add_to_one_row_and_lose_nothing() -> None:
    """Eight processes that each set a column of their own, again and again, leave all eight set."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    schema = pa.schema([("id", pa.int64()), *((f"n{who}", pa.int64()) for who in range(8))])
    await lake.create_table(NAME, schema, primary_key="id")

    async def work(who: int) -> None:
        table = await table_of(store)
        for number in range(4):
            await table.upsert([{"id": 1, f"n{who}": number}, {"id": who + 10, "n0": number}], missing="keep")

    await asyncio.gather(*map(work, range(8)))
    assert (await rows_of(store))[1] == {"id": 1, **{f"n{who}": 3 for who in range(8)}}


async def test_what_others_commit_to_other_keys_needs_no_second_look() -> None:
    """A commit whose files cannot hold the keys changes nothing; one that may hold them is looked into."""
    for other_id, looks in ((50, False), (2, True)):
        store = await made()
        calls = RecordingStore(store)
        hooked = StepIn(calls)
        table = await table_of(hooked)
        await table.scan().to_arrow()

        async def step_in(
            store: ObjectStore = store, other_id: int = other_id, calls: RecordingStore = calls
        ) -> None:
            await (await table_of(store)).upsert([{"id": other_id, "a": 1, "b": "other"}], missing="keep")
            calls.clear()

        hooked.before(0, "/snapshot/snapshot-", step_in, verb="put_if_absent")
        await table.upsert([{"id": 2, "a": 20}], missing="keep")
        data = [call.verb for call in calls.calls if "/data/" in call.key]
        assert bool(data) is looks
        assert (await rows_of(store))[2]["b"] == ("other" if looks else "b2")


async def test_rows_that_others_took_away_are_new_rows() -> None:
    """Files that are gone hold no value to keep, also where no new file tells so."""
    store = await made()
    hooked = StepIn(store)
    table, other = await table_of(hooked), await table_of(store)

    async def step_in() -> None:
        await other.overwrite([])

    hooked.before(0, "/snapshot/snapshot-", step_in, verb="put_if_absent")
    await table.upsert([{"id": 2, "a": 20}], missing="keep")
    assert await rows_of(store) == changed({}, [{"id": 2, "a": 20}])


async def test_a_change_of_the_schema_is_taken_up() -> None:
    """A column that is added meanwhile is kept as well; rows that cannot be read again are a conflict."""
    for again in (True, False):
        store = await made()
        hooked = StepIn(store)
        table, other = await table_of(hooked), await table_of(store)

        async def step_in(other: Table = other) -> None:
            await other.add_column("d", "int")
            await other.upsert([{**FIRST[2], "d": 4}])

        hooked.before(0, "/snapshot/snapshot-", step_in, verb="put_if_absent")
        rows: list[Row] = [{"id": 2, "a": 20}]
        if again:
            await table.upsert(rows, missing="keep")
            assert (await rows_of(store))[2] == {**FIRST[2], "a": 20, "d": 4}
        else:
            with pytest.raises(ConflictError, match="write them again"):
                await table.upsert(iter(rows), missing="keep")
            assert (await rows_of(store))[2] == {**FIRST[2], "d": 4}


async def test_files_that_were_given_up_are_deleted() -> None:
    """Of a write that was decided twice the first files are gone when it is committed."""
    store = await made()
    hooked = StepIn(store)
    table, other = await table_of(hooked), await table_of(store)

    async def step_in() -> None:
        await other.upsert([{"id": 2, "a": 1, "b": "other"}], missing="keep")

    hooked.before(0, "/snapshot/snapshot-", step_in, verb="put_if_absent")
    await table.upsert([{"id": 2, "a": 20}], missing="keep")
    assert await stored(store) == set((await other.files())["path"].to_pylist())


# --- once, and at what cost -----------------------------------------------------------


async def test_a_sequence_is_written_once() -> None:
    """A write with a sequence that was committed changes nothing, whatever came since, from any process."""
    store = await made()
    first = await (await table_of(store)).upsert([{"id": 2, "a": 20}], missing="keep", writer=("w", 1))
    await (await table_of(store)).upsert([{"id": 2, "a": 21}], missing="keep")
    again = await (await table_of(store)).upsert([{"id": 2, "a": 20}], missing="keep", writer=("w", 1))
    assert (again.snapshot, again.changed) == (first.snapshot, False)
    assert (await rows_of(store))[2] == {**FIRST[2], "a": 21}
    empty = await (await table_of(store)).upsert([], missing="keep", writer=("w", 2))
    assert empty.changed


async def _cost(upsert: Callable[[Table], Awaitable[Any]]) -> tuple[dict[str, int], int]:
    store = await made()
    calls = RecordingStore(store)
    table = await table_of(calls)
    await table.current_snapshot()
    calls.clear()
    done = await upsert(table)
    verbs = [call.verb for call in calls.calls if "LATEST" not in call.key]
    return {verb: verbs.count(verb) for verb in sorted(set(verbs))}, done.cost.requests


async def test_what_is_kept_is_paid_for_and_counted() -> None:
    """Keeping takes a look for a newer head and a request for each file that may have the keys, beside what
    a plain upsert takes, and rows that lack nothing are written without a look."""
    plain, of_plain = await _cost(lambda table: table.upsert([FIRST[2]]))
    whole, of_whole = await _cost(lambda table: table.upsert([FIRST[2]], missing="keep"))
    kept, of_kept = await _cost(lambda table: table.upsert([{"id": 2, "a": 1}], missing="keep"))
    assert whole == plain
    assert of_whole == of_plain
    more = {verb: kept.get(verb, 0) - plain.get(verb, 0) for verb in {*kept, *plain}}
    assert {verb: count for verb, count in more.items() if count} == {"get": 1, "get_range": 1}
    assert of_kept == of_plain + 2
