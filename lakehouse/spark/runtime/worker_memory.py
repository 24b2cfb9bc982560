"""Workers under ``spark.executor.pyspark.memory``: Spark limits their address space, not what they use.

Allocators reserve far more addresses than they use, a gigabyte and more, and run into such a limit long
before memory is short. So under a limit the system's allocator is told to have few arenas, and Arrow should
use it: ``ARROW_DEFAULT_MEMORY_POOL=system`` in the workers' environment, which counts before Arrow is loaded
(:data:`WORKER_ENVIRONMENT`; sessions made with ``worker_memory`` have it). Without it, what Arrow's own
reserves is taken off. What is left then is divided by what merging was seen to need.

Invariant: without a limit nothing is changed. With one, tasks are given what fits below it beside the
caches, however often a worker is used again.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

if sys.platform != "win32":  # where Spark sets no limit
    import resource

__all__ = ["WORKER_ENVIRONMENT", "address_space", "fit_into_limit", "task_memory"]

_ARENAS = 2
WORKER_ENVIRONMENT: Mapping[str, str] = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": str(_ARENAS),
}
"""For workers whose address space is limited."""
_M_ARENA_MAX = -8
"""glibc's name for it."""
_ROWS_SHARE = 0.6
"""Of what is left for rows and files; merging was seen to grow by 1.4 times what it is told."""
_ASIDE = 128 * 1024 * 1024
"""Stacks of threads, and what allocators keep."""
_RESERVED = 1024 * 1024 * 1024
"""What an allocator of Arrow's own reserves."""
_LEAST = 16 * 1024 * 1024

_first: dict[int, int] = {}
"""Addresses that this process used when it was first asked, by its id."""


def address_space() -> int | None:
    """The limit of this process's address space; None = it has none."""
    if sys.platform == "win32":
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def fit_into_limit() -> None:
    """Makes allocators reserve little, in a process whose address space is limited."""
    if address_space() is None:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
    _used_at_first()


def task_memory(wanted: int, slots: int, *, cached: int) -> int:
    """Bytes of rows and files that a task may hold: its share of what is wanted, and of what the limit
    leaves.

    Args:
        wanted: for all tasks of a machine together.
        slots: how many of them there are; 0 = one for each core.
        cached: what caches may grow to.
    """
    share = wanted // (slots or os.cpu_count() or 1)
    limit = address_space()
    if limit is not None:
        reserved = 0 if pa.default_memory_pool().backend_name == "system" else _RESERVED
        left = limit - _used_at_first() - reserved - cached - _ASIDE
        share = min(share, int(left * _ROWS_SHARE))
    return max(_LEAST, share)


def _used_at_first() -> int:
    if os.getpid() not in _first:
        _first.clear()
        _first[os.getpid()] = _used()
    return _first[os.getpid()]


def _used() -> int:
    if sys.platform == "win32":
        return 0
    try:
        told = Path("/proc/self/statm").read_text()  # io-ok: no data
        return int(told.split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
