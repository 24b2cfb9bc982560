"""Statistics and constraints of tables of either format, as of the snapshots that a query pins.

Words: a *target* asks one fact of a table or column; its *outcome* says whether the answer is of the pinned
snapshot. *Facts* are what the metadata of a snapshot tells, without reading rows. A *constraint* holds for
every row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.statistics.constraints import (
        Constraint,
        ConstraintKind,
        constraints_of,
    )
    from lakehouse.catalog.statistics.stats_stream import target_stats
    from lakehouse.catalog.statistics.values import StatsKind, StatsOutcome, StatsTarget, TargetStats

__all__ = [
    "Constraint", "ConstraintKind", "StatsKind", "StatsOutcome", "StatsTarget", "TargetStats",
    "constraints_of", "target_stats",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "constraints": "Constraint ConstraintKind constraints_of",
        "stats_stream": "target_stats",
        "values": "StatsKind StatsOutcome StatsTarget TargetStats",
    },
)
