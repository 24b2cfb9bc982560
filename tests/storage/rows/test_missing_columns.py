"""Columns that rows come without: refused where an older row would lose a value, in every way of writing."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import lakehouse.sync
from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.io import ObjectStore
from lakehouse.storage.rows.missing_columns import columns_lost
from lakehouse.storage.schema.evolution import AddColumn
from lakehouse.storage.table import Table
from tests.kit.worlds import NAME, process, restored, table_of

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "price": pa.float64()})
LAMP = {"id": 1, "name": "lamp", "price": 9.5}


async def made(**more: Any) -> tuple[ObjectStore, Table]:
    """A table with a lamp."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, **{"primary_key": "id", **more})
    await table.append([LAMP])
    return store, table


async def rows_of(store: ObjectStore) -> list[dict[str, Any]]:
    """What a process reads that opens the table afresh."""
    found = await (await table_of(store)).scan(freshness="wal").to_pylist()
    return sorted(found, key=lambda row: row["id"])


async def _of_batches() -> AsyncIterator[pa.RecordBatch]:
    yield pa.record_batch({"id": [2], "name": ["rug"], "price": [1.0]})
    yield pa.record_batch({"id": [1], "price": [10.0]})


async def _of_dicts() -> AsyncIterator[dict[str, Any]]:
    yield {"id": 2, "name": "rug", "price": 1.0}
    yield {"id": 1, "price": 10.0}


NARROW: dict[str, Callable[[], object]] = {
    "table": lambda: pa.table({"id": [1], "price": [10.0]}),
    "batch": lambda: pa.record_batch({"id": [1], "price": [10.0]}),
    "reader": lambda: pa.table({"id": [1], "price": [10.0]}).to_reader(),
    "columns": lambda: {"id": [1], "price": [10.0]},
    "rows": lambda: [{"id": 1, "price": 10.0}],
    "some rows": lambda: [{"id": 2, "name": "rug", "price": 1.0}, {"price": 10.0, "id": 1}],
    "frame": lambda: pd.DataFrame({"id": [1], "price": [10.0]}),
    "generator": lambda: ({"id": 1, "price": 10.0} for _ in range(1)),
    "batches": _of_batches,
    "dicts": _of_dicts,
}


@pytest.mark.parametrize("form", NARROW)
@pytest.mark.parametrize("call", ["upsert", "append", "put"])
async def test_rows_that_lack_a_column_are_refused(form: str, call: str) -> None:
    """Whatever rows come in and by whatever call, the column is named and nothing is written."""
    store, table = await made()
    before = {one.key async for one in store.list("")}
    async with table.writer() as writer:
        calls = {"upsert": table.upsert, "append": table.append, "put": writer.put}
        with pytest.raises(
            InvalidInputError, match=r"no column 'name'.*missing='keep'.*missing='null'"
        ) as refused:
            await calls[call](NARROW[form]())
    assert refused.value.context["columns"] == ("name",)
    if form in ("some rows", "dicts"):
        assert refused.value.context["row"] == 1
    assert await rows_of(store) == [LAMP]
    after = {one.key async for one in store.list("")}
    assert not [key for key in after - before if "/data/" in key]


@pytest.mark.parametrize("call", ["upsert", "append", "put"])
async def test_null_is_written_where_the_caller_says_so(call: str) -> None:
    """With ``missing="null"`` what is left out becomes null, in some rows and in all."""
    store, table = await made()
    rows = [{"id": 1, "price": 10.0}, {"id": 2, "name": "rug", "price": 1.0}]
    if call == "put":
        async with table.writer() as writer:
            await writer.put(rows, missing="null")
            await writer.put(pa.table({"id": [3]}), missing="null")
    else:
        await getattr(table, call)(rows, missing="null")
        await getattr(table, call)(pa.table({"id": [3]}), missing="null")
    assert await rows_of(store) == [
        {"id": 1, "name": None, "price": 10.0},
        {"id": 2, "name": "rug", "price": 1.0},
        {"id": 3, "name": None, "price": None},
    ]


async def test_a_null_that_is_given_is_a_value() -> None:
    """A row that says null has the column."""
    store, table = await made()
    await table.upsert([{"id": 1, "name": None, "price": 10.0}])
    assert await rows_of(store) == [{"id": 1, "name": None, "price": 10.0}]


async def test_a_column_with_a_default_is_never_missing() -> None:
    """Its owner has said what rows have that come without it."""
    store, table = await made()
    await table.alter(AddColumn("currency", "string", default="EUR"))
    await table.upsert([LAMP])
    await table.upsert([{**LAMP, "id": 2}, {**LAMP, "id": 3, "currency": "CHF"}])
    assert [row["currency"] for row in await rows_of(store)] == ["EUR", "EUR", "CHF"]


async def test_a_misspelt_column_is_named_as_such() -> None:
    """A name that the table does not have is what the error is about, not the column that was meant."""
    _, table = await made()
    with pytest.raises(InvalidInputError, match="no column 'namex'; did you mean 'name'"):
        await table.upsert([{"id": 1, "namex": "lamp", "price": 1.0}])


async def test_names_may_differ_in_case() -> None:
    """A column whose name is written in other letters is there."""
    store, table = await made()
    await table.upsert([{"ID": 1, "Name": "lamp", "PRICE": 3.0}])
    assert await rows_of(store) == [{"id": 1, "name": "lamp", "price": 3.0}]


async def test_rows_that_replace_none_may_lack_columns() -> None:
    """Inserts of new keys, overwrites, deletes by key and tables without a key lose no older value."""
    store, table = await made()
    await table.append([{"id": 2}], on_conflict="error")
    await table.delete(keys=[{"id": 1}])
    assert await rows_of(store) == [{"id": 2, "name": None, "price": None}]
    await table.overwrite([{"id": 3, "name": "rug"}])
    assert await rows_of(store) == [{"id": 3, "name": "rug", "price": None}]
    store, table = await made(primary_key=())
    await table.append([{"id": 1}])
    async with table.writer() as writer:
        await writer.put([{"id": 4}])
    assert [row["name"] for row in await rows_of(store)] == ["lamp", None, None]


async def test_error_that_is_asked_for_holds_everywhere() -> None:
    """``missing="error"`` is not ignored where the table itself would take the rows."""
    _, table = await made(primary_key=())
    with pytest.raises(InvalidInputError, match="no column 'name', 'price'"):
        await table.append([{"id": 1}], missing="error")
    _, table = await made()
    with pytest.raises(InvalidInputError, match="no column 'name'"):
        await table.append([{"id": 2, "price": 1.0}], on_conflict="error", missing="error")
    _, table = await made(options={"merge_engine": "partial-update"})
    with pytest.raises(InvalidInputError, match="no column 'name'"):
        await table.upsert([{"id": 2, "price": 1.0}], missing="error")


async def test_what_a_call_cannot_do_is_refused() -> None:
    """A word that means nothing, and ``keep`` where nothing is read or there is nothing to keep."""
    _, table = await made()
    for call in (table.upsert, table.append):
        with pytest.raises(InvalidInputError, match="'error', 'null' or 'keep', not 'drop'"):
            await call([LAMP], missing="drop")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="older rows, and with on_conflict='error' there are none"):
        await table.append([LAMP], on_conflict="error", missing="keep")
    async with table.writer() as writer:
        with pytest.raises(InvalidInputError, match=r"a put is durable with one request .*use upsert"):
            await writer.put([LAMP], missing="keep")
    _, table = await made(primary_key=())
    with pytest.raises(InvalidInputError, match="missing='keep' needs a primary key"):
        await table.append([LAMP], missing="keep")


ENGINES = {
    "first-row": ({"merge_engine": "first-row"}, {"a"}, ()),
    "partial-update": ({"merge_engine": "partial-update"}, {"a"}, ()),
    "sequence given": (
        {"merge_engine": "partial-update", "fields.at.sequence_group": "b,c"},
        {"a", "at", "b"},
        ("c",),
    ),
    "sequence not given": (
        {"merge_engine": "partial-update", "fields.at.sequence_group": "b,c"},
        {"a", "b"},
        (),
    ),
    "aggregation": ({"merge_engine": "aggregation", "fields.b.aggregate": "sum"}, {"a"}, ()),
    "last value": (
        {"merge_engine": "aggregation", "fields.b.aggregate": "last_value"},
        {"a"},
        ("b",),
    ),
    "deduplicate by sequence": ({"sequence.field": "at"}, {"a", "at"}, ("b", "c")),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_say_which_columns_lose_a_value(engine: str) -> None:
    """Where an engine takes null for no change a column may be left out, and not where null is a value."""
    options, given, lost = ENGINES[engine]
    columns = {"id": pa.int64(), "a": pa.int64(), "b": pa.int64(), "c": pa.int64(), "at": pa.timestamp("us")}
    schema = schema_from_arrow(pa.schema(columns), primary_key="id", options=options)
    assert columns_lost(schema, {"id", *given}) == lost
    assert columns_lost(schema, set(columns)) == ()


async def test_an_engine_refuses_null_where_it_is_a_value() -> None:
    """A member of a sequence group whose sequence is given would become null: it is refused, by any word."""
    options = {"merge_engine": "partial-update", "fields.at.sequence_group": "stock"}
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    columns = {"id": pa.int64(), "name": pa.string(), "stock": pa.int64(), "at": pa.timestamp("us")}
    table = await lake.create_table(NAME, pa.schema(columns), primary_key="id", options=options)
    day = dt.datetime(2026, 1, 1)
    await table.upsert([{"id": 1, "stock": 5, "at": day}])
    for missing in (None, "keep"):
        with pytest.raises(InvalidInputError, match="no column 'stock', and a null there counts"):
            await table.upsert([{"id": 1, "at": day}], missing=missing)  # type: ignore[arg-type]
    await table.upsert([{"id": 1, "name": "lamp"}])
    await table.upsert([{"id": 1, "name": "rug"}], missing="keep")
    assert await rows_of(store) == [{"id": 1, "name": "rug", "stock": 5, "at": day}]
    await table.upsert([{"id": 1, "at": day}], missing="null")
    assert (await rows_of(store))[0]["stock"] is None


def test_the_same_without_await() -> None:
    """``lakehouse.sync`` refuses, keeps and writes null as well."""
    with lakehouse.sync.connect("memory://missing-sync") as lake:
        lake.create_database("db")
        table = lake.create_table(NAME, SCHEMA, primary_key="id")
        table.append([LAMP])
        with pytest.raises(InvalidInputError, match="no column 'name'"):
            table.upsert([{"id": 1, "price": 10.0}])
        table.upsert([{"id": 1, "price": 10.0}], missing="keep")
        assert table.get({"id": 1}) == {**LAMP, "price": 10.0}
        table.append([{"id": 1, "price": 11.0}], missing="null")
        with table.writer() as writer:
            with pytest.raises(InvalidInputError, match="no column 'name'"):
                writer.put([{"id": 1, "price": 10.0}])
            writer.put([{"id": 2}], missing="null")
        assert table.get({"id": 1}) == {"id": 1, "name": None, "price": 11.0}
