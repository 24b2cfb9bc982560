"""Executors that are processes of their own, as on a cluster, reach the table by what travels to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse import sync
from tests.kit.spark_cluster import ROWS, spark_home

_ROOT = Path(__file__).parents[3]
_END_S = 280.0


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_executors_write_compact_and_read(
    bucket_url: str, storage_options: dict[str, Any], tmp_path: Path
) -> None:
    """Nothing is in the driver's memory that tasks need: what they do is what a local session does."""
    url = f"{bucket_url}/warehouse"
    with sync.connect(url, storage_options=storage_options) as lake:
        lake.create_database("db")
        done = subprocess.run(
            [sys.executable, "-m", "tests.kit.spark_cluster", url],
            cwd=_ROOT,
            env={
                **os.environ,
                "STORAGE": json.dumps(storage_options),
                "SPARK_HOME": str(spark_home(tmp_path)),
                "PYTHONPATH": str(_ROOT),
            },
            capture_output=True,
            text=True,
            timeout=_END_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        told = json.loads(done.stdout.splitlines()[-1])
        assert (told["executors"], told["parents"]) == (2, 2)
        assert (told["rows"], told["changed"]) == (ROWS, list(range(100)))
        assert told["units"] == told["files"] == 2
        table = lake.table("db.t")
        assert table.scan().count() == ROWS
        assert table.verify(deep=True).ok
