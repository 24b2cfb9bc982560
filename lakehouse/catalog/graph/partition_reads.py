"""Partitions of the graph's tables: kept by incarnation, snapshot and schema; what changed is not kept.

Invariant: what is kept is whole. A table that could not be read is asked again, since it may be repaired.
"""

from __future__ import annotations

from collections.abc import Hashable

from lakehouse.catalog.layers import Layers
from lakehouse.catalog.partitions import (
    ChangedPartitions,
    PartitionInfo,
    changed_partitions_of,
    partitions_of,
)
from lakehouse.catalog.sources import CatalogSource, Pointer
from lakehouse.storage.tables import OpenTable

__all__ = ["changed_in", "partitions_in"]


class _NotWholeError(Exception):
    """A table whose partitions cannot be told."""

    def __init__(self, info: PartitionInfo) -> None:
        super().__init__(info.problem)
        self.info = info


async def partitions_in(
    layers: Layers,
    source: CatalogSource,
    pointer: Pointer,
    snapshot: int | None,
    *,
    key: tuple[Hashable, ...],
    tags: tuple[Hashable, ...],
) -> PartitionInfo:
    """Returns the partitions of a snapshot; no request when they are kept.

    Args:
        layers: caches of the lake.
        source: catalog of the table.
        pointer: the table.
        snapshot: id of the snapshot; None = the newest.
        key: what identifies incarnation, snapshot and schema.
        tags: by which what is kept can be dropped.
    """

    async def load(_: tuple[Hashable, ...]) -> PartitionInfo:
        info = await _of(source, pointer, snapshot)
        if info.problem is not None:
            raise _NotWholeError(info)
        return info

    try:
        found = await layers.partitions.get(key, load, tags=tags)
    except _NotWholeError as error:
        return error.info
    return found if isinstance(found, PartitionInfo) else PartitionInfo(snapshot=snapshot)


async def _of(source: CatalogSource, pointer: Pointer, snapshot: int | None) -> PartitionInfo:
    opened = await source.open(pointer)
    if isinstance(opened, OpenTable):
        return await partitions_of(opened, snapshot)
    async with opened as table:
        return await partitions_of(table, snapshot)


async def changed_in(
    source: CatalogSource, pointer: Pointer, start: int | None, end: int | None
) -> ChangedPartitions:
    """Returns the partitions whose rows may differ between two snapshots of a table."""
    opened = await source.open(pointer)
    if isinstance(opened, OpenTable):
        return await changed_partitions_of(opened, start, end)
    async with opened as table:
        return await changed_partitions_of(table, start, end)
