"""A worker of its own for tests: merges under a limit of address space, as Spark sets it.

``python merge_in_limits.py URL LIMIT_MB``: what came of it is printed as JSON.
"""

from __future__ import annotations

import json
import resource
import sys

from lakehouse.spark.jobs.compaction import MergePart, merge_part
from lakehouse.spark.jobs.job import memory_of_task
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.storage.compact.executor import plan_table
from lakehouse.storage.files.reader import EVERY_KEY


def main(url: str, limit: int) -> None:
    """Merges the first task of a full compaction of ``db.t``, twice, as a worker that is used again."""
    resource.setrlimit(resource.RLIMIT_AS, (limit << 20, limit << 20))
    house = warehouse(Connection(url=url))
    core = house.table("db.t")
    view = house.call(core.newest)
    [task, *_] = house.call(plan_table, view, full=True)
    about = {"schema": view.schema, "time_ms": view.snapshot.time_ms, "slots": 1, "rows": task.rows}
    shares, rows = [], []
    for _ in range(2):
        done = house.call(merge_part, core, MergePart(task=task, keys=EVERY_KEY, **about))
        rows.append(sum(one.rows for one in done.entries))
        shares.append(house.call(memory_of_task, core, 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    sys.stdout.write(json.dumps({"rows": rows, "shares": shares, "peak": peak}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
