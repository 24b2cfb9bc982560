"""Lakehouse on Spark in a process of its own: ``python -m benchmarks.spark_worker``.

:mod:`benchmarks.iceberg_spark_worker` answers the same questions.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.spark_session_worker import SparkWorker, local_session_config
from benchmarks.worker import serve
from lakehouse import spark as lakehouse_spark
from lakehouse.spark import Connection
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.runtime.types import schema_of

_SAMPLE_S = 0.2


class _Lakehouse(SparkWorker):
    _connection: Connection

    def connect(
        self, bucket: str, options: Mapping[str, Any], memory: str, worker_memory: str | None = None
    ) -> None:
        self.spark = lakehouse_spark.session(
            "lakehouse", master="local[2]", config=local_session_config(memory), worker_memory=worker_memory
        )
        self._connection = Connection(url=f"s3://{bucket}/lake", storage_options=options)
        lakehouse_spark.register(self.spark, self._connection)
        lake = warehouse(self._connection)
        lake.call(lake.lake.create_database, "bench", if_not_exists=True)

    def table(self, name: str, columns: list[str] | None, *, filtered: bool = False) -> Any:
        return lakehouse_spark.table(self.spark, f"bench.{name}", columns=columns, pushdown=filtered)

    def write(self, name: str, path: str, options: Mapping[str, Any]) -> None:
        """A new table of the rows, in one commit."""
        lake, rows = warehouse(self._connection), self.source(path)
        table = f"bench.{name}"
        lake.call(lake.lake.drop_table, table, if_exists=True)
        lake.call(lake.lake.create_table, table, schema_of(rows.schema), **options)
        lakehouse_spark.write(rows, table).append()

    def upsert(self, name: str, path: str) -> None:
        """Replaces rows by key and adds the others."""
        lakehouse_spark.write(self.source(path), f"bench.{name}").upsert()

    def compact(self, name: str) -> None:
        """Makes one run of each bucket's."""
        lakehouse_spark.compact(self.spark, f"bench.{name}", full=True)

    def held(self, name: str) -> list[int]:
        """Rows, files and bytes; rows that newer ones replaced count until they are gone."""
        lake = warehouse(self._connection)
        table = lake.call(lake.lake.table, f"bench.{name}")
        files = lake.call(table.files)
        return [sum(files["rows"].to_pylist()), files.num_rows, sum(files["bytes"].to_pylist())]

    def join(self, fact: str, dim: str, where: str, runtime_filter: bool) -> list[Any]:
        """Rows of a table whose shop is in a small one; with or without a filter made of the small one."""
        shops = self.source(dim).where(where)
        if runtime_filter:
            found = lakehouse_spark.join(self.spark, f"bench.{fact}", shops, on="shop")
        else:
            found = self.table(fact, None, filtered=True).join(shops, on="shop")
        [row] = found.selectExpr("count(*)", "sum(amount)").collect()
        return [int(row[0]), f"{row[1]:.6g}"]

    def star_join(self, url: str, folder: str, runtime_filter: bool) -> list[Any]:
        """Rows of an Iceberg table of gold customers on holidays; the two small sides are one.

        Nothing is cached, so that each round reads what it needs from the store.
        """
        customers = self.source(f"{folder}/customers").where("tier = 'gold'").select("customer")
        holidays = self.source(f"{folder}/calendar").where("holiday").select("day")
        found = lakehouse_spark.join(
            self.spark,
            url,
            customers.crossJoin(holidays),
            on=["customer", "day"],
            columns=["customer", "day", "amount"],
            connection=replace(self._connection, settings={"cache.max_bytes": 0}),
            runtime_filters=() if runtime_filter else "off",
        )
        [row] = found.selectExpr("count(*)", "sum(amount)").collect()
        return [int(row[0]), f"{row[1]:.6g}"]

    def watched(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a command takes of memory: resident bytes of the JVM and of each Python worker, over time."""
        do: Callable[..., Any] = getattr(self, command)
        samples: list[tuple[float, int, int]] = []
        ended, began = threading.Event(), time.monotonic()

        def look() -> None:
            while not ended.wait(_SAMPLE_S):
                samples.append((round(time.monotonic() - began, 2), *_resident()))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            do(**arguments)
        finally:
            ended.set()
            thread.join()
        return {"seconds": time.monotonic() - began, "samples": samples}


def _resident() -> tuple[int, int]:
    """Resident bytes of the JVM, and of the largest Python process below it."""
    children: dict[int, list[tuple[int, str, int]]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = place.read_text()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        size = int(rest[21]) * os.sysconf("SC_PAGE_SIZE")
        children.setdefault(int(rest[1]), []).append((int(place.parent.name), name, size))
    jvm = worker = 0
    todo = [os.getpid()]
    while todo:
        for pid, name, size in children.get(todo.pop(), []):
            todo.append(pid)
            if name == "java":
                jvm = max(jvm, size)
            else:
                worker = max(worker, size)
    return jvm, worker


async def main() -> None:
    """Answers until nobody asks any more."""
    names = ("connect", "write", "upsert", "compact", "held", "join", "star_join", "watched")
    await serve(_Lakehouse().commands(*names))


if __name__ == "__main__":
    asyncio.run(main())
