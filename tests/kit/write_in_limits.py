"""A worker of its own for tests: writes rows by key under a limit of address space, as Spark sets it.

``python write_in_limits.py URL LIMIT_MB ROWS``: how many rows are in its files is printed.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.writing.exchange import Exchange, packed
from lakehouse.spark.writing.task import WriteJob, write_task

_BATCH_ROWS = 100_000
_PRIME = 7_368_787


def main(url: str, limit: int, rows: int) -> None:
    """Writes rows in no order into ``db.t``, as one task."""
    resource.setrlimit(resource.RLIMIT_AS, (limit << 20, limit << 20))
    connection = Connection(url=url)
    house = warehouse(connection)
    core = house.table("db.t")
    schema = house.call(core.newest).schema
    drawn = np.random.default_rng(1)

    def batches() -> Iterator[pa.RecordBatch]:
        for begin in range(0, rows, _BATCH_ROWS):
            ids = np.arange(begin, min(begin + _BATCH_ROWS, rows)) * _PRIME % rows
            others = [pa.array(drawn.integers(0, 1 << 60, len(ids))) for _ in schema.fields[1:]]
            table = pa.table([pa.array(ids), *others], names=[field.name for field in schema.fields])
            yield from packed(Exchange(schema=schema, tasks=1), [table])

    job = WriteJob(connection=connection, root=core.root, schema=schema, by_key=True, sorts=True, packed=True)
    done = write_task(job, batches())
    if done.error is not None:
        raise done.error
    sys.stdout.write(f"{sum(entry.rows for entry in done.written.entries)}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
