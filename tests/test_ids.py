"""Names: no two writes carry the same one, in whatever process they are made."""

from __future__ import annotations

import re
import subprocess
import sys

from lakehouse.ids import new_token, new_uuid


def test_tokens_are_32_hex_digits() -> None:
    """A token fits into a header and into a key without escaping."""
    assert re.fullmatch("[0-9a-f]{32}", new_token())


def test_tokens_differ() -> None:
    """No token comes twice."""
    assert len({new_token() for _ in range(10_000)}) == 10_000


def test_uuids_are_random_ones() -> None:
    """Names of objects are version 4 UUIDs: nothing in them tells when or where they were made."""
    assert new_uuid().version == 4
    assert len({new_uuid() for _ in range(10_000)}) == 10_000


FORKED = """
import os
from lakehouse.ids import new_token
new_token()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, new_token().encode())
    os._exit(0)
assert os.wait()[1] == 0
print(os.read(read, 100).decode(), new_token())
"""


def test_a_forked_process_makes_other_tokens() -> None:
    """Parent and child of a fork share no generator whose state they would both replay."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], check=True, timeout=60, capture_output=True, text=True
    )
    theirs, ours = done.stdout.split()
    assert theirs != ours
