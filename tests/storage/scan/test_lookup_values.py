"""Gets of single rows from SSTables as Python objects, beside the same rows as scans give them."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.storage.table import Table
from lakehouse.testing import memory_store
from tests.kit.worlds import process

TYPES: dict[str, pa.DataType] = {
    "flag": pa.bool_(),
    "tiny": pa.int8(),
    "whole": pa.int64(),
    "real": pa.float32(),
    "money": pa.decimal128(10, 2),
    "day": pa.date32(),
    "clock": pa.time64("us"),
    "moment": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "text": pa.string(),
    "raw": pa.binary(),
    "many": pa.list_(pa.int32()),
    "both": pa.struct({"x": pa.int32(), "y": pa.string()}),
    "by_name": pa.map_(pa.string(), pa.int64()),
}
ROW: dict[str, Any] = {
    "flag": True,
    "tiny": -7,
    "whole": 1 << 40,
    "real": 0.1,
    "money": decimal.Decimal("-12.30"),
    "day": dt.date(2026, 2, 28),
    "clock": dt.time(1, 2, 3, 4),
    "moment": dt.datetime(1969, 7, 20, 20, 17, 40, 5, tzinfo=dt.UTC),
    "local": dt.datetime(2026, 1, 1, 12),
    "text": "größer",
    "raw": b"\x00\xff",
    "many": [1, None, 3],
    "both": {"x": 1, "y": None},
    "by_name": [("a", 1), ("b", None)],
}
OPTIONS = {"file.format.level0": "sst", "compaction.auto": "off"}


async def table_of_types(file_format: str = "sst", **how: Any) -> Table:
    """A table with a column of every type, and rows with all values and with none."""
    lake = process(memory_store())
    await lake.create_database("db")
    options = {**OPTIONS, "file.format.level0": file_format}
    table = await lake.create_table(
        "db.t", pa.schema({"id": pa.int64(), **TYPES}), primary_key="id", options=options, **how
    )
    await table.append([{"id": 1, **ROW}, {"id": 2, **dict.fromkeys(TYPES)}])
    return table


@pytest.mark.parametrize("columns", [None, ["text", "id"], ["day"], ["id"], ["by_name", "flag", "money"]])
@pytest.mark.parametrize("file_format", ["sst", "parquet"])
async def test_a_get_gives_what_a_scan_gives(columns: list[str] | None, file_format: str) -> None:
    """Of any columns in any order, values and their types are the same, whatever the format."""
    table = await table_of_types(file_format)
    for number in (1, 2):
        found = await table.get({"id": number}, columns=columns)
        (expected,) = await table.scan(f"id = {number}", columns=columns).to_pylist()
        assert found == expected
        assert found is not None
        assert list(found) == list(expected)
        assert repr(found) == repr(expected)


async def test_a_get_of_rows_from_before_a_change_of_the_schema_gives_what_a_scan_gives() -> None:
    """Columns added, widened, renamed or dropped since a file was written are as a scan has them."""
    table = await table_of_types()
    await table.add_column("later", "string", default="so")
    await table.rename_column("text", "words")
    await table.widen_column("tiny", pa.int32())
    await table.drop_column("flag")
    await table.upsert([{"id": 3, "later": "new"}], missing="null")
    for number in (1, 2, 3):
        found = await table.get({"id": number})
        (expected,) = await table.scan(f"id = {number}").to_pylist()
        assert found == expected


async def test_deleted_and_unknown_keys_are_none() -> None:
    """A key that is deleted, or was never there, has no row."""
    table = await table_of_types()
    await table.delete(keys=[{"id": 1}])
    assert await table.get({"id": 1}) is None
    assert await table.get({"id": 9}) is None
    assert await table.get({"id": 2}, columns=["id"]) == {"id": 2}


async def test_rows_past_their_time_are_not_shown() -> None:
    """Record TTL hides a row from a get, as from a scan."""
    lake = process(memory_store())
    await lake.create_database("db")
    options = {**OPTIONS, "record.ttl_s": 3600, "record.time_field": "at"}
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC")})
    table = await lake.create_table("db.t", schema, primary_key="id", options=options)
    now = dt.datetime.now(dt.UTC)
    await table.append([{"id": 1, "at": now}, {"id": 2, "at": now - dt.timedelta(days=1)}])
    assert await table.get({"id": 1}, columns=["id"]) == {"id": 1}
    assert await table.get({"id": 2}, columns=["id"]) is None
