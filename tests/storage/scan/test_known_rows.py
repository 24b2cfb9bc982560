"""How many rows relations say a table has: exactly what a scan counts, or nothing."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lakehouse.lake import Lake
from lakehouse.storage.scan.known_rows import rows_of_view
from lakehouse.storage.table import Table
from tests.kit.worlds import NAME, process, restored

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.int64()})
QUIET = {"compaction.auto": "off"}


async def made(lake: Lake, **how: object) -> Table:
    """A table that nobody compacts by itself."""
    await lake.create_database("db", if_not_exists=True)
    return await lake.create_table(NAME, SCHEMA, options=QUIET, **how)  # type: ignore[arg-type]


def rows(*ids: int, v: int = 0) -> list[dict[str, object]]:
    """Rows with these keys, in one of two partitions."""
    return [{"id": one, "part": "ab"[one % 2], "v": v} for one in ids]


async def said(table: Table) -> tuple[int | None, int]:
    """The rows of the newest snapshot, and those that are stored."""
    newest = (await table.snapshots()).to_pylist()[-1]
    return newest["rows"], newest["stored_rows"]


async def test_rows_are_not_those_that_are_stored() -> None:
    """Of 100 rows, 50 upserted and 10 deleted 160 are stored; how many there are is known of one run."""
    table = await made(process(await restored({})), primary_key="id")
    await table.append(rows(*range(100)))
    assert await said(table) == (100, 100)
    await table.upsert(rows(*range(50), v=1))
    await table.delete(keys=[{"id": one} for one in range(10)])
    assert await table.scan().count() == 90
    assert await said(table) == (None, 160)
    (partition,) = (await table.partitions()).to_pylist()
    assert (partition["rows"], partition["stored_rows"]) == (None, 160)
    assert (await table.files())["rows"].to_pylist() == [None] * 3
    await table.compact(full=True)
    assert await said(table) == (90, 90)
    (partition,) = (await table.partitions()).to_pylist()
    assert (partition["rows"], partition["stored_rows"]) == (90, 90)


async def test_rows_without_a_key_are_known() -> None:
    """In a table without a primary key nothing hides a row: stored rows are rows, deletes or not."""
    table = await made(process(await restored({})))
    await table.append(rows(1, 2, 3))
    await table.append(rows(1, 2, 3))
    await table.delete(where="id = 1")
    assert await said(table) == (4, 4)
    assert sum((await table.files())["rows"].to_pylist()) == 4


async def test_rows_of_the_log_are_in_no_file() -> None:
    """While the log holds rows that a snapshot covers, it is not known how many there are."""
    store = await restored({})
    async with process(store) as lake:
        table = await made(lake, primary_key="id")
        await table.append(rows(1, 2))
        async with table.writer() as writer:
            await (await writer.put(rows(2, 3)))
            await table.create_tag("covers")
            assert await said(table) == (None, 2)
            assert await rows_of_view(await table.core.view()) is None
            assert (await table.files())["rows"].to_pylist() == [None]
        await table.flush()
        await table.compact(full=True)
        assert await said(table) == (3, 3)


async def test_rows_that_age_are_not_known() -> None:
    """Where rows are shown for some time only, files do not tell how many there are."""
    lake = process(await restored({}))
    await lake.create_database("db")
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("ms", tz="UTC")})
    options = {"record.ttl_s": 60, "record.time_field": "at"}
    table = await lake.create_table(NAME, schema, primary_key="id", options=options)
    await table.append(pa.table({"id": [1], "at": pa.array([0], schema.field("at").type)}))
    assert await table.scan().count() == 0
    assert await said(table) == (None, 1)
    assert (await table.partitions())["rows"].to_pylist() == [None]


@pytest.mark.parametrize("key", [("id",), ("id", "part"), ()])
async def test_what_is_said_is_what_a_scan_counts(key: tuple[str, ...]) -> None:
    """Whatever was written, numbers of rows are those of a scan, of the table and of each partition."""
    chance, known = random.Random(7), 0
    for _ in range(6):
        table = await made(process(await restored({})), primary_key=key, partition_by="part", bucket=1)
        for _ in range(6):
            ids = [chance.randrange(40) for _ in range(4)]
            begin = chance.choice([0, 40, 80])
            await table.append(rows(*{begin + one for one in ids}))
            if chance.random() < 0.3:
                await table.delete(where=f"id < {chance.randrange(60)}")
            if chance.random() < 0.2:
                await table.compact(full=True)
            count = await table.scan().count()
            told, stored = await said(table)
            assert told in (None, count)
            assert stored >= count
            assert await rows_of_view(await table.core.view()) in (None, count)
            for one in (await table.partitions()).to_pylist():
                part = (one["partition"] or {}).get("part")
                if part is not None and one["rows"] is not None:
                    assert one["rows"] == await table.scan(f"part = '{part}'").count()
            known += told is not None
    assert known > 5
