"""Processes started by one that has used a lake: they connect themselves, read and write."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.kit.children import ROWS, Plan, run


@pytest.mark.parametrize(
    ("fast_reads", "children"),
    [
        ("auto", {"bare": 10, "fork": 10, "forkserver": 2, "spawn": 1}),
        ("off", {"bare": 2, "fork": 2}),
    ],
)
def test_children_of_a_process_that_has_read(
    bucket_url: str, storage_options: dict[str, Any], fast_reads: str, children: dict[str, int]
) -> None:
    """Children connect, read and write, however they were started and with every backend, and end."""
    found = run(
        Plan(
            url=f"{bucket_url}/warehouse",
            storage_options=storage_options,
            settings={"io.fast_reads": fast_reads},
            children=children,
        )
    )
    assert Counter(told.how for told in found) == children
    assert all(told.rows == ROWS and told.got for told in found)
