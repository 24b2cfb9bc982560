"""Processes are killed at random for a while: what was acknowledged is there, once and in order.

It lasts ``LAKEHOUSE_CHAOS_SECONDS``: 60 unless it is set, 600 in ``make chaos``. ``LAKEHOUSE_CHAOS_SEED``
takes the same chances again.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from lakehouse.testing.endpoint import ServerInfo
from tests.chaos.chaos import run
from tests.chaos.processes import Place

SECONDS = float(os.environ.get("LAKEHOUSE_CHAOS_SECONDS", "60"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * SECONDS + 300)]


async def test_killed_processes_lose_nothing(
    minio: ServerInfo, bucket_url: str, storage_options: dict[str, Any], tmp_path: Path
) -> None:
    """Writers, compaction and expiry are killed all the time, and nothing is lost, doubled or damaged."""
    seed = int(os.environ.get("LAKEHOUSE_CHAOS_SEED", random.randrange(1 << 30)))
    print(f"\nchaos for {SECONDS:.0f} s on {minio.describe()}, seed {seed}", flush=True)
    place = Place(url=f"{bucket_url}/warehouse", storage_options=storage_options)
    report = await run(place, tmp_path, seconds=SECONDS, seed=seed)
    print(report)
    assert not report.wrong, str(report)
    assert all(report.acknowledged.values()), str(report)
    assert report.kills > SECONDS / 2, str(report)
    assert min(report.takeovers.values()) > 1, str(report)
    assert report.counts["compacted"], str(report)
