"""Expiry of partitions: which rows go, and how."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.storage.table import Table
from lakehouse.testing import RecordingStore
from tests.kit.worlds import NAME, process, restored, table_of

DATE = pa.date32()
DAYS = [dt.date(2026, 1, day) for day in range(1, 6)]
KEYED = {"primary_key": ["id", "day"], "partition_by": "day"}
MOVING = {"primary_key": ["id"], "partition_by": "day"}
APPENDED = {"partition_by": "day"}


async def made(kind: pa.DataType = DATE, values: list[Any] = DAYS, **layout: Any) -> Table:
    """A table of five partitions with two rows each."""
    lake = process(await restored({}))
    await lake.create_database("db")
    schema = pa.schema({"id": pa.int64(), "day": kind, "region": pa.string()})
    table = await lake.create_table(NAME, schema, **layout)
    rows = [
        {"id": 10 * place + n, "day": value, "region": "x"}
        for place, value in enumerate(values)
        for n in (1, 2)
    ]
    await table.append(rows)
    return table


async def days(table: Table) -> list[Any]:
    """The values of the partition column of all rows."""
    return sorted(row["day"] for row in await table.scan().to_pylist())


@pytest.mark.parametrize("layout", [KEYED, MOVING, APPENDED], ids=["keyed", "moving", "appended"])
async def test_rows_of_old_partitions_go(layout: dict[str, Any]) -> None:
    """Rows from before the moment are gone, all others are there, and the report counts what went."""
    table = await made(**layout)
    before = await table.current_snapshot()
    would = await table.expire_partitions(dt.date(2026, 1, 3), dry_run=True)
    assert (would.partitions, would.files, would.rows) == (2, 2, 4)
    assert await table.current_snapshot() == before
    done = await table.expire_partitions(dt.date(2026, 1, 3))
    assert (done.partitions, done.files, done.rows, done.changed) == (2, 2, 4, True)
    assert done.bytes == would.bytes > 0
    assert await days(table) == sorted(DAYS[2:] * 2)
    assert len(await table.scan(snapshot=before).to_pylist()) == 10
    assert not (await table.expire_partitions("2026-01-03")).changed or layout is MOVING


@pytest.mark.parametrize("layout", [KEYED, APPENDED], ids=["keyed", "appended"])
async def test_whole_files_are_removed_unread(layout: dict[str, Any]) -> None:
    """Where partitions are independent no data file is read or written."""
    table = await made(**layout)
    store = RecordingStore(table._table.env.store)
    again = await table_of(store)
    await again.expire_partitions("2026-01-04")
    assert not [one for one in store.calls if "/data/" in one.key]
    assert len((await table.files()).to_pylist()) == 2


@pytest.mark.parametrize(
    ("kind", "moment"),
    [(pa.timestamp("us", tz="UTC"), dt.UTC), (pa.timestamp("us"), None)],
    ids=["timestamp", "timestamp_ntz"],
)
async def test_moments_partition_too(kind: pa.DataType, moment: dt.tzinfo | None) -> None:
    """A partition column may be a timestamp, with a zone or without."""
    values = [dt.datetime(2026, 1, day, 12, tzinfo=moment) for day in range(1, 4)]
    table = await made(kind, values, **APPENDED)
    assert (await table.expire_partitions("2026-01-02 12:00")).partitions == 1
    assert await days(table) == sorted(values[1:] * 2)
    when = dt.datetime(2026, 1, 3, tzinfo=dt.UTC)
    assert (await table.expire_partitions(int(when.timestamp() * 1000))).partitions == 1
    assert await days(table) == values[2:] * 2


async def test_texts_are_compared_as_texts() -> None:
    """A column of texts such as 20260101 is asked for by its name and compared with a text."""
    table = await made(pa.string(), ["20260101", "20260102", "20260103"], **APPENDED)
    with pytest.raises(InvalidInputError, match="needs one partition column"):
        await table.expire_partitions("20260102")
    with pytest.raises(InvalidInputError, match="day is text"):
        await table.expire_partitions(20260102, column="day")
    await table.expire_partitions("20260102", column="day")
    assert await days(table) == ["20260102", "20260102", "20260103", "20260103"]


@pytest.mark.parametrize("wrong", [{"column": "id"}, {"column": "dy"}])
async def test_other_columns_are_refused(wrong: dict[str, Any]) -> None:
    """Only partition columns tell which partitions are old."""
    table = await made(**APPENDED)
    with pytest.raises(InvalidInputError, match="not a partition column"):
        await table.expire_partitions("2026-01-01", **wrong)
    with pytest.raises(InvalidInputError, match="older_than"):
        await table.expire_partitions([1])  # type: ignore[arg-type]
