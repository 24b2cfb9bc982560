"""The object store: the only thing the engine needs, and the only place that does I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.io.cost import Cost, OperationCost, measure
    from lakehouse.io.open import load_catalogs, load_settings, open_backend, open_beside, open_store
    from lakehouse.io.options import StorageOptions
    from lakehouse.io.protocols import Buffer, Capabilities, Fetched, ListPage, ObjectMeta, Stored
    from lakehouse.io.retry import RetryPolicy
    from lakehouse.io.store import ObjectStore
    from lakehouse.io.work.fanout import Failure, map_bounded
    from lakehouse.io.writer import ObjectWriter

__all__ = [
    "Buffer",
    "Capabilities",
    "Cost",
    "Failure",
    "Fetched",
    "ListPage",
    "ObjectMeta",
    "ObjectStore",
    "ObjectWriter",
    "OperationCost",
    "RetryPolicy",
    "StorageOptions",
    "Stored",
    "load_catalogs",
    "load_settings",
    "map_bounded",
    "measure",
    "open_backend",
    "open_beside",
    "open_store",
]

__getattr__, __dir__ = door(
    __name__,
    {
        "cost": "Cost OperationCost measure",
        "open": "load_catalogs load_settings open_backend open_beside open_store",
        "options": "StorageOptions",
        "protocols": "Buffer Capabilities Fetched ListPage ObjectMeta Stored",
        "retry": "RetryPolicy",
        "store": "ObjectStore",
        "lakehouse.io.work.fanout": "Failure map_bounded",
        "writer": "ObjectWriter",
    },
)
