"""Rows that are hidden once they are old, from every way of reading."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import AlreadyExistsError
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.cdc.snapshot_diff import CHANGE_COLUMN
from lakehouse.storage.schema.row_ttl import lifetime, may_drop_hidden
from lakehouse.storage.table import Table
from lakehouse.testing import memory_store

HOUR = dt.timedelta(hours=1)
COLUMNS = {"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "v": pa.int64()}
TTL = {"record.ttl_s": "3600", "record.time_field": "at"}


async def made(options: dict[str, str] | None = None, **about: Any) -> Table:
    """A table whose rows live for an hour."""
    lake = Lake(stacked(memory_store()))
    await lake.create_database("db")
    about = {"primary_key": "id", **about}
    return await lake.create_table("db.t", pa.schema(COLUMNS), options={**TTL, **(options or {})}, **about)


def row(number: int, hours: float | None, v: int = 0) -> dict[str, Any]:
    """A row of so many hours ago."""
    at = None if hours is None else dt.datetime.now(dt.UTC) - hours * HOUR
    return {"id": number, "at": at, "v": v}


async def ids(table: Table, where: str | None = None, **at: Any) -> list[int]:
    """The keys that a scan finds."""
    return sorted(found["id"] for found in await table.scan(where, columns=["id"], **at).to_pylist())


async def test_old_rows_are_hidden() -> None:
    """Scans, counts and lookups show rows that are young enough, and those without a time."""
    table = await made()
    await table.upsert([row(1, 2), row(2, 0.5), row(3, None), row(4, -1)])
    assert await ids(table) == [2, 3, 4]
    assert await ids(table, "id <= 2 or v > 0") == [2]
    assert await table.scan().count() == 3
    assert await table.get({"id": 1}) is None
    assert await table.get({"id": 2}, columns=["v"]) == {"v": 0}
    keys = [{"id": number} for number in range(5)]
    found = await table.get_many(keys, columns=["v", "id"])
    assert found.to_pylist() == [{"v": 0, "id": number} for number in (2, 3, 4)]


async def test_an_old_row_still_hides_an_older_one() -> None:
    """Of a key the newest row counts: it being hidden brings no other to light."""
    table = await made()
    await table.upsert([row(1, 0.1, v=1)])
    await table.upsert([row(1, 5, v=2)])
    assert await ids(table) == []
    assert await table.get({"id": 1}) is None
    await table.compact(full=True)
    assert await ids(table) == []


async def test_writes_that_read_see_what_readers_see() -> None:
    """Hidden rows are neither deleted by a condition nor in the way of an insert."""
    table = await made()
    await table.upsert([row(1, 2), row(2, 0.5)])
    assert (await table.delete("v = 0")).rows == 1
    await table.append([row(1, 0)], on_conflict="error")
    with pytest.raises(AlreadyExistsError):
        await table.append([row(1, 0)], on_conflict="error")
    assert await ids(table) == [1]


async def test_engines_merge_before_rows_are_hidden() -> None:
    """What counts is the time that a row has when all is merged."""
    table = await made(
        {"merge_engine": "aggregation", "fields.v.aggregate": "sum", "fields.at.aggregate": "max"}
    )
    await table.upsert([row(1, 3, v=1), row(2, 3, v=1)])
    await table.upsert([row(1, 0.1, v=2), row(2, 2, v=2)])
    assert [one["v"] for one in await table.scan().to_pylist()] == [3]
    assert await table.get({"id": 2}) is None
    assert (await table.get_many([{"id": 1}, {"id": 2}])).column("v").to_pylist() == [3]


async def test_a_snapshot_shows_the_same_for_ever() -> None:
    """Another time to live holds from its own snapshot on."""
    table = await made()
    first = (await table.upsert([row(1, 2), row(2, 0.5)])).snapshot
    longer = (await table.set_option("record.ttl_s", 3 * 3600)).snapshot
    assert await ids(table) == [1, 2]
    assert await ids(table, snapshot=first) == [2]
    never = (await table.unset_option("record.ttl_s")).snapshot
    assert await ids(table, snapshot=longer) == [1, 2]
    assert await ids(table, snapshot=never) == [1, 2]


async def test_rows_that_age_are_changes() -> None:
    """Changes between snapshots are what differs between what they show, each key once."""
    table = await made({"record.ttl_s": "0"})
    first = (await table.upsert([row(1, 5), row(2, 2), row(3, 0.1)])).snapshot
    await table.upsert([row(2, 4, v=9), row(3, 0.1, v=9)])
    await table.rename_column("at", "when")
    last = (await table.set_option("record.ttl_s", 3600)).snapshot
    found = [one async for rows in table.changes(first, last) for one in rows.to_pylist()]
    assert sorted((one["id"], one[CHANGE_COLUMN]) for one in found) == [
        (1, "delete"),
        (2, "delete"),
        (3, "update_after"),
        (3, "update_before"),
    ]
    back = (await table.set_option("record.ttl_s", 4.5 * 3600)).snapshot
    found = [one async for rows in table.changes(last, back) for one in rows.to_pylist()]
    assert [(one["id"], one[CHANGE_COLUMN]) for one in found] == [(2, "insert")]


@pytest.mark.parametrize(
    ("kind", "shown", "hidden"),
    [
        (pa.int64(), 1_001, 1_000),
        (pa.timestamp("us"), dt.datetime(1970, 1, 1, 0, 0, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 1)),
        (
            pa.timestamp("us", "UTC"),
            dt.datetime(1970, 1, 1, 0, 0, 1, 1, dt.UTC),
            dt.datetime(1970, 1, 1, 0, 0, 1, 0, dt.UTC),
        ),
        (pa.date32(), dt.date(1970, 1, 2), dt.date(1970, 1, 1)),
    ],
)
def test_moments_of_every_kind(kind: pa.DataType, shown: object, hidden: object) -> None:
    """A row is hidden from the moment on that is its time and the time to live later."""
    options = {"record.ttl_s": "60", "record.time_field": "at"}
    schema = schema_from_arrow(pa.schema({"id": pa.int64(), "at": kind}), primary_key="id", options=options)
    shows = lifetime(schema, 61_000)
    assert shows is not None
    rows = pa.table({"id": [1, 2, 3], "at": pa.array([shown, hidden, None], kind)}, schema.arrow())
    assert shows.shown(rows).to_pylist() == [True, False, True]
    assert lifetime(schema, -(10**14)) is not None


def test_only_plain_rows_may_be_dropped() -> None:
    """Rows that later ones are merged with, or lose against, stay though nobody sees them."""
    columns = pa.schema(COLUMNS)
    for options, may in [
        (TTL, True),
        ({"record.time_field": "at"}, False),
        ({**TTL, "sequence.field": "v"}, False),
        ({**TTL, "merge_engine": "first-row"}, False),
    ]:
        assert may_drop_hidden(schema_from_arrow(columns, primary_key="id", options=options)) is may


async def test_compaction_drops_rows_that_nobody_can_see() -> None:
    """A bottom run has no hidden rows where none would be merged again; older snapshots keep theirs."""
    table = await made()
    await table.upsert([row(1, 2), row(2, 0.5)])
    before = (await table.upsert([row(3, 2)])).snapshot
    await table.compact(full=True)
    assert [one["stored_rows"] for one in (await table.files()).to_pylist()] == [1]
    assert sum(one["stored_rows"] for one in (await table.files(snapshot=before)).to_pylist()) == 3
    assert await ids(table) == await ids(table, snapshot=before) == [2]
    merged = await made({"merge_engine": "first-row"})
    await merged.upsert([row(1, 2), row(2, 0.5)])
    await merged.upsert([row(1, 0)])
    await merged.compact(full=True)
    assert [one["stored_rows"] for one in (await merged.files()).to_pylist()] == [2]
    assert await ids(merged) == [2]


async def test_tables_without_a_key_hide_old_rows_too() -> None:
    """An append-only table shows rows that are young enough."""
    table = await made(primary_key=())
    await table.append([row(1, 2), row(2, 0.5), row(2, 0.5)])
    assert await ids(table) == [2, 2]
    assert await table.scan().count() == 2
