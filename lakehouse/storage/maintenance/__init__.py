"""Maintenance: expiry, orphans, purge, verification, repair, rebuilt indexes.

Words: *expiry* (snapshots that are no longer) · *sweep* (objects that no snapshot needs: *orphans*) ·
*purge* (what dropped tables leave) · *verification* → *damage* → *problem* · *repair* → *loss* · *rebuild*
(indexes). *Reachable* is what some snapshot refers to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.maintenance.analyze import AnalyzedColumn, AnalyzeReport
    from lakehouse.storage.maintenance.expire import ExpireReport, expire_snapshots
    from lakehouse.storage.maintenance.index_rebuild import (
        IndexedFile,
        IndexWork,
        RebuildResult,
        commit_indexes,
        index_one,
        plan_rebuild,
        planned_rebuild,
    )
    from lakehouse.storage.maintenance.orphans import (
        OrphanReport,
        OrphanSweep,
        PathSpan,
        begin_sweep,
        needed_paths,
        spans_of,
        sweep_span,
    )
    from lakehouse.storage.maintenance.partition_expiry import PartitionExpiryReport
    from lakehouse.storage.maintenance.purge import PurgeReport, purge_dropped
    from lakehouse.storage.maintenance.reachable import PathSet, paths_of
    from lakehouse.storage.maintenance.repair_report import Loss, LossKind, RepairReport
    from lakehouse.storage.maintenance.verify import verify_table
    from lakehouse.storage.maintenance.verify_files import FileCheck, FileFindings
    from lakehouse.storage.maintenance.verify_report import Damage, Problem, VerifyReport

__all__ = [
    "AnalyzeReport",
    "AnalyzedColumn",
    "Damage",
    "ExpireReport",
    "FileCheck",
    "FileFindings",
    "IndexWork",
    "IndexedFile",
    "Loss",
    "LossKind",
    "OrphanReport",
    "OrphanSweep",
    "PartitionExpiryReport",
    "PathSet",
    "PathSpan",
    "Problem",
    "PurgeReport",
    "RebuildResult",
    "RepairReport",
    "VerifyReport",
    "begin_sweep",
    "commit_indexes",
    "expire_snapshots",
    "index_one",
    "needed_paths",
    "paths_of",
    "plan_rebuild",
    "planned_rebuild",
    "purge_dropped",
    "spans_of",
    "sweep_span",
    "verify_table",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "analyze": "AnalyzeReport AnalyzedColumn",
        "expire": "ExpireReport expire_snapshots",
        "index_rebuild": (
            "IndexWork IndexedFile RebuildResult commit_indexes index_one plan_rebuild planned_rebuild"
        ),
        "orphans": "PathSpan OrphanReport OrphanSweep begin_sweep needed_paths spans_of sweep_span",
        "partition_expiry": "PartitionExpiryReport",
        "purge": "PurgeReport purge_dropped",
        "reachable": "PathSet paths_of",
        "repair_report": "Loss LossKind RepairReport",
        "verify": "verify_table",
        "verify_files": "FileCheck FileFindings",
        "verify_report": "Damage Problem VerifyReport",
    },
)
