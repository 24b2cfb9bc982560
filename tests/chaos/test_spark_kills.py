"""The kill test of Spark with more kills, for ``make chaos``; ``make test`` has a short one.

It begins new rounds for ``LAKEHOUSE_CHAOS_SECONDS``, 240 unless it is set, and has two at least: one kills
Python workers of a local session, the other kills executors, JVM and all. The seeds of the rounds begin with
``LAKEHOUSE_CHAOS_SEED``.
"""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kit.spark_cluster import MASTER, spark_home
from tests.spark.processes.test_kills import check_kills

SECONDS = float(os.environ.get("LAKEHOUSE_CHAOS_SECONDS", "240"))
SEED = int(os.environ.get("LAKEHOUSE_CHAOS_SEED", "0"))
_MASTERS = ("local[2, 8]", MASTER)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 3600)
@pytest.mark.usefixtures("java")
@pytest.mark.xdist_group("spark")
def test_many_kills_lose_nothing(
    bucket_url: str,
    storage_options: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three drivers and two workers of each are killed while rows are written, compacted and copied."""
    monkeypatch.setenv("SPARK_HOME", str(spark_home(tmp_path)))
    until = time.monotonic() + SECONDS
    for number in itertools.count():
        if number >= len(_MASTERS) and time.monotonic() > until:
            break
        master, seed = _MASTERS[number % len(_MASTERS)], SEED + number
        print(f"round {number} of seed {seed}: {master}", flush=True)
        check_kills(
            f"{bucket_url}/warehouse-{number}",
            storage_options,
            steps=9,
            driver_kills=3,
            worker_kills=2,
            seed=seed,
            master=master,
        )
