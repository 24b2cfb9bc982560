"""Pools of Arrow memory for tests that measure what is held: other tests' leftovers are in none of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

__all__ = ["counted_pool"]

_pools: list[pa.MemoryPool] = []
"""Pools that were counted with. Buffers are given back to theirs, whenever a thread lets go of the last
one, and do not keep it alive."""


@contextlib.contextmanager
def counted_pool() -> Iterator[pa.MemoryPool]:
    """A pool of Arrow memory that knows what was the most it held; the process uses it meanwhile."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    _pools.append(pool)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)
