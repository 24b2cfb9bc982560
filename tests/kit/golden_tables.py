"""Makes the golden tables of a format version: small tables in which everything a table can have occurs once.

Run once per format version, by ``python -m tests.kit.golden_tables``; it refuses to write over tables
that are there. Releases that can read the version read these bytes for ever, as they were written.

The tables are in ``tests/data/tables/v1/warehouse``, a warehouse as a bucket would hold it, and what their
snapshots hold in ``tests/data/tables/v1/expected.json``.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from lakehouse.format.schema.type_notation import parse_type, type_text
from lakehouse.format.schema.types import arrow_type
from lakehouse.lake import Lake
from lakehouse.storage.commit import spilled_manifest
from lakehouse.storage.schema.evolution import AddColumn, DropColumn, RenameColumn, WidenColumn
from lakehouse.storage.table import Table
from tests.kit.worlds import Row, World, process, restored, saved

__all__ = ["HOME", "expected_of", "plain", "warehouse"]

HOME = Path(__file__).parents[1] / "data" / "tables" / "v1"


def warehouse(version: Path = HOME) -> World:
    """The objects of the golden tables by key."""
    root = version / "warehouse"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has no word for is text."""
    match value:
        case bytes():
            return value.hex()
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case decimal.Decimal():
            return str(value)
        case dt.date() | dt.time():
            return value.isoformat()
        case dict():
            return {name: plain(one) for name, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
    return value


async def expected_of(table: Table) -> dict[str, Any]:
    """What there is to read of a table: columns and rows of every snapshot, and what it says of itself."""
    snapshots = []
    for one in (await table.snapshots()).to_pylist():
        number = one["snapshot"]
        schema = await table.schema(snapshot=number)
        rows = [plain(row) for row in await table.scan(snapshot=number).to_pylist()]
        snapshots.append(
            {
                "snapshot": number,
                "kind": one["kind"],
                "time_ms": int(one["time"].timestamp() * 1000),
                "message": one["message"],
                "tags": one["tags"],
                "files": one["files"],
                "columns": [f"{field.id} {field.name} {type_text(field.type)}" for field in schema.fields],
                "rows": sorted(rows, key=json.dumps),
            }
        )
    schema = await table.schema()
    return {
        "uuid": str(table.uuid),
        "primary_key": list(schema.primary_key),
        "partition_by": list(schema.partition_by),
        "buckets": schema.buckets,
        "options": dict(schema.options),
        "comment": schema.comment,
        "formats": sorted({one["format"] for one in (await table.files()).to_pylist()}),
        "manifests": (await table.manifests()).num_rows,
        "snapshots": snapshots,
    }


# --- the tables -----------------------------------------------------------------------

UTC = dt.UTC
TYPES: dict[str, list[Any]] = {
    "boolean": [True, False, None],
    "tinyint": [-128, 127, None],
    "smallint": [-(2**15), 2**15 - 1, None],
    "int": [-(2**31), 2**31 - 1, None],
    "bigint": [-(2**63), 2**63 - 1, None],
    "float": [-0.0, float("nan"), 1.5, float("-inf"), None],
    "double": [0.1, float("nan"), 1.7976931348623157e308, float("inf"), None],
    "decimal(7,2)": [decimal.Decimal("-99999.99"), decimal.Decimal("0.01"), None],
    "decimal(38,0)": [decimal.Decimal(10**38 - 1), decimal.Decimal(-1), None],
    "string": ["", "a\0b", "Ünïcödé 中文 \U0010ffff", None],
    "varchar(5)": ["12345", "", None],
    "binary": [b"", b"\x00\xff", None],
    "binary(3)": [b"abc", None],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), None],
    "time": [dt.time(0), dt.time(23, 59, 59, 999_999), None],
    "timestamp": [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC), None],
    "timestamp_ntz": [dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), dt.datetime(1969, 7, 20), None],
    "array<int>": [[], [1, None, 3], None],
    "map<string,double>": [[], [("a", 1.0), ("b", None)], None],
    "struct<a: int, b: struct<c: string, d: array<date>>>": [
        {"a": 1, "b": {"c": "x", "d": [dt.date(2026, 1, 1), None]}},
        {"a": None, "b": None},
        None,
    ],
}
NAMES = {text: f"c{number}" for number, text in enumerate(TYPES)}


def of_all_types(first: int, count: int) -> list[Row]:
    """Rows in which each value occurs."""
    return [
        {
            "id": number,
            "word": f"k{number % 3}\0",
            "day": dt.date(2026, 1, 1 + number % 2),
            "price": decimal.Decimal(number) / 4 - 2,
            "at": dt.datetime(2026, 1, 1, microsecond=number, tzinfo=UTC),
            **{NAMES[text]: values[number % len(values)] for text, values in TYPES.items()},
        }
        for number in range(first, first + count)
    ]


async def types(lake: Lake, name: str, file_format: str) -> Table:
    """Every type, as a column and, where that can be, in the key."""
    keys = {"id": "bigint", "word": "string", "day": "date", "price": "decimal(9,2)", "at": "timestamp"}
    numbers = iter(range(1, 1000))
    schema = pa.schema(
        [
            pa.field(column, arrow_type(parse_type(text, lambda: next(numbers))))
            for column, text in [*keys.items(), *((NAMES[text], text) for text in TYPES)]
        ]
    )
    table = await lake.create_table(
        name,
        schema,
        primary_key=list(keys),
        options={"file.format.level0": file_format},
        comment="every type",
    )
    await table.append(of_all_types(0, 12), message="all values")
    await table.upsert([{**row, "c0": None, "c9": "newer"} for row in of_all_types(3, 2)])
    await table.delete(keys=[{name: row[name] for name in keys} for row in of_all_types(6, 2)])
    await table.append(of_all_types(12, 3), writer=("loader", 7))
    await table.create_tag("all")
    return table


async def partitioned(lake: Lake) -> Table:
    """Partitions in the key, buckets, both file formats, manifests, partitions overwritten and deleted."""
    table = await lake.create_table(
        "golden.partitioned",
        pa.schema({"day": pa.date32(), "city": pa.string(), "id": pa.int32(), "v": pa.float64()}),
        primary_key=["day", "city", "id"],
        partition_by=["day", "city"],
        bucket=2,
    )

    def rows(value: float) -> list[Row]:
        return [
            {"day": dt.date(2026, 1, 1 + number % 2), "city": city, "id": number, "v": value + number}
            for number in range(8)
            for city in ("a b", "x/y=ü")
        ]

    with mock.patch.object(spilled_manifest, "_OWN_ENTRIES_MAX", 2):
        await table.append(rows(0.0))
        await table.set_option("file.format.level0", "sst")
        await table.upsert(rows(0.5)[::3])
    await table.overwrite(rows(100.0)[:1], "day = DATE '2026-01-01' AND city = 'a b'")
    await table.delete("city = 'x/y=ü' AND day = DATE '2026-01-02'")
    await table.delete("v > 4")
    return table


async def moving(lake: Lake) -> Table:
    """Rows that move between partitions."""
    table = await lake.create_table(
        "golden.moving",
        pa.schema({"id": pa.int64(), "part": pa.int16(), "v": pa.string()}),
        primary_key="id",
        partition_by="part",
        bucket=3,
    )
    await table.append([{"id": n, "part": n % 2, "v": f"{n}"} for n in range(10)])
    await table.upsert([{"id": n, "part": 5, "v": "moved"} for n in (1, 2, 3)])
    await table.delete("part = 5 AND id < 3")
    await table.overwrite([{"id": 20, "part": 0, "v": "new"}], "part = 0")
    return table


async def evolved(lake: Lake) -> Table:
    """Every change of a schema, a rollback, tags."""
    person = pa.struct({"name": pa.string(), "age": pa.int8()})
    table = await lake.create_table(
        "golden.evolved",
        pa.schema({"id": pa.int32(), "n": pa.int32(), "x": pa.float32(), "who": person, "gone": pa.string()}),
        primary_key="id",
        options={"parquet.row_group_rows": 128},
    )

    def row(number: int, **more: Any) -> Row:
        return {"id": number, "n": number, "x": number / 2, "who": {"name": f"p{number}", "age": 1}, **more}

    await table.append([row(1, gone="a"), row(2, gone="b")])
    await table.create_tag("first")
    await table.alter(
        AddColumn("c", "varchar(9)", default="old", comment="added"),
        DropColumn("gone"),
        RenameColumn("n", "number"),
        WidenColumn("x", "double"),
        WidenColumn(("who", "age"), "bigint"),
        AddColumn(("who", "mail"), "string", default="none"),
    )
    later = {"id": 3, "number": 2, "x": 1e300, "who": {"name": "c", "age": 2**40, "mail": "m"}, "c": "new"}
    await table.upsert([later, {**later, "id": 1}])
    await table.widen_column("id", "bigint")
    await table.add_column("gone", "int", first=True)
    await table.upsert([{**later, "id": 2**40, "gone": 7}])
    await table.set_comment("changed", column="c")
    await table.create_tag("last")
    await table.rollback(tag="first")
    await table.append([row(4, gone="d")])
    await table.rename_column("id", "key")
    return table


async def log(lake: Lake) -> Table:
    """No primary key: rows as they come, the same one twice, deletes that write files again."""
    table = await lake.create_table(
        "golden.log", pa.schema({"n": pa.int64(), "kind": pa.string()}), partition_by="kind", bucket=2
    )
    some = [{"n": n, "kind": "ab"[n % 2]} for n in range(6)]
    await table.append(some)
    await table.append(some[:2])
    await table.delete("n = 1 OR n > 3")
    await table.overwrite([{"n": 9, "kind": "b"}], "kind = 'b'")
    await table.append([{"n": 10, "kind": "c"}])
    return table


async def make() -> tuple[World, dict[str, Any]]:
    """The golden tables, and what they hold."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("golden", comment="tables of format 1")
    makers: list[Callable[[], Awaitable[Table]]] = [
        lambda: types(lake, "golden.types", "parquet"),
        lambda: types(lake, "golden.types_sst", "sst"),
        lambda: partitioned(lake),
        lambda: moving(lake),
        lambda: evolved(lake),
        lambda: log(lake),
    ]
    for make_one in makers:
        await make_one()
    await lake.create_table("golden.dropped", pa.schema({"a": pa.int64()}))
    await lake.drop_table("golden.dropped")
    await lake.rename_table("golden.moving", "golden.moved")
    reader = process(store)
    names = [name async for name in reader.tables("golden")]
    return await saved(store), {name: await expected_of(await reader.table(name)) for name in names}


def main() -> None:
    """Writes the tables, unless they are there."""
    if HOME.exists():
        sys.exit(f"{HOME} is there: golden tables are never written again")
    world, expected = asyncio.run(make())
    for key, data in world.items():
        path = HOME / "warehouse" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (HOME / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
