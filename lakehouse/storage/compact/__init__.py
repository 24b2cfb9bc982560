"""Compaction: runs are picked, merged and replaced; clustering and rescaling of tables.

Words: *plan* → *task* (runs of one merge unit that become one) → *pass* (runs merged beforehand, for
memory's sake) → *merged runs* (files in the store, in no snapshot yet) → *commit*. A *share* is a range of
keys of a task that one process does. *Lineage* is the snapshot and the kind that each row came with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.compact.background import watched
    from lakehouse.storage.compact.clustered_files import rows_with_places, sampled, write_in_order
    from lakehouse.storage.compact.clustering import ClusterOrder, Curve, cut_at, parse_order, range_bounds
    from lakehouse.storage.compact.executor import (
        CompactResult,
        MergedCommits,
        compact_table,
        cut_task,
        merge_task,
        plan_table,
        result_of_plan,
    )
    from lakehouse.storage.compact.plan import CompactionTask, plan_rewrite
    from lakehouse.storage.compact.rescaling import RescaleReport
    from lakehouse.storage.compact.run_merger import MergedRuns

__all__ = [
    "ClusterOrder", "CompactResult", "CompactionTask", "Curve", "MergedCommits", "MergedRuns",
    "RescaleReport", "compact_table", "cut_at", "cut_task", "merge_task", "parse_order", "plan_rewrite",
    "plan_table", "range_bounds", "result_of_plan", "rows_with_places", "sampled", "watched",
    "write_in_order",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "background": "watched",
        "clustered_files": "rows_with_places sampled write_in_order",
        "clustering": "ClusterOrder Curve cut_at parse_order range_bounds",
        "executor": "CompactResult MergedCommits compact_table cut_task merge_task plan_table result_of_plan",
        "plan": "CompactionTask plan_rewrite",
        "rescaling": "RescaleReport",
        "run_merger": "MergedRuns",
    },
)
