"""The same operations through Spark and in process leave the same table: rows, runs, files, statistics."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.spark import Connection
from lakehouse.spark.runtime.connection import Warehouse, warehouse
from lakehouse.spark.writing.frame_write import Write, write
from lakehouse.storage.table import Table
from tests.kit.spark_written import SCHEMA, made, rows_of

Row = Mapping[str, Any]

LAYOUTS: dict[str, dict[str, Any]] = {
    "keyed": {"primary_key": "id", "bucket": 2},
    "key holds partition": {"primary_key": ["part", "id"], "partition_by": "part"},
    "rows move between partitions": {"primary_key": "id", "partition_by": "part", "bucket": 2},
    "aggregation": {
        "primary_key": "id",
        "options": {"merge_engine": "aggregation", "fields.v.aggregate": "sum"},
    },
    "append-only": {},
}
_STEPS = 7
_COMPARED = (
    "partition",
    "bucket",
    "level",
    "rows",
    "deletes",
    "updates",
    "min_key",
    "max_key",
    "schema_id",
    "stats",
)


def batch(dice: random.Random, parts: str = "abc") -> list[Row]:
    """Rows of few keys, some of them several times and some with nulls, as a write would sort them."""
    return [
        {
            "id": dice.randrange(12),
            "part": dice.choice(parts),
            "v": dice.choice([None, dice.randrange(9)]),
        }
        for _ in range(dice.randrange(1, 14))
    ]


def in_order(rows: list[Row], key: list[str]) -> list[Row]:
    """By key, then by all columns, nulls first: the order that Spark's writes have."""
    rest = [name for name in SCHEMA.names if name not in key]
    names = [*key, *rest] if key else []

    def place(row: Row) -> list[tuple[bool, Any]]:
        return [(row[name] is not None, row[name] if row[name] is not None else 0) for name in names]

    return sorted(rows, key=place)


class Pair:
    """A table written through Spark, and one written in process."""

    def __init__(self, spark: SparkSession, connection: Connection, layout: str) -> None:
        self._spark, self._connection = spark, connection
        self._how = LAYOUTS[layout]
        key = self._how.get("primary_key", [])
        self.key = [key] if isinstance(key, str) else list(key)
        self.names = ("db.spark", "db.process")
        self._tables = [made(connection, name, **self._how) for name in self.names]
        self._house: Warehouse = warehouse(connection)

    def spark(self, rows: list[Row]) -> Write:
        """The rows on their way through Spark."""
        df = self._spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))
        return write(
            df.repartition(3) if self.key else df.coalesce(1), self.names[0], connection=self._connection
        )

    def step(self, dice: random.Random) -> str:
        """One operation on both; what it was."""
        partitions, keyed = bool(self._how.get("partition_by")), bool(self.key)
        folds = "options" in self._how
        choices = ["append", "append", "overwrite", "compact"]
        choices += ["upsert", "delete"] if keyed else []
        choices += ["where"] if not folds else []
        choices += ["partitions"] if partitions else []
        what = dice.choice(choices)
        rows, table = in_order(batch(dice), self.key), self._tables[1]
        match what:
            case "append":
                self.spark(rows).append()
                self._call(table.append, rows)
            case "upsert":
                self.spark(rows).upsert()
                self._call(table.upsert, rows)
            case "delete":
                keys = list({tuple(row[name] for name in self.key) for row in rows})
                self.spark(rows).delete()
                self._call(table.delete, keys=[dict(zip(self.key, one, strict=True)) for one in keys])
            case "overwrite":
                self.spark(rows).overwrite()
                self._call(table.overwrite, rows)
            case "where":
                low = dice.randrange(12)
                kept = [row for row in rows if row["id"] >= low]
                self.spark(kept).overwrite(f"id >= {low}")
                self._call(table.overwrite, pa.Table.from_pylist(kept, SCHEMA), f"id >= {low}")
            case "partitions":
                part = dice.choice("ab")
                kept = [{**row, "part": part} for row in rows]
                kept = in_order(kept, self.key)
                self.spark(kept).overwrite_partitions()
                self._call(table.overwrite, kept, f"part = '{part}'")
            case "compact":
                full = dice.random() < 0.5
                for one in self._tables:
                    self._call(one.compact, full=full)
        return what

    def _call(self, work: Any, *args: Any, **how: Any) -> None:
        self._house.call(work, *args, **how)

    def seen(self) -> list[tuple[Any, ...]]:
        """Of both tables, rows and files."""
        return [(rows_of(self._connection, name), self._files(table)) for name, table in self._both()]

    def _both(self) -> list[tuple[str, Table]]:
        return list(zip(self.names, self._tables, strict=True))

    def _files(self, table: Table) -> list[tuple[Any, ...]]:
        async def files() -> list[FileEntry]:
            return list(await (await table.core.newest()).files())

        found = self._house.call(files)
        # A compaction of several merge units is one commit or several, as they end.
        numbers = sorted({at[0] for one in found for at in (one.lo, one.hi) if at is not None})

        def place(at: Any) -> tuple[int, ...]:
            return numbers.index(at[0]), *at[1:]

        return sorted(
            ((place(one.lo), place(one.hi), *(getattr(one, name) for name in _COMPARED)) for one in found),
            key=repr,
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_ways_lead_to_the_same_table(spark: SparkSession, connection: Connection, layout: str) -> None:
    """After every one of some random operations rows, runs, levels and statistics are the same."""
    pair, dice = Pair(spark, connection, layout), random.Random(layout)
    done = []
    for _ in range(_STEPS):
        done.append(pair.step(dice))
        through_spark, in_process = pair.seen()
        assert through_spark == in_process, done
