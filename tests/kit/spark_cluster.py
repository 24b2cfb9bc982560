"""A driver with executors of its own: processes besides it, as a cluster has them.

``python -m tests.kit.spark_cluster URL`` writes, compacts and reads a table in Spark's ``local-cluster``
mode, with storage options as JSON in ``STORAGE``, and prints what came of it as JSON. The driver's JVM runs
Spark's master and its workers, which start executors by the scripts that PySpark's package has.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyspark

import lakehouse.spark
from lakehouse.spark import Connection

MASTER = "local-cluster[2,1,1024]"
"""Two executors of one core and a gigabyte."""
ROWS = 2_000
_START_S = 120.0
_POLL_S = 0.2


def spark_home(at: Path) -> Path:
    """PySpark's package under another name, so that executors do not leave their directories in it."""
    home = at / "spark"
    home.mkdir()
    for one in Path(pyspark.__file__).parent.iterdir():
        if one.name != "work":
            (home / one.name).symlink_to(one)
    return home


def main(url: str) -> None:
    """The driver."""
    spark = lakehouse.spark.session(
        "cluster", master=MASTER, memory="512m", config={"spark.sql.shuffle.partitions": "4"}
    )
    storage = json.loads(os.environ["STORAGE"])
    lakehouse.spark.register(spark, Connection(url=url, storage_options=storage))
    _wait_for_executors(spark, 2)
    rows = spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 7 AS v")
    lakehouse.spark.write(rows, "db.t").create(primary_key="id", bucket=2)
    lakehouse.spark.write(rows.where("id < 100").selectExpr("id", "-1L AS v"), "db.t").upsert()
    merged = lakehouse.spark.compact(spark, "db.t", full=True)
    found = lakehouse.spark.table(spark, "db.t", where="v < 0").collect()
    told: dict[str, Any] = {
        "units": merged.units,
        "files": merged.files_out,
        "rows": spark.read.format("lakehouse").load("db.t").count(),
        "changed": sorted(row.id for row in found),
        "executors": _executors(spark),
        "parents": _parents(spark),
    }
    print(json.dumps(told), flush=True)
    spark.stop()


def _wait_for_executors(spark: Any, count: int) -> None:
    until = time.monotonic() + _START_S
    while _executors(spark) < count:
        if time.monotonic() > until:
            raise TimeoutError(f"{_executors(spark)} of {count} executors came within {_START_S:g} s")
        time.sleep(_POLL_S)


def _executors(spark: Any) -> int:
    """How many there are, the driver aside."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _parents(spark: Any) -> int:
    """How many executors the Python workers of some tasks have."""

    def each(numbers: Any) -> Any:
        time.sleep(1)  # so that one executor does not do all of them
        list(numbers)
        daemon = os.getppid()
        stat = Path(f"/proc/{daemon}/stat").read_text()
        yield int(stat[stat.rindex(")") + 2 :].split()[1])

    return len(set(spark.sparkContext.parallelize(range(4), 4).mapPartitions(each).collect()))


if __name__ == "__main__":
    main(*sys.argv[1:])
