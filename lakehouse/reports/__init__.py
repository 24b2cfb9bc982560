"""What calls on tables return and hand out, for annotations: ``from lakehouse.reports import CompactResult``.

The classes that users make or call stand in ``lakehouse`` itself; what only comes back stands here.
"""

from __future__ import annotations

from lakehouse.index import IndexMetaScan
from lakehouse.io.cost import Cost
from lakehouse.io.proofs.check import CheckResult, StoreReport
from lakehouse.io.proofs.races import RaceTally, TallyCount
from lakehouse.io.work.progress import Progress, ProgressCallback
from lakehouse.storage.cdc.follow import ChangeBatch
from lakehouse.storage.compact.executor import CompactResult
from lakehouse.storage.compact.rescaling import RescaleReport
from lakehouse.storage.maintenance.expire import ExpireReport
from lakehouse.storage.maintenance.index_rebuild import RebuildResult
from lakehouse.storage.maintenance.orphans import OrphanReport
from lakehouse.storage.maintenance.partition_expiry import PartitionExpiryReport
from lakehouse.storage.maintenance.purge import PurgeReport
from lakehouse.storage.maintenance.repair_report import Loss, LossKind, RepairReport
from lakehouse.storage.maintenance.verify_report import Damage, Problem, VerifyReport
from lakehouse.storage.scan.report import ScanReport
from lakehouse.storage.scan.table_scan import Freshness
from lakehouse.storage.tables.commit_result import CommitResult
from lakehouse.storage.tables.drop import DatabaseDropResult, DropResult
from lakehouse.storage.tables.undrop import DatabaseUndropResult
from lakehouse.storage.write.writer_session import Ack, WriterReport

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
