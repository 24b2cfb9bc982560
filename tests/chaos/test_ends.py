"""Many processes that end: commands that fail, and children of a process that has read.

``LAKEHOUSE_CHAOS_COMMANDS`` and ``LAKEHOUSE_CHAOS_CHILDREN`` say how many. Unless they are set, as in
``make test``, it is none: the tests of the command line and of ``lakehouse.sync`` try some of each.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from tests.kit.children import ROWS, Plan, run
from tests.kit.failing_commands import exit_codes

COMMANDS = int(os.environ.get("LAKEHOUSE_CHAOS_COMMANDS", "0"))
CHILDREN = int(os.environ.get("LAKEHOUSE_CHAOS_CHILDREN", "0"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * (COMMANDS + CHILDREN) + 300)]


@pytest.mark.skipif(not COMMANDS, reason="LAKEHOUSE_CHAOS_COMMANDS is not set: make chaos sets it")
def test_failing_commands_end_with_their_own_exit_code(
    bucket_url: str, storage_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many commands that fail, none ends by a signal."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", storage_options["endpoint_url"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", storage_options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", storage_options["secret"])
    words = ("table", "tag", f"{bucket_url}/warehouse", "shop.orders", "v1")
    assert exit_codes(COMMANDS, *words) == {1: COMMANDS}


@pytest.mark.skipif(not CHILDREN, reason="LAKEHOUSE_CHAOS_CHILDREN is not set: make chaos sets it")
def test_children_of_a_process_that_has_read_finish(bucket_url: str, storage_options: dict[str, Any]) -> None:
    """Of many children that read and write, started in every way, none hangs."""
    children = {"forkserver": CHILDREN // 10, "spawn": CHILDREN // 20, "bare": CHILDREN // 4}
    children["fork"] = CHILDREN - sum(children.values())
    found = run(Plan(url=f"{bucket_url}/warehouse", storage_options=storage_options, children=children))
    assert Counter(told.how for told in found) == children
    assert all(told.rows == ROWS and told.got for told in found)
