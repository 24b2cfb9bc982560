"""The kill test of Spark with more kills, for ``make chaos``; ``make test`` has a short one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.test_kills import check_kills


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("java")
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("seed", range(3))
def test_many_kills_lose_nothing(seed: int, bucket_url: str, storage_options: dict[str, Any]) -> None:
    """Six drivers and three workers of each are killed while rows are written, compacted and copied."""
    check_kills(
        f"{bucket_url}/warehouse", storage_options, steps=15, driver_kills=6, worker_kills=3, seed=seed
    )
