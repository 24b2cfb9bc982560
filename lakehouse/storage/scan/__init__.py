"""Scans and lookups: which files, which pieces of them, and which of their rows.

Words: *plan* (files that are read) → *unit* (files that may share keys) → *section* (a range of keys, read
and merged at once) → *part* (pieces of one file in it) → *piece*. A *pruner* says what a condition
excludes, a *selection* which rows indexes leave, a *split* what one process reads. *Admission* bounds the
sections under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.scan.aggregate import AggregateQuery, PartialAggregates
    from lakehouse.storage.scan.conditions import bind_where, partition_test
    from lakehouse.storage.scan.file_plan import Judged, Prunes, plan_files
    from lakehouse.storage.scan.known_rows import rows_of_files, rows_of_view
    from lakehouse.storage.scan.lookup import FoundRows, Lookup
    from lakehouse.storage.scan.pruner import Pruner
    from lakehouse.storage.scan.report import ScanReport
    from lakehouse.storage.scan.row_forms import RowForms, check_wanted
    from lakehouse.storage.scan.scan import Scan
    from lakehouse.storage.scan.splits import Split, opened_splits, plan_splits, planned_bytes
    from lakehouse.storage.scan.table_scan import Freshness, TableScan, is_fresh, to_expr
    from lakehouse.storage.scan.work_ranges import LARGE, OPENED_MAX, cut_files, pieces_of

__all__ = [
    "LARGE",
    "OPENED_MAX",
    "AggregateQuery",
    "FoundRows",
    "Freshness",
    "Judged",
    "Lookup",
    "PartialAggregates",
    "Pruner",
    "Prunes",
    "RowForms",
    "Scan",
    "ScanReport",
    "Split",
    "TableScan",
    "bind_where",
    "check_wanted",
    "cut_files",
    "is_fresh",
    "opened_splits",
    "partition_test",
    "pieces_of",
    "plan_files",
    "plan_splits",
    "planned_bytes",
    "rows_of_files",
    "rows_of_view",
    "to_expr",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "aggregate": "PartialAggregates AggregateQuery",
        "conditions": "bind_where partition_test",
        "file_plan": "Judged Prunes plan_files",
        "known_rows": "rows_of_files rows_of_view",
        "lookup": "FoundRows Lookup",
        "pruner": "Pruner",
        "report": "ScanReport",
        "row_forms": "RowForms check_wanted",
        "scan": "Scan",
        "splits": "Split opened_splits plan_splits planned_bytes",
        "table_scan": "Freshness TableScan is_fresh to_expr",
        "work_ranges": "LARGE OPENED_MAX cut_files pieces_of",
    },
)
