"""Partitions of tables of either format: which there are, what is in them, and which changed.

Words: a *partition key* (spec and values) says which partition, its *bounds* which values of columns it has.
A wider partition *covers* narrower ones of another spec. *Changed partitions* are those whose rows may differ
between two snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.partitions.of_any import changed_partitions_of, partitions_of
    from lakehouse.catalog.partitions.values import (
        ChangedPartitions,
        Partition,
        PartitionBound,
        PartitionInfo,
        PartitionKey,
    )

__all__ = [
    "ChangedPartitions", "Partition", "PartitionBound", "PartitionInfo", "PartitionKey",
    "changed_partitions_of", "partitions_of",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "of_any": "changed_partitions_of partitions_of",
        "values": "ChangedPartitions Partition PartitionBound PartitionInfo PartitionKey",
    },
)
