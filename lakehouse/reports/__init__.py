"""Results and reports of calls on tables, for annotations: ``from lakehouse.reports import CompactResult``.

The classes that users make or call are in ``lakehouse`` itself; classes that are only returned are here.
"""

from __future__ import annotations

from lakehouse.index import IndexMetaScan
from lakehouse.io.cost import Cost
from lakehouse.io.proofs import CheckResult, RaceTally, StoreReport, TallyCount
from lakehouse.io.work import Progress, ProgressCallback
from lakehouse.storage.cdc import ChangeBatch
from lakehouse.storage.compact import CompactResult, RescaleReport
from lakehouse.storage.maintenance import (
    AnalyzedColumn,
    AnalyzeReport,
    Damage,
    ExpireReport,
    Loss,
    LossKind,
    OrphanReport,
    PartitionExpiryReport,
    Problem,
    PurgeReport,
    RebuildResult,
    RepairReport,
    VerifyReport,
)
from lakehouse.storage.scan import Freshness, ScanReport
from lakehouse.storage.tables import (
    CommitResult,
    DatabaseDropResult,
    DatabaseUndropResult,
    DropResult,
    PublishingLag,
    PublishReport,
    ViewDefinition,
)
from lakehouse.storage.write import Ack, WriterReport

__all__ = [
    "Ack",
    "AnalyzeReport",
    "AnalyzedColumn",
    "ChangeBatch",
    "CheckResult",
    "CommitResult",
    "CompactResult",
    "Cost",
    "Damage",
    "DatabaseDropResult",
    "DatabaseUndropResult",
    "DropResult",
    "ExpireReport",
    "Freshness",
    "IndexMetaScan",
    "Loss",
    "LossKind",
    "OrphanReport",
    "PartitionExpiryReport",
    "Problem",
    "Progress",
    "ProgressCallback",
    "PublishReport",
    "PublishingLag",
    "PurgeReport",
    "RaceTally",
    "RebuildResult",
    "RepairReport",
    "RescaleReport",
    "ScanReport",
    "StoreReport",
    "TallyCount",
    "VerifyReport",
    "ViewDefinition",
    "WriterReport",
]
