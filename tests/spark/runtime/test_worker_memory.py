"""Workers keep to the address space that Spark gives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.spark.runtime import worker_memory
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.sessions import cluster_config
from lakehouse.spark.runtime.worker_memory import WORKER_ENVIRONMENT, task_memory

MB = 1 << 20


def test_without_a_limit_tasks_share_what_is_wanted() -> None:
    """Tasks of a machine have equal parts, and never less than some megabytes."""
    assert task_memory(800 * MB, 4, cached=0) == 200 * MB
    assert task_memory(800 * MB, 0, cached=0) == 800 * MB // (os.cpu_count() or 1)
    assert task_memory(1, 4, cached=0) == 16 * MB


def test_a_limit_leaves_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches and what Arrow's own allocator reserves come off; a large limit changes nothing."""
    monkeypatch.setattr(worker_memory, "_used_at_first", lambda: 300 * MB)
    monkeypatch.setattr(worker_memory, "address_space", lambda: 3000 * MB)
    pool = pa.default_memory_pool().backend_name
    reserved = 0 if pool == "system" else 1024
    assert task_memory(4096 * MB, 1, cached=256 * MB) == int((3000 - 300 - reserved - 256 - 128) * MB * 0.6)
    assert task_memory(64 * MB, 1, cached=256 * MB) == 64 * MB
    monkeypatch.setattr(worker_memory, "address_space", lambda: 400 * MB)
    assert task_memory(4096 * MB, 1, cached=256 * MB) == 16 * MB


def said(script: str, *arguments: object) -> str:
    """What a worker under a limit says, with the environment that sessions give it."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parents[2] / "kit" / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "OMP_NUM_THREADS": "1", **WORKER_ENVIRONMENT},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_merging_keeps_below_the_limit(connection: Connection) -> None:
    """A merge of 300 MB of rows ends well in 900 MB of addresses, in a worker that is used again too."""
    house = warehouse(connection)
    house.call(house.lake.create_database, "db")
    names = [f"v{number}" for number in range(12)]
    schema = pa.schema([("id", pa.int64()), *((name, pa.int64()) for name in names)])
    table = house.call(house.lake.create_table, "db.t", schema, primary_key=["id"])
    drawn, count = np.random.default_rng(1), 1_500_000
    for run in range(2):
        columns = [pa.array(drawn.integers(0, 1 << 60, count)) for _ in names]
        ids = pa.array(np.arange(run, 2 * count + run, 2))
        house.call(table.append, pa.table([ids, *columns], schema=schema))
    found = json.loads(said("merge_in_limits.py", connection.url, 900))
    assert found["rows"] == [2 * count] * 2
    assert found["shares"][0] == found["shares"][1] < 300 * MB


@pytest.mark.slow
def test_writing_keeps_below_the_limit(connection: Connection) -> None:
    """A task that sorts 300 MB of rows ends well in 700 MB of addresses, whatever the table's buffer is."""
    house = warehouse(connection)
    house.call(house.lake.create_database, "db")
    schema = pa.schema([("id", pa.int64()), *((f"v{number}", pa.int64()) for number in range(12))])
    house.call(house.lake.create_table, "db.t", schema, primary_key=["id"])
    assert said("write_in_limits.py", connection.url, 700, 3_000_000) == "3000000\n"


def test_memory_that_runs_out_is_no_damage(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder without memory says so, and Spark may try again; the file is not called damaged."""
    house = warehouse(connection)
    house.call(house.lake.create_database, "db")
    table = house.call(house.lake.create_table, "db.t", pa.schema({"id": pa.int64()}))
    house.call(table.append, [{"id": 1}])

    def short(*args: object, **options: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 1048576 failed")

    monkeypatch.setattr("lakehouse.format.parquet.decode.pq.ParquetFile", short)
    with pytest.raises(MemoryError, match="malloc"):
        house.call(table.scan().to_arrow)


def test_sessions_with_a_limit_have_the_environment() -> None:
    """What is configured for a cluster has what workers under a limit need."""
    found = cluster_config()
    assert {name: found[f"spark.executorEnv.{name}"] for name in WORKER_ENVIRONMENT} == WORKER_ENVIRONMENT
