"""Workers under ``spark.executor.pyspark.memory``: Spark limits their address space, not what they use.

Allocators reserve far more addresses than they use, a gigabyte and more, and run into such a limit long
before memory is short. So under a limit the system's allocator is given few arenas, and Arrow should
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
"""Environment of workers whose address space is limited."""
_M_ARENA_MAX = -8
"""Number by which glibc's ``mallopt`` knows the maximum of arenas."""
_ROWS_SHARE = 0.6
"""Share of what is left that rows and files get; merging was seen to grow by 1.4 times what it is allowed."""
_ASIDE = 128 * 1024 * 1024
"""Bytes for stacks of threads, and for what allocators keep."""
_RESERVED = 1024 * 1024 * 1024
"""Bytes of addresses that an allocator of Arrow's own reserves."""
_LEAST = 16 * 1024 * 1024
"""Bytes that a task may hold however little is left."""

_first: dict[int, int] = {}
"""Bytes of addresses that this process used when it was first asked, by its id."""


def address_space() -> int | None:
    """Returns the limit of this process's address space in bytes; None = it has none."""
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
    """Returns how many bytes of rows and files a task may hold: its share of what is wanted, and of what the
    limit leaves.

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
    # Measured once: later the rows of tasks and the caches would be counted, and taken off a second time.
    if os.getpid() not in _first:
        _first.clear()
        _first[os.getpid()] = _used()
    return _first[os.getpid()]


def _used() -> int:
    if sys.platform == "win32":
        return 0
    try:
        sizes = Path("/proc/self/statm").read_text()  # io-ok: no data
        return int(sizes.split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
