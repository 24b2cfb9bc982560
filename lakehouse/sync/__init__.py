"""The blocking API: a lake, its tables and their scans without ``await``.

Example::

    import lakehouse.sync

    with lakehouse.sync.connect("s3://bucket/warehouse") as lake:
        orders = lake.table("sales.orders")
        for batch in orders.scan("amount > 10").batches():
            print(batch.num_rows)

A lake works in a thread of its own, which its first call starts; it raises the errors of the async
lake. It may be used from any number of threads, and without ``with`` too: then :meth:`Lake.close` ends
it, or the interpreter's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sync.lake import Lake, connect
    from lakehouse.sync.scan import TableScan
    from lakehouse.sync.table import Table

__all__ = ["Lake", "Table", "TableScan", "connect"]

__getattr__, __dir__ = door(
    __name__,
    {
        "lake": "Lake connect",
        "scan": "TableScan",
        "table": "Table",
    },
)
