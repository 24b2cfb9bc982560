"""Partitions of tables of either format, and what changed between two snapshots."""

from __future__ import annotations

from lakehouse.catalog.partitions.of_iceberg import iceberg_changes, iceberg_partitions
from lakehouse.catalog.partitions.of_tables import table_changes, table_partitions
from lakehouse.catalog.partitions.values import ChangedPartitions, PartitionInfo
from lakehouse.errors import FormatError
from lakehouse.iceberg import IcebergTable
from lakehouse.storage.table import Table
from lakehouse.storage.tables import OpenTable

__all__ = ["changed_partitions_of", "partitions_of"]


async def partitions_of(
    table: OpenTable | Table | IcebergTable, snapshot: int | None = None
) -> PartitionInfo:
    """Returns the partitions of a snapshot; None = the newest.

    A table without partitions has none, and so has one whose manifests cannot be read: what is wrong with it
    is said then, and raised by those who read its rows.
    """
    if isinstance(table, IcebergTable):
        return await iceberg_partitions(table, snapshot)
    view = await _core(table).read_view(snapshot=snapshot)
    try:
        return await table_partitions(view)
    except FormatError as error:
        return PartitionInfo(
            snapshot=view.snapshot.id, fields=view.schema.partition_by, problem=error.message
        )


async def changed_partitions_of(
    table: OpenTable | Table | IcebergTable, start: int | None, end: int | None = None
) -> ChangedPartitions:
    """Returns the partitions whose rows may differ between two snapshots, at the cost of the new manifests.

    Args:
        table: the table.
        start: snapshot that the caller has; None = nothing yet, so that all partitions of the end changed.
        end: snapshot to reach; None = the newest.
    """
    if start is not None:
        if isinstance(table, IcebergTable):
            return await iceberg_changes(table, start, end)
        return await table_changes(_core(table), start, end)
    info = await partitions_of(table, end)
    keys = tuple(one.key for one in info.partitions)
    reason = "the caller has nothing yet" if info.snapshot is not None else None
    is_all = reason is not None
    return ChangedPartitions(start=None, end=info.snapshot, partitions=keys, is_all=is_all, reason=reason)


def _core(table: OpenTable | Table) -> OpenTable:
    return table if isinstance(table, OpenTable) else table.core
