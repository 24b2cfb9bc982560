"""What all workers of Spark do alike: queries over a view, answered with plain values.

Needs PySpark alone, of either version; our packages are not there in the peer's environment.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

__all__ = ["COMMON", "QUERIES", "SparkWorker", "local_session_config"]

COMMON = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}

QUERIES = {
    "all columns": "count(id), sum(customer), sum(shop), sum(quantity), max(city), max(status), sum(amount), "
    "sum(tax), max(at), max(day)",
    "two columns": "sum(customer), sum(amount)",
    "range of keys": "count(*), sum(amount), max(city)",
    "one customer": "count(*), sum(amount), max(city)",
}
"""What is selected; the last two under a filter."""

_COLUMNS = {
    "two columns": ["customer", "amount"],
    "range of keys": ["id", "amount", "city"],
    "one customer": ["customer", "amount", "city"],
}
"""What a query needs; Iceberg finds it in the query, a source in Python has to be told."""


def local_session_config(memory: str) -> dict[str, str]:
    """Settings that all sides have: two cores, so much memory."""
    return {**COMMON, "spark.driver.memory": memory}


class SparkWorker(abc.ABC):
    """One side: a session, and tables by name. What is made of a table differs."""

    spark: Any

    def source(self, path: str) -> Any:
        """Rows of local Parquet files."""
        return self.spark.read.parquet(path)

    @abc.abstractmethod
    def table(self, name: str, columns: list[str] | None, *, filtered: bool = False) -> Any:
        """A table of the warehouse as a data frame; ``filtered`` when a condition is about to follow."""

    def query(self, name: str, what: str, where: str | None = None) -> list[Any]:
        """One row of aggregates, as text."""
        found = self.table(name, _COLUMNS.get(what), filtered=where is not None)
        if where is not None:
            found = found.where(where)
        [row] = found.selectExpr(*QUERIES[what].split(", ")).collect()
        return [f"{value:.6g}" if isinstance(value, float) else str(value) for value in row]

    def merge(self, target: str, path: str) -> None:
        """Replaces rows by key and adds the others, by the SQL that both peers have."""
        self.source(path).createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO {target} old USING changes new ON old.id = new.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def stop(self) -> None:
        """Ends the session."""
        self.spark.stop()

    def commands(self, *names: str) -> dict[str, Callable[..., Any]]:
        """For :func:`benchmarks.worker.serve`."""
        return {name: getattr(self, name) for name in ("query", "stop", *names)}
