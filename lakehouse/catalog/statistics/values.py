"""Targets, and answers to them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

__all__ = ["COUNTS", "ColumnFacts", "StatsKind", "StatsOutcome", "StatsTarget", "TableStats", "TargetStats"]


class StatsKind(enum.StrEnum):
    """Fact that a target asks for."""

    ROWS = "rows"
    BYTES = "bytes"
    """Bytes of the data files."""
    NULLS = "nulls"
    BOUNDS = "bounds"
    """Least and greatest value, or bounds of them."""
    NDV = "ndv"
    """Number of distinct values, estimated by a theta sketch."""


COUNTS = frozenset({StatsKind.ROWS, StatsKind.BYTES})
"""Kinds that are asked of a table and not of a column."""


class StatsOutcome(enum.StrEnum):
    """Relation of an answer to the pinned snapshot."""

    HIT = "hit"
    """It is of the pinned snapshot."""
    STALE = "stale"
    """It is of another snapshot, which the answer names."""
    OMITTED = "omitted"
    """There may be an answer, and the budget of time or bytes was over."""
    MISSING = "missing"
    """Nobody knows: not analyzed, not in the metadata, or the table cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsTarget:
    """One fact that is asked for."""

    kind: StatsKind
    column: str | None = None
    """Name of the column; None for facts of the whole table."""
    priority: int = 0
    """Higher ones are answered first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStats:
    """Answer to a target."""

    table: str
    """Table as it was asked for."""
    target: StatsTarget
    outcome: StatsOutcome
    snapshot: int | None = None
    """Pinned snapshot."""
    of_snapshot: int | None = None
    """Snapshot that the answer is of."""
    count: int | None = None
    """Rows, bytes, nulls or distinct values."""
    low: Any = None
    high: Any = None
    is_exact: bool = False
    """Whether it is the fact itself; else an upper bound of rows and nulls, or bounds that values need not
    reach, or an estimate."""
    is_sampled: bool = False
    """Whether it was estimated from a part of the rows."""
    problem: str | None = None
    """Reason why there is no answer, for people."""

    @property
    def weight(self) -> int:
        """Estimated bytes of the answer on its way to a planner."""
        return _ITEM_BYTES + sum(len(one) for one in (self.low, self.high) if isinstance(one, str | bytes))


_ITEM_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """Facts of one column that metadata tells."""

    nulls: int | None = None
    low: Any = None
    high: Any = None
    has_bounds: bool = False
    is_exact: bool = False
    """Whether nulls and bounds are those of the rows that readers see."""
    ndv: int | None = None
    ndv_snapshot: int | None = None
    """Snapshot that the distinct values were counted in."""
    ndv_is_current: bool = False
    """Whether that has the rows of the pinned one."""
    is_sampled: bool = False
    """Whether that was done in a part of the rows."""
    is_counted: bool = False
    """Whether the distinct values were counted and not estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """Facts of one table at a snapshot."""

    snapshot: int | None
    rows: int | None
    rows_are_exact: bool
    bytes: int | None
    columns: dict[str, ColumnFacts]
