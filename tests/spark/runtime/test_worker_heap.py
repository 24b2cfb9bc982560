"""What workers have loaded is put aside, and nobody else's."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.worker_heap import put_loaded_aside


def test_workers_put_aside_what_they_have_loaded(spark: SparkSession, connection: Connection) -> None:
    """After some pieces of work a worker's modules are not looked through any more."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            warehouse(connection)
            yield pa.RecordBatch.from_pydict({"aside": [gc.get_freeze_count()]})

    found = spark.range(0, 24, 1, 24).mapInArrow(work, "aside long").collect()
    assert max(row.aside for row in found) > 10_000


def test_other_processes_are_left_alone() -> None:
    """The driver's objects are its own business."""
    before = gc.get_freeze_count()
    for _ in range(10):
        put_loaded_aside()
    assert gc.get_freeze_count() == before
