"""Tables of all sorts for tests of SQL, and a DuckDB with the same rows, which is the oracle."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from lakehouse.config import Settings
from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.storage.schema import AddColumn, DropColumn, RenameColumn, WidenColumn
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock, memory_store
from tests.kit.timed_store import TimedStore

__all__ = ["MAKERS", "SqlTables", "sql_tables"]

ROWS = pa.schema(
    {
        "id": pa.int64(),
        "day": pa.date32(),
        "amount": pa.decimal128(12, 2),
        "region": pa.string(),
        "seen": pa.timestamp("us", tz="UTC"),
        "flag": pa.bool_(),
        "size": pa.int32(),
    }
)
"""Columns of most tables."""
_NOW_MS = 1_767_231_000_000
"""Half past one in the morning of the first day."""
_REGIONS = ("north", "south", None, "o'est")


def rows_of(first: int, last: int, factor: int = 1) -> pa.Table:
    """Rows with these ids, other values for another factor."""
    numbers = range(first, last)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "id": list(numbers),
            "day": [dt.date(2026, 1, 1 + number % 4) for number in numbers],
            "amount": [decimal.Decimal(number * factor).scaleb(-2) for number in numbers],
            "region": [_REGIONS[number * factor % 4] for number in numbers],
            "seen": [start + dt.timedelta(minutes=number) for number in numbers],
            "flag": [None if number % 5 == 0 else number % 2 == 0 for number in numbers],
            "size": [number % 7 for number in numbers],
        },
        ROWS,
    )


async def _keyed(lake: Lake) -> Table:
    """Several runs in two buckets, rows that were replaced and deleted, and a bucket that was compacted."""
    table = await lake.create_table("db.keyed", ROWS, primary_key="id", bucket=2)
    await table.upsert(rows_of(0, 60))
    await table.upsert(rows_of(40, 80, 3))
    await table.compact()
    await table.delete(keys=[{"id": number} for number in (3, 5, 41)])
    await table.upsert(rows_of(100, 110, 7))
    return table


async def _compacted(lake: Lake) -> Table:
    table = await lake.create_table("db.compacted", ROWS, primary_key="id", bucket=3)
    await table.upsert(rows_of(0, 50))
    await table.upsert(rows_of(25, 90, 5))
    await table.compact(full=True)
    return table


async def _blocks(lake: Lake) -> Table:
    """SSTables above Parquet files."""
    options = {"file.format.level0": "sst"}
    table = await lake.create_table("db.blocks", ROWS, primary_key="id", bucket=2, options=options)
    await table.upsert(rows_of(0, 40))
    await table.compact(full=True)
    await table.upsert(rows_of(30, 50, 3))
    return table


async def _appended(lake: Lake) -> Table:
    table = await lake.create_table("db.appended", ROWS)
    for first in (0, 20, 40):
        await table.append(rows_of(first, first + 20))
    await table.delete(where="id = 25")
    return table


async def _partitioned(lake: Lake) -> Table:
    """A partition for each day, of which some have one file and some have two that overlap."""
    table = await lake.create_table("db.partitioned", ROWS, primary_key=["id", "day"], partition_by="day")
    await table.upsert(rows_of(0, 40))
    await table.upsert(rows_of(0, 2, 5))
    return table


async def _moving(lake: Lake) -> Table:
    """Partitions that a key may move between."""
    table = await lake.create_table("db.moving", ROWS, primary_key="id", partition_by="region")
    rows = rows_of(0, 40)
    named = rows.set_column(3, "region", pa.array([text or "" for text in rows["region"].to_pylist()]))
    await table.upsert(named)
    await table.upsert(named.slice(3, 4).set_column(3, "region", pa.array(["west"] * 4)))
    return table


async def _evolved(lake: Lake) -> Table:
    """Columns that were renamed, widened, dropped, made again and added with a default."""
    table = await lake.create_table("db.evolved", ROWS, primary_key="id", bucket=2)
    await table.upsert(rows_of(0, 30))
    await table.alter(
        RenameColumn("region", "place"),
        WidenColumn("size", pa.int64()),
        DropColumn("flag"),
        AddColumn("note", pa.string(), default="none"),
    )
    more = rows_of(50, 60).drop_columns(["flag", "region"])
    more = more.append_column("note", pa.array(["it's"] * 10)).append_column("place", pa.array(["x"] * 10))
    await table.upsert(more)
    await table.alter(
        AddColumn("flag", pa.int32()), AddColumn("since", pa.date32(), default=dt.date(2026, 2, 3))
    )
    await table.upsert([{"id": 70, "flag": 4}], missing="null")
    return table


async def _lasting(lake: Lake) -> Table:
    """Rows of which the older ones are not shown any more."""
    options = {"record.ttl_s": 3600, "record.time_field": "seen"}
    table = await lake.create_table("db.lasting", ROWS, primary_key="id", options=options)
    await table.upsert(rows_of(0, 100))
    return table


async def _summed(lake: Lake) -> Table:
    """Rows that are folded."""
    options = {"merge_engine": "aggregation", "fields.total.aggregate": "sum"}
    schema = pa.schema({"id": pa.int64(), "total": pa.int64()})
    table = await lake.create_table("db.summed", schema, primary_key="id", options=options)
    for first in (0, 5, 20):
        await table.upsert(pa.table({"id": list(range(first, first + 10)), "total": list(range(10))}, schema))
    return table


async def _nested(lake: Lake) -> Table:
    schema = pa.schema(
        {
            "id": pa.int32(),
            "place": pa.struct({"city": pa.string(), "at": pa.list_(pa.float64())}),
            "tags": pa.list_(pa.string()),
            "counts": pa.map_(pa.string(), pa.int64()),
            "raw": pa.binary(),
            "clock": pa.time64("us"),
        }
    )
    table = await lake.create_table("db.nested", schema, primary_key="id")
    row = {"place": {"city": "Ulm", "at": [1.5]}, "tags": ["a", None], "counts": [("x", 1)], "raw": b"\0\xff"}
    await table.upsert([{"id": 1, **row, "clock": dt.time(12, 30)}, {"id": 2}], missing="null")
    await table.upsert([{"id": 2, "tags": []}], missing="null")
    return table


async def _empty(lake: Lake) -> Table:
    return await lake.create_table("db.empty", ROWS, primary_key="id")


MAKERS = {
    make.__name__.removeprefix("_"): make
    for make in (
        *(_keyed, _compacted, _blocks, _appended, _partitioned, _moving, _evolved),
        *(_lasting, _summed, _nested, _empty),
    )
}
"""What makes each table, by its name in the database ``db``."""


@dataclass(frozen=True, slots=True)
class SqlTables:
    """A lake, and a DuckDB with the same rows."""

    lake: Lake
    oracle: duckdb.DuckDBPyConnection

    async def copy(self, name: str) -> None:
        """Gives the oracle the rows that a scan of a table has."""
        table = await self.lake.table(name)
        rows = await table.scan().to_arrow()
        self.oracle.register("arrived", rows)
        self.oracle.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM arrived")
        self.oracle.unregister("arrived")

    async def check(
        self, text: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None, **where: Any
    ) -> pa.Table:
        """Asks both and compares their rows, in any order; returns ours."""
        result = await self.lake.sql(text, parameters, **where)
        ours = await result.to_arrow()
        theirs = self.oracle.sql(text, params=parameters).to_arrow_table()
        assert ours.schema.names == theirs.schema.names
        assert ours.schema.types == theirs.schema.types, (ours.schema, theirs.schema)
        assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist())), text
        return ours


@contextlib.asynccontextmanager
async def sql_tables(
    *names: str, store: ObjectStore | None = None, settings: Any = None, clock: ManualClock | None = None
) -> AsyncIterator[SqlTables]:
    """A lake with these tables, and its oracle."""
    clock = clock or ManualClock(now_ms=_NOW_MS)
    timed = TimedStore(memory_store(), clock.now_ms()) if store is None else store
    async with Lake(timed, settings=Settings.resolve(settings or {}), clock=clock) as lake:
        await lake.create_database("db")
        with duckdb.connect() as oracle:
            oracle.execute("CREATE SCHEMA db; SET TimeZone = 'UTC'")
            tables = SqlTables(lake, oracle)
            for name in names:
                await MAKERS[name](lake)
                await tables.copy(f"db.{name}")
            yield tables
