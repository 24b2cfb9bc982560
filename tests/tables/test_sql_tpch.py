"""The 22 queries of TPC-H, over tables of ours: of one run or of several, with a key or without."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from lakehouse.lake import Lake
from lakehouse.testing import memory_store
from tests.kit.tpch import KEYS, tpch_tables

_QUERIES = sorted((Path(__file__).parents[1] / "data" / "tpch").glob("q*.sql"))
_RUNS = {"lineitem", "orders", "partsupp"}
"""Tables with two runs in each bucket, which are merged."""
_KEYLESS = {"nation", "region"}


async def _made(lake: Lake, name: str, rows: pa.Table) -> None:
    how: dict[str, Any] = {} if name in _KEYLESS else {"primary_key": KEYS[name], "bucket": 2}
    table = await lake.create_table(f"tpch.{name}", rows.schema, **how)
    await table.append(rows)
    if name in _RUNS:
        await table.append(rows.slice(0, rows.num_rows // 5))


def _shown(rows: pa.Table) -> list[str]:
    """Rows as text, in order of their text; sums of doubles may differ in their last digits."""
    values = [
        tuple(round(value, 6) if isinstance(value, float) else value for value in row.values())
        for row in rows.to_pylist()
    ]
    return sorted(map(repr, values))


async def test_all_queries_answer_as_duckdb_does() -> None:
    """Each query over our tables gives the rows that DuckDB gives over tables of its own."""
    assert len(_QUERIES) == 22
    tables = tpch_tables()
    async with Lake(memory_store()) as lake:
        await lake.create_database("tpch")
        await asyncio.gather(*(_made(lake, name, rows) for name, rows in tables.items()))
        empty = []
        with duckdb.connect() as oracle:
            for name, rows in tables.items():
                oracle.register("arrived", rows)
                oracle.execute(f"CREATE TABLE {name} AS SELECT * FROM arrived")
            for path in _QUERIES:
                text = path.read_text()
                result = await lake.sql(text, database="tpch")
                ours, theirs = await result.to_arrow(), oracle.sql(text).to_arrow_table()
                assert ours.schema.equals(theirs.schema), path.name
                assert _shown(ours) == _shown(theirs), path.name
                empty += [path.name] * (ours.num_rows == 0)
    assert empty == [], "queries that find nothing prove nothing"
