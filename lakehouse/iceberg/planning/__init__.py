"""Planning of scans: which data files may hold wanted rows, told by columns of bounds.

Words: *manifests* → *candidates* (files of the manifests that were read) → *plan* (those that nothing
excludes) → *task* (a data file to read, with the *delete files* that apply to it) → *split* (tasks that one
process reads). A *question* is a condition in parts, its *answers* are their verdicts about many files; a
*residual* is what rows have still to be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.iceberg.planning.explanation import CacheUse, Explanation, FilterEffect, Pruned
    from lakehouse.iceberg.planning.files import FileSet, LiveEntries, SpecRange
    from lakehouse.iceberg.planning.plan import IcebergPlan
    from lakehouse.iceberg.planning.planner import planned
    from lakehouse.iceberg.planning.source import ManifestSource, PlanCaches, decode_whole
    from lakehouse.iceberg.planning.tasks import DeleteFile, FileFormatName, ScanTask

__all__ = [
    "CacheUse", "DeleteFile", "Explanation", "FileFormatName", "FileSet", "FilterEffect", "IcebergPlan",
    "LiveEntries", "ManifestSource", "PlanCaches", "Pruned", "ScanTask", "SpecRange", "decode_whole",
    "planned",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "explanation": "CacheUse Explanation FilterEffect Pruned",
        "plan": "IcebergPlan",
        "planner": "planned",
        "files": "FileSet LiveEntries SpecRange",
        "source": "ManifestSource PlanCaches decode_whole",
        "tasks": "DeleteFile FileFormatName ScanTask",
    },
)
