"""Processes that own others and are killed, and waiting for what must come of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Waits for what must come true within seconds."""
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@contextmanager
def owner(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Runs a script as the owner of a kept command; its own group, so that its forks end with the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
