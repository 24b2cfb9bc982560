"""Work beside other work, bounded: fan-out, batches, threads, tasks in the background, progress, reports.

Words: *fan-out* (one function over many items, some at once) → *batch* (keys of one request) → *range*
(bytes of one object). *Background* work is waited for by nobody, or later. *Absence* is an
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.io.work.absence import or_none
    from lakehouse.io.work.background import Background, BackgroundJob, beside, finish
    from lakehouse.io.work.fanout import map_bounded
    from lakehouse.io.work.progress import Progress, ProgressCallback, ProgressReporter
    from lakehouse.io.work.report import CostReport, DryRunReport, Report, measured
    from lakehouse.io.work.threads import in_own_thread, in_thread

__all__ = [
    "Background",
    "BackgroundJob",
    "CostReport",
    "DryRunReport",
    "Progress",
    "ProgressCallback",
    "ProgressReporter",
    "Report",
    "beside", "finish",
    "in_own_thread",
    "in_thread",
    "map_bounded",
    "measured",
    "or_none",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "absence": "or_none",
        "background": "Background BackgroundJob beside finish",
        "fanout": "map_bounded",
        "progress": "Progress ProgressCallback ProgressReporter",
        "report": "CostReport DryRunReport Report measured",
        "threads": "in_own_thread in_thread",
    },
)
