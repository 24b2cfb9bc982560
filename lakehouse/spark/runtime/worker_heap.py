"""Garbage collection of workers: what they have loaded is taken out of what Python looks through.

After every task Spark's daemon looks for garbage in all that the worker holds. With pyarrow, numpy and the
clients of object stores loaded that takes some fifty milliseconds, more than a small task does. Modules are
never garbage, so they are put aside, by when tasks have loaded them.

Invariant: nothing happens but in processes that Spark's daemon has made, a few times in the life of each;
garbage of that moment is collected, and none that comes later is kept.
"""

from __future__ import annotations

import gc
import os
import sys

__all__ = ["put_loaded_aside"]

_DAEMON = "pyspark.daemon"
_AT = frozenset({2, 4, 8})
"""Pieces of work at whose beginning it is put aside; the later ones catch what tasks load late."""

_works: dict[int, int] = {}
"""Number of pieces of work that this process has begun, by its id."""


def put_loaded_aside() -> None:
    """Puts aside what a worker has loaded by now; called when a piece of work begins."""
    if not _is_worker():
        return
    pid = os.getpid()
    if pid not in _works:  # a fork has its parent's count
        _works.clear()
    _works[pid] = _works.get(pid, 0) + 1
    if _works[pid] in _AT:
        # Garbage of this moment goes first: what is frozen is never looked at again.
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    """Returns whether Spark's daemon is what this process, or the one it was forked from, runs."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == _DAEMON
