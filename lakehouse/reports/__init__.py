"""What calls on tables return and hand out, for annotations: ``from lakehouse.reports import CompactResult``.

The classes that users make or call stand in ``lakehouse`` itself; what only comes back stands here.
"""

from __future__ import annotations

from lakehouse.index import IndexMetaScan
from lakehouse.io.check import CheckResult, StoreReport
from lakehouse.io.cost import Cost
from lakehouse.io.progress import Progress, ProgressCallback
from lakehouse.io.races import RaceTally, TallyCount
from lakehouse.storage.commit_result import CommitResult
from lakehouse.storage.compaction import CompactResult
from lakehouse.storage.drop import DatabaseDropResult, DropResult
from lakehouse.storage.expire import ExpireReport
from lakehouse.storage.follow import ChangeBatch
from lakehouse.storage.index_rebuild import RebuildResult
from lakehouse.storage.orphans import OrphanReport
from lakehouse.storage.partition_expiry import PartitionExpiryReport
from lakehouse.storage.purge import PurgeReport
from lakehouse.storage.reads import Freshness
from lakehouse.storage.repair_report import Loss, LossKind, RepairReport
from lakehouse.storage.rescale import RescaleReport
from lakehouse.storage.scan_report import ScanReport
from lakehouse.storage.undrop import DatabaseUndropResult
from lakehouse.storage.verify_report import Damage, Problem, VerifyReport
from lakehouse.storage.writer_session import Ack, WriterReport

__all__ = [
    "Ack",
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
    "PurgeReport",
    "RaceTally",
    "RebuildResult",
    "RepairReport",
    "RescaleReport",
    "ScanReport",
    "StoreReport",
    "TallyCount",
    "VerifyReport",
    "WriterReport",
]
