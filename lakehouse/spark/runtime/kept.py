"""Things that a process keeps open, because workers are used again.

Invariant: nothing that a parent opened is used in a process that was forked from it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Kept"]

T = TypeVar("T")


class Kept(Generic[T]):
    """Open things by key; the one opened first makes room.

    Args:
        most: maximum number that is kept.
        close: closes one.
    """

    def __init__(self, most: int, close: Callable[[T], None]) -> None:
        self._most, self._close = most, close
        self._lock = threading.Lock()
        self._kept: dict[str, T] = {}
        self._pid = os.getpid()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Returns what is kept under a key, made when it is first asked for."""
        with self._lock:
            if self._pid != os.getpid():
                # A fork has copied what has threads that stayed behind.
                self._kept.clear()
                self._pid = os.getpid()
            found = self._kept.get(key)
            if found is None:
                if len(self._kept) >= self._most:
                    self._close(self._kept.pop(next(iter(self._kept))))
                found = self._kept[key] = make()
            return found
