"""Computation on several cores at once, for code that is no coroutine.

Libraries that compute on one core and release the interpreter's lock (pyarrow's Parquet writer) are
given several pieces of work at once. The threads are one small pool for the process, beside the
threads of the callers.

Invariant: work never waits for a thread. The caller does whatever no thread has begun, so the answer
comes at the latest when one core would have done it all, in a forked child too, where the pool's
threads do not exist.
"""

from __future__ import annotations

import contextvars
import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["on_cores"]

T = TypeVar("T")
R = TypeVar("R")


def on_cores(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Returns the results of ``work`` on every item, in their order; uses cores that are free."""
    # Each piece gets a copy of the caller's context: what is known of a request must arrive in threads too.
    futures = [_pool().submit(contextvars.copy_context().run, work, item) for item in items[1:]]
    try:
        done = {at: work(item) for at, item in enumerate(items[:1])}
        # From the end, where no thread has come to yet: cancelling succeeds for work not begun.
        for at in reversed(range(len(futures))):
            if futures[at].cancel():
                done[at + 1] = work(items[at + 1])
        return [done[at] if at in done else futures[at - 1].result() for at in range(len(items))]
    finally:
        for future in futures:
            future.cancel()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), thread_name_prefix="lakehouse-cores")
