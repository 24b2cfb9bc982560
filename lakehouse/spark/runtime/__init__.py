"""Processes of a Spark job: sessions, how executors reach a warehouse, tasks, memory, types, errors.

Words: *session* (the driver's) → *connection* (a value that travels) → *warehouse* (the lake that each
process keeps for it) → *task* (work of an executor).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.spark.runtime.connection import Connection, warehouse
    from lakehouse.spark.runtime.sessions import session

__all__ = [
    "Connection", "session", "warehouse",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "connection": "Connection warehouse",
        "sessions": "session",
    },
)
