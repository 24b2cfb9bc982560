"""Iceberg tables: planned over columns of bounds, and read by our own scan.

Words: *metadata* (schemas, specs, snapshots) → *manifest list* → *manifest* → *entry* (a file) → *plan* (the
files that a scan reads) → *task* (one of them, with its deletes). A *place* is a store and a key in it.

    async with await iceberg.open("s3://bucket/warehouse/db/events") as table:
        plan = await table.plan("event_time >= '2026-01-01'")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.expr.runtime_filter import RuntimeFilter
    from lakehouse.iceberg.metadata import (
        IcebergRef,
        IcebergSnapshot,
        PartitionField,
        PartitionSpec,
        TableMetadata,
    )
    from lakehouse.iceberg.planning import DeleteFile, Explanation, IcebergPlan, ScanTask
    from lakehouse.iceberg.scan import IcebergScan
    from lakehouse.iceberg.state import TableState
    from lakehouse.iceberg.table import IcebergTable, open  # noqa: A004
    from lakehouse.iceberg.types import IcebergSchema
    from lakehouse.kernels.value_bloom import ValueBloom

__all__ = [
    "DeleteFile", "Explanation", "IcebergPlan", "IcebergRef", "IcebergScan", "IcebergSchema",
    "IcebergSnapshot", "IcebergTable", "PartitionField", "PartitionSpec", "RuntimeFilter", "ScanTask",
    "TableMetadata", "TableState", "ValueBloom", "open",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "lakehouse.expr.runtime_filter": "RuntimeFilter",
        "metadata": "IcebergRef IcebergSnapshot PartitionField PartitionSpec TableMetadata",
        "lakehouse.iceberg.planning": "DeleteFile Explanation IcebergPlan ScanTask",
        "scan": "IcebergScan",
        "state": "TableState",
        "table": "IcebergTable open",
        "types": "IcebergSchema",
        "lakehouse.kernels.value_bloom": "ValueBloom",
    },
)
