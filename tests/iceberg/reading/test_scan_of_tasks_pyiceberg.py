"""Tables that pyiceberg writes, read here, beside what pyiceberg reads."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakehouse.cache import CacheBudget
from lakehouse.config import TableSettings
from lakehouse.expr import parse_where
from lakehouse.iceberg.opening import load_metadata, open_locations
from lakehouse.iceberg.reading import Reading, task_scan
from lakehouse.storage.metadata import RunCaches
from lakehouse.storage.scan import Scan
from tests.kit.iceberg_files import rows_of
from tests.kit.iceberg_tasks import tasks_of

_KINDS: dict[str, tuple[Any, list[Any]]] = {
    "flag": (BooleanType(), [True, False, None]),
    "i": (IntegerType(), [2**31 - 1, -(2**31), None]),
    "l": (LongType(), [2**63 - 1, -(2**63), None]),
    "f": (FloatType(), [1.5, float("inf"), None]),
    "d": (DoubleType(), [float("nan"), -0.0, None]),
    "small": (DecimalType(9, 2), [Decimal("1.25"), Decimal("-9999999.99"), None]),
    "large": (DecimalType(38, 10), [Decimal("1.5"), Decimal("-1234567890123456789.5"), None]),
    "day": (DateType(), [dt.date(1969, 12, 31), dt.date(9999, 12, 31), None]),
    "at": (TimeType(), [dt.time(23, 59, 59, 999999), dt.time(0), None]),
    "wall": (TimestampType(), [dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 4), None]),
    "ts": (TimestamptzType(), [dt.datetime(2024, 2, 29, tzinfo=dt.UTC), None, None]),
    "s": (StringType(), ["", "北京 🌍", None]),
    "b": (BinaryType(), [b"", b"\x00\xff", None]),
    "x": (FixedType(3), [b"abc", b"\x00\x00\x00", None]),
    "u": (UUIDType(), [uuid.UUID(int=5).bytes, uuid.UUID(int=2**127).bytes, None]),
    "li": (ListType(101, IntegerType(), element_required=False), [[1, None], [], None]),
    "m": (
        MapType(102, StringType(), 103, LongType(), value_required=False),
        [[("a", 1), ("b", None)], [], None],
    ),
    "st": (
        StructType(NestedField(104, "a", IntegerType()), NestedField(105, "b", StringType())),
        [{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
    ),
}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[InMemoryCatalog]:
    """An empty catalog with a namespace."""
    made = InMemoryCatalog("made", warehouse=tmp_path.as_uri())
    made.create_namespace("db")
    yield made
    made.close()


@asynccontextmanager
async def _scan(table: Any, *, where: str | None = None, **wanted: Any) -> AsyncGenerator[Scan, None]:
    async with open_locations(table.metadata_location) as locations:
        metadata = await load_metadata(locations, table.metadata_location)
        reading = Reading(
            metadata=metadata,
            schema=metadata.current_schema,
            locations=locations,
            caches=RunCaches(CacheBudget()),
            settings=TableSettings(),
        )
        condition = None if where is None else parse_where(where)
        tasks = await tasks_of(locations, metadata, metadata.current_snapshot)
        asked = [replace(task, residual=condition) for task in tasks]
        yield task_scan(asked, reading, where=condition, **wanted)


async def _rows(table: Any, **wanted: Any) -> list[dict[str, Any]]:
    async with _scan(table, **wanted) as scan:
        return await rows_of(scan)


def _theirs(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist(maps_as_pydicts="strict")
    return rows


def _plain(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as text, without order; a uuid is its bytes."""
    shown = (
        {name: value.bytes if isinstance(value, uuid.UUID) else value for name, value in row.items()}
        for row in rows
    )
    return sorted(map(str, shown))


@pytest.mark.parametrize("name", _KINDS)
async def test_every_type_is_read(name: str, catalog: InMemoryCatalog) -> None:
    """Values at the edges of a type, and nulls, are those that pyiceberg reads."""
    kind, values = _KINDS[name]
    table = catalog.create_table("db.t", Schema(NestedField(1, name, kind)))
    field = table.schema().as_arrow().field(0)
    table.append(pa.table({name: pa.array(values, field.type)}))
    table.refresh()
    assert _plain(await _rows(table)) == _plain(_theirs(table))


async def test_appends_and_rewriting_deletes_are_read(catalog: InMemoryCatalog) -> None:
    """Rows of several commits, some of which rewrote files."""
    rows = pa.table({"id": range(100), "name": [f"n{n % 7}" for n in range(100)]})
    table = catalog.create_table("db.t", rows.schema)
    table.append(rows.slice(0, 50))
    table.append(rows.slice(50))
    table.delete("name = 'n3'")
    table.overwrite(pa.table({"id": [1000], "name": ["new"]}), overwrite_filter="id = 7")
    assert _plain(await _rows(table)) == _plain(_theirs(table))
    found = [row["id"] for row in await _rows(table, where="name in ('n1', 'new') and id > 80")]
    assert sorted(found) == [85, 92, 99, 1000]


async def test_schemas_that_changed_are_read(catalog: InMemoryCatalog) -> None:
    """Columns that were added, renamed, moved, dropped and promoted, over files of each schema."""
    table = catalog.create_table(
        "db.t",
        Schema(
            NestedField(1, "a", IntegerType()),
            NestedField(2, "b", StringType()),
            NestedField(3, "s", StructType(NestedField(4, "x", FloatType()))),
        ),
    )

    def append(**columns: Any) -> None:
        schema = table.schema().as_arrow()
        table.append(
            pa.table({name: pa.array(values, schema.field(name).type) for name, values in columns.items()})
        )

    append(a=[1, None], b=["one", None], s=[{"x": 1.5}, None])
    with table.update_schema() as update:
        update.update_column("a", LongType())
        update.update_column(("s", "x"), DoubleType())
        update.rename_column("b", "label")
        update.add_column("added", DateType())
        update.add_column(("s", "y"), StringType())
        update.move_first("added")
    append(added=[dt.date(2024, 1, 1)], a=[2**40], label=["two"], s=[{"x": 1e300, "y": "why"}])
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("label")
        update.add_column("label", LongType())
    append(added=[None], a=[3], label=[33], s=[None])
    assert _plain(await _rows(table)) == _plain(_theirs(table))
    found = await _rows(table, where="label is null and a > 0")
    assert sorted(row["a"] for row in found) == [1, 2**40]


async def test_files_that_were_added_as_they_are_have_a_name_mapping(
    catalog: InMemoryCatalog, tmp_path: Path
) -> None:
    """Parquet files without field ids come into a table with names, by which they are read after a rename."""
    import pyarrow.parquet as pq

    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    path = tmp_path / "plain.parquet"
    pq.write_table(rows, path)
    table = catalog.create_table("db.t", rows.schema)
    table.add_files([path.as_uri()])
    with table.update_schema() as update:
        update.rename_column("name", "title")
    found = await _rows_named(table, [str(tmp_path)])
    assert found == [{"id": 1, "title": "a"}, {"id": 2, "title": "b"}]


async def _rows_named(table: Any, places: list[str]) -> list[dict[str, Any]]:
    """Rows of a table with files in other places."""
    async with open_locations(table.metadata_location, locations=places) as locations:
        metadata = await load_metadata(locations, table.metadata_location)
        reading = Reading(
            metadata=metadata,
            schema=metadata.current_schema,
            locations=locations,
            caches=RunCaches(CacheBudget()),
            settings=TableSettings(),
        )
        return await rows_of(
            task_scan(await tasks_of(locations, metadata, metadata.current_snapshot), reading)
        )


@pytest.mark.parametrize("version", ["1", "2"])
async def test_partitioned_tables_are_read(catalog: InMemoryCatalog, version: str) -> None:
    """Files of several partitions and specs, and a count of all their rows."""
    rows = pa.table({"id": range(40), "name": [f"n{n % 4}" for n in range(40)]})
    table = catalog.create_table("db.t", rows.schema, properties={"format-version": version})
    table.append(rows)
    with table.update_spec() as update:
        update.add_identity("name")
    table.append(rows)
    assert _plain(await _rows(table)) == _plain(_theirs(table))
    async with _scan(table, columns=()) as scan:
        assert await scan.count() == 80
