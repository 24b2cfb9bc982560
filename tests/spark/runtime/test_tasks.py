"""Work in executors and what comes back."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import InvalidInputError
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.tasks import run_tasks


def test_results_come_in_the_order_of_the_tasks(spark: SparkSession) -> None:
    """Each task is done once and its result stands where the task stood."""
    done = run_tasks(spark, lambda number: number * number, [5, 3, 4])
    assert [one.value for one in done] == [25, 9, 16]


def test_an_error_in_an_executor_is_raised_as_itself(spark: SparkSession) -> None:
    """What no other try can mend arrives as the error it is."""

    def fail(number: int) -> int:
        raise InvalidInputError(f"number {number} is not welcome")

    with pytest.raises(InvalidInputError, match="number 1 is not welcome"):
        run_tasks(spark, fail, [1, 2])


def test_executors_reach_the_warehouse(spark: SparkSession, connection: Connection) -> None:
    """A connection that travelled opens the same warehouse."""
    here = warehouse(connection)
    here.call(here.lake.create_database, "db")

    def databases(found: Connection) -> list[str]:
        there = warehouse(found)
        return there.call(there.lake.databases)

    [done] = run_tasks(spark, databases, [connection])
    assert done.value == ["db"]
