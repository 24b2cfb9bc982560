"""Drivers and workers of Spark are killed at random moments: nothing is lost, doubled or half to be seen.

``make chaos`` does the same for longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakehouse import sync
from tests.kit.spark_kills import ROWS, keys_of, run_to_the_end

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("java")]

_COLUMNS = pa.schema({"id": pa.int64(), "step": pa.int32()})


def check_kills(
    url: str,
    storage: dict[str, Any],
    *,
    steps: int,
    driver_kills: int,
    worker_kills: int,
    seed: int,
    master: str = "local[2, 8]",
) -> None:
    """Appends, upserts and compactions, and a stream over what was appended."""
    with sync.connect(url, storage_options=storage) as lake:
        lake.create_database("db")
        log = lake.create_table("db.log", _COLUMNS)
        state = lake.create_table("db.state", _COLUMNS, primary_key="id", bucket=2)
        copies = lake.create_table("db.copies", _COLUMNS)

        def whole(table: Any) -> None:
            steps = table.scan(columns=["step"]).to_arrow()["step"].value_counts().to_pylist()
            assert all(one["counts"] == ROWS for one in steps), f"a step is there in part, or twice: {steps}"

        def look() -> None:
            whole(log)
            found = {row["id"]: row["step"] for row in state.scan().to_pylist()}
            newest = max(found.values(), default=0)
            assert found == _model(newest), f"the state is not that of step {newest}"

        def run(what: str, look: Callable[[], None]) -> None:
            run_to_the_end(
                what,
                url,
                storage,
                last=steps,
                driver_kills=driver_kills,
                worker_kills=worker_kills,
                seed=seed,
                look=look,
                master=master,
            )

        run("writes", look)
        assert log.scan().count() == steps * ROWS
        assert {row["id"]: row["step"] for row in state.scan().to_pylist()} == _model(steps)

        def once() -> None:
            steps = copies.scan(columns=["step"]).to_arrow()["step"].value_counts().to_pylist()
            assert all(one["counts"] <= ROWS for one in steps), f"rows came twice: {steps}"

        run("stream", once)
        whole(copies)
        assert copies.scan().count() == steps * ROWS
        for table in (log, state, copies):
            report = table.verify()
            assert report.ok, report


def _model(steps: int) -> dict[int, int]:
    """The step that wrote each key last."""
    return {key: step for step in range(1, steps + 1) for key in keys_of(step)}


def test_killed_drivers_and_workers_lose_nothing(bucket_url: str, storage_options: dict[str, Any]) -> None:
    """Whatever was killed and when, each step is there once, whole, in the order of the steps."""
    check_kills(f"{bucket_url}/warehouse", storage_options, steps=4, driver_kills=1, worker_kills=1, seed=7)
