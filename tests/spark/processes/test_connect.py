"""Spark Connect: what works in a classic session works through a server, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("java")]

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys

import lakehouse.spark
import lakehouse.sync

url = sys.argv[1]
spark = lakehouse.spark.session(remote="local[2]", config={"spark.sql.shuffle.partitions": "2"})
assert "connect" in type(spark).__module__, type(spark)
lakehouse.spark.register(spark, url)
with lakehouse.sync.connect(url) as lake:
    lake.create_database("db")
rows = spark.range(1000).selectExpr("id", "id / 2 AS half")
lakehouse.spark.write(rows, "db.t").create(primary_key="id", bucket=2)
lakehouse.spark.write(rows.where("id < 10"), "db.t").delete()
lakehouse.spark.compact(spark, "db.t", full=True)
few = lakehouse.spark.table(spark, "db.t", columns=["id"], where="id < 20")
assert few.columns == ["id"]
assert few.count() == 10
direct = lakehouse.spark.table(spark, "db.t", columns=["half"], pushdown=False)
assert direct.where("half > 499").count() == 1
assert spark.read.format("lakehouse").load("db.t").where("half > 499").count() == 1
assert lakehouse.spark.count(spark, "db.t") == 990
assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
spark.stop()
print("done")
"""


def test_reads_writes_and_jobs_go_through_a_server(tmp_path: Path) -> None:
    """A session with ``remote=`` writes, deletes, compacts, counts, and reads columns under conditions."""
    pytest.importorskip("grpc")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"file://{tmp_path}/warehouse"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("done")
