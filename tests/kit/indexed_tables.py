"""Tables with indexes, for tests: rows whose values are in no order, and tables of some files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import memory_store

__all__ = ["NAME", "SCHEMA", "SMALL", "lake_on", "rows", "table_with", "value"]

NAME = "db.t"
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "host": pa.string(),
        "n": pa.int32(),
        "message": pa.string(),
        "payload": pa.string(),
        "place": pa.struct({"city": pa.string(), "zip": pa.int32()}),
        "tags": pa.list_(pa.string()),
    }
)
SMALL = {"index.min_rows": 1}


def value(number: int) -> int:
    """What a row of this id has: in no order, and no other row has it."""
    return number * 7919 % 100_003 if number < 100_003 else number


def rows(count: int, *, first: int = 0) -> list[dict[str, Any]]:
    """Rows of these ids."""
    return [
        {
            "id": number,
            "host": f"Host-{value(number)}",
            "n": value(number),
            "message": f"request {value(number)} was served",
            "payload": json.dumps({"user": {"id": value(number)}}),
            "place": {"city": f"city-{value(number)}", "zip": value(number)},
            "tags": [],
        }
        for number in range(first, first + count)
    ]


def lake_on(store: Any) -> Lake:
    """A process that has connected."""
    return Lake(stacked(store))


async def table_with(
    indexes: Mapping[Any, Any], *, store: Any = None, files: int = 4, count: int = 500, **more: Any
) -> Table:
    """A table of some files of one run each, disjoint in their keys."""
    lake = lake_on(memory_store() if store is None else store)
    await lake.create_database("db")
    options = {"options": SMALL, "primary_key": "id", **more}
    table = await lake.create_table(NAME, SCHEMA, indexes=indexes, **options)
    for number in range(files):
        await table.append(rows(count, first=number * count))
    return table
