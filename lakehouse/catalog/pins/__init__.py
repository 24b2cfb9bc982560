"""Pins and queries: which snapshot of each table a query reads, decided once.

Words: *query* (an id, a lifetime and one set of pins) → *pin set* → *pin* (the snapshot that one table has in
a query). A *choice* is the snapshot that a caller asks for; the first *touch* of a table resolves it. A
*hold* is a commit that keeps the snapshot of a pin from expiry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.pins.choices import Moment, PinKind, SnapshotChoice, SnapshotPin
    from lakehouse.catalog.pins.pin_set import PinnedNodes, PinSet, snapshot_pin
    from lakehouse.catalog.pins.queries import OpenQueries, Queries, RunsSql
    from lakehouse.catalog.pins.query import Query, QueryGraph, QueryHome, SqlValues
    from lakehouse.catalog.pins.query_scan import QueryScan
    from lakehouse.catalog.pins.sharing import Sharing

__all__ = [
    "Moment", "OpenQueries", "PinKind", "PinSet", "PinnedNodes", "Queries", "Query", "QueryGraph",
    "QueryHome", "QueryScan", "RunsSql", "Sharing", "SnapshotChoice", "SnapshotPin", "SqlValues",
    "snapshot_pin",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "choices": "Moment PinKind SnapshotChoice SnapshotPin",
        "pin_set": "PinSet PinnedNodes snapshot_pin",
        "queries": "OpenQueries Queries RunsSql",
        "query": "Query QueryGraph QueryHome SqlValues",
        "query_scan": "QueryScan",
        "sharing": "Sharing",
    },
)
