"""The tables that Spark wrote, opened where they lie, and its answers about them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from lakehouse.cache import CacheBudget
from lakehouse.config import TableSettings
from lakehouse.expr import parse_where
from lakehouse.iceberg.metadata import IcebergSnapshot, TableMetadata
from lakehouse.iceberg.opening import load_metadata, open_locations
from lakehouse.iceberg.reading import Reading, task_scan
from lakehouse.storage.metadata import RunCaches
from lakehouse.storage.scan import Scan
from tests.interop.iceberg.answers import plain
from tests.kit.iceberg_files import rows_of
from tests.kit.iceberg_tasks import tasks_of

__all__ = ["SPARK_FOLDER", "SPARK_TABLES", "SparkTable", "same", "spark_table"]

SPARK_FOLDER = Path(__file__).parents[1] / "data" / "iceberg"
SPARK_TABLES = sorted(path.name for path in SPARK_FOLDER.iterdir() if path.is_dir())


@dataclass(frozen=True, kw_only=True)
class SparkTable:
    """An open table."""

    reading: Reading
    expected: dict[str, Any]
    """Spark's answers, as the tables' README says."""

    @property
    def metadata(self) -> TableMetadata:
        """Metadata of the table."""
        return self.reading.metadata

    async def scan(
        self, snapshot: IcebergSnapshot | None = None, *, where: str | None = None, **wanted: Any
    ) -> Scan:
        """A scan of a snapshot, None = the current one, in the schema of its time; of all its files."""
        schema = self.metadata.schema_of(snapshot)
        snapshot = snapshot or self.metadata.current_snapshot
        tasks = await tasks_of(self.reading.locations, self.metadata, snapshot)
        condition = None if where is None else parse_where(where)
        tasks = [replace(task, residual=condition) for task in tasks]
        return task_scan(tasks, replace(self.reading, schema=schema), where=condition, **wanted)

    async def rows(self, snapshot: IcebergSnapshot | None = None, **wanted: Any) -> list[list[Any]]:
        """The rows of a scan by id, as Spark's answers have them."""
        found = await rows_of(await self.scan(snapshot, **wanted))
        return [[plain(value) for value in row.values()] for row in sorted(found, key=lambda row: row["id"])]


@asynccontextmanager
async def spark_table(name: str) -> AsyncGenerator[SparkTable, None]:
    """Opens a table; nothing is cached that another one read."""
    path = str(SPARK_FOLDER / name)
    async with open_locations(path, moved=True) as locations:
        metadata = await load_metadata(locations, path)
        reading = Reading(
            metadata=metadata,
            schema=metadata.current_schema,
            locations=locations,
            caches=RunCaches(CacheBudget()),
            settings=TableSettings(),
        )
        expected = json.loads((SPARK_FOLDER / name / "expected.json").read_text(encoding="utf-8"))
        yield SparkTable(reading=reading, expected=expected)


def same(rows: list[list[Any]], expected: list[list[Any]], types: list[str] | None = None) -> bool:
    """Whether rows are equal; decimals as numbers, whose text may have other zeros."""
    decimals = [at for at, kind in enumerate(types or ()) if kind.startswith("decimal")]
    for row in (*rows, *expected):
        for at in decimals:
            row[at] = None if row[at] is None else Decimal(row[at])
    return rows == expected
