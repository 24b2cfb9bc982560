"""Spark in the demo: rows ingested, upserted and compacted by executors, indexes of a bucket enumerated.

Invariant: whatever Spark says was done is checked by the engine in this process.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

from lakehouse.cli.output import console, print_table
from lakehouse.java import java_problem
from lakehouse.spark.jobs import collect_index_metas, compact
from lakehouse.spark.reading import table
from lakehouse.spark.runtime import Connection, session, warehouse
from lakehouse.spark.source import register
from lakehouse.spark.writing import write

__all__ = ["show_spark"]

R = TypeVar("R")

_NAME = "demo.readings"
_UPSERTS = 3


class _Steps:
    """Steps that Spark took: what it did, its seconds, and what it returned."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []

    def take(self, what: str, work: Callable[[], R]) -> R:
        """Does one step, times it, and returns its result."""
        started = time.perf_counter()
        result = work()
        self.rows.append((what, f"{time.perf_counter() - started:.1f}", str(result)))
        return result


def show_spark(url: str, storage_options: dict[str, Any], *, rows: int, indexes: str) -> None:
    """Writes, changes, reads and compacts a table by Spark, and enumerates the index files of a prefix.

    Args:
        url: of a warehouse; its tables are there afterwards.
        storage_options: fsspec's.
        rows: of the table.
        indexes: where index files are, below the URL.
    """
    problem = java_problem()
    if problem is not None:
        console().print(f"[yellow]Left out:[/] {problem}. Everything else of the demo ran without it.")
        return
    steps = _Steps()
    connection = Connection(url=url, storage_options=storage_options)
    lake = warehouse(connection)
    quiet = {"spark.log.level": "ERROR"}
    spark = steps.take("start a session", lambda: session("lakehouse demo", config=quiet))
    steps.rows[-1] = (*steps.rows[-1][:2], f"Spark {spark.version}, {spark.sparkContext.master}")
    with contextlib.ExitStack() as ending:
        ending.callback(spark.stop)
        register(spark, connection)
        lake.call(lake.lake.create_database, "demo", if_not_exists=True)
        made = _readings(spark.range(rows), 1)
        steps.take(
            f"ingest {rows:,} rows into 2 buckets",
            lambda: write(made, _NAME).create(primary_key="id", bucket=2),
        )
        for number in range(_UPSERTS):
            changed = _readings(spark.range(number, rows + 10, 10), number + 2)
            upsert = write(changed, _NAME).upsert
            steps.take(f"upsert {rows // 10 + 1:,} rows, one of them new", upsert)
        count = steps.take(
            "count those above 20 °C by Spark",
            lambda: table(spark, _NAME, columns=["id"], where="celsius > 20").count(),
        )
        steps.take("compact, one run per bucket", lambda: compact(spark, _NAME, full=True))
        readings = lake.call(lake.lake.table, _NAME)
        here = lake.call(readings.scan("celsius > 20").count)
        metas = steps.take(
            "enumerate the indexes of the bucket",
            lambda: collect_index_metas(spark, prefix=indexes, connection=connection),
        )
        steps.rows[-1] = (*steps.rows[-1][:2], f"{metas.rows.num_rows:,} rows: {metas.stats.cost}")
    print_table(("step", "s", "what came of it"), steps.rows, right=("s",))
    assert count == here, (count, here)
    console().print(
        f"{count:,} rows above 20 °C by Spark before the compaction, {here:,} without Spark after it"
    )


def _readings(numbers: Any, revision: int) -> Any:
    return numbers.selectExpr(
        "id",
        "id % 500 AS sensor",
        f"round(20 + 5 * sin(id * {revision}), 3) AS celsius",
        f"{revision} AS revision",
    )
