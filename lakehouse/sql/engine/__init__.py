"""The engine: one locked DuckDB for a lake and account, whose statements read through our stores.

Words: *instance* (one DuckDB with its settings and its directory for spilled bytes) → *turn* (one of the
places for statements under way) → *statement* (a cursor of the instance and all that ends with it) → *stream*
(the batches of its result). A statement's *bridge* runs coroutines for DuckDB's threads, and its *virtual
files* are all that its text can open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sql.engine.batch_stream import BatchStream
    from lakehouse.sql.engine.failures import SqlFailure, failure_of
    from lakehouse.sql.engine.instance import SqlInstance
    from lakehouse.sql.engine.loop_bridge import LoopBridge
    from lakehouse.sql.engine.statement import SqlParameters, SqlStatement
    from lakehouse.sql.engine.virtual_files import VirtualFiles

__all__ = [
    "BatchStream", "LoopBridge", "SqlFailure", "SqlInstance", "SqlParameters", "SqlStatement", "VirtualFiles",
    "failure_of",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "batch_stream": "BatchStream",
        "failures": "SqlFailure failure_of",
        "instance": "SqlInstance",
        "loop_bridge": "LoopBridge",
        "statement": "SqlParameters SqlStatement",
        "virtual_files": "VirtualFiles",
    },
)
