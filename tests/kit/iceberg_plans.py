"""A small Iceberg table of known files, for tests of planning: ten of each day, each day in a manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from lakehouse.iceberg import IcebergTable
from lakehouse.iceberg import open as open_iceberg
from tests.kit.iceberg_tables import DATA, EQUALITY, POSITION, Item, Manifest, Snapshot, Table, on_disk

__all__ = ["BY_DAY", "DAY", "SCHEMA", "data_file", "delete_file", "manifest", "opened", "three_days"]

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestampType(), required=False),
    NestedField(3, "city", StringType(), required=False),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, DayTransform(), "at_day"), spec_id=0)
DAY = 19_723
"""The first of January 2024."""


def data_file(day: int | None, number: int, **how: Any) -> Item:
    """Returns a file of the ids from ``10 * number`` on, ten of them, of a day."""
    least = 10 * number
    bounds = {
        "lower_bounds": {1: to_bytes(LongType(), least)},
        "upper_bounds": {1: to_bytes(LongType(), least + 9)},
        "value_counts": {1: 10},
        "null_value_counts": {1: 0},
    }
    given: dict[str, Any] = {"rows": 10, "size": 1_000, "partition": (day,), "metrics": bounds, **how}
    return Item(path=f"data/{day}/{number}.parquet", content=DATA, **given)


def delete_file(day: int | None, name: str, *, equality: Sequence[int] = (), **how: Any) -> Item:
    """Returns a file of deletes of a day, by row number or by the values of some fields."""
    return Item(
        path=f"data/{day}/{name}",
        content=EQUALITY if equality else POSITION,
        partition=(day,),
        equality_ids=tuple(equality) or None,
        **how,
    )


def manifest(name: str, items: Sequence[Item], **how: Any) -> Manifest:
    """Returns a manifest of files."""
    return Manifest(name=name, schema=SCHEMA, spec=how.pop("spec", BY_DAY), items=items, **how)


def three_days(*more: Manifest) -> Table:
    """Returns a table of ten files for each of three days, and other manifests."""
    days = [
        manifest(f"m{day}", [data_file(DAY + day, 10 * day + number) for number in range(10)])
        for day in range(3)
    ]
    return Table(
        schemas=[SCHEMA], specs=[BY_DAY], snapshots=[Snapshot(id=1, sequence=1, manifests=[*days, *more])]
    )


async def opened(table: Table, directory: Path, settings: Mapping[str, object] | None = None) -> IcebergTable:
    """Writes a table and opens it."""
    return await open_iceberg(on_disk(table, directory), settings=settings)
