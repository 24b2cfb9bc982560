"""Partitions as values: what identifies one, which values of which columns it has, and what is in it.

Invariant: every row of a partition lies within its bounds, and two partitions of one spec have no row in
common. A bound that is not known is None and promises nothing.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lakehouse.expr import Expr, all_of, col

__all__ = [
    "ChangedPartitions",
    "Partition",
    "PartitionBound",
    "PartitionInfo",
    "PartitionKey",
    "hashable",
    "key_name",
]

_ORDERED = (int, float, str, dt.date, dt.datetime, decimal.Decimal)
"""Types of values that conditions compare."""
_EXACT = frozenset({"identity", "year", "month", "day", "hour"})
"""Transforms whose bounds hold no value of another partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBound:
    """Values that a column has in a partition, as one partition field says."""

    column: str
    """Source column; the field's own name where the schema has that column no more."""
    transform: str
    """Transform that made the partition value, such as ``identity``, ``day`` or ``bucket[16]``."""
    value: Any
    """Partition value, as it is stored; None = all values of the column are null, or under ``void`` any."""
    low: Any = None
    """Least value of the column; None = not known, or there is none."""
    high: Any = None
    """Greatest value of the column, likewise."""
    high_open: bool = False
    """Whether all values are below ``high``."""

    @property
    def is_null(self) -> bool:
        """Whether the column is null in every row."""
        return self.value is None and self.transform not in ("void", "unknown")

    def where(self) -> Expr | None:
        """Returns a condition that every row of the partition meets; None = nothing is known."""
        if self.is_null:
            return col(self.column).is_null()
        if not isinstance(self.low, _ORDERED) or not isinstance(self.high, _ORDERED) or _is_nan(self.low):
            return None
        column = col(self.column)
        if self.low == self.high:
            return column == self.low
        below = column < self.high if self.high_open else column <= self.high
        return all_of(column >= self.low, below)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKey:
    """Identity of a partition in its table."""

    spec_id: int
    """Partition spec that it is of; 0 for tables of our own, which have one."""
    values: tuple[Any, ...]
    """Partition values, in the order of the spec's fields."""
    name: str = field(compare=False)
    """For people, such as ``day=2026-01-02/region=eu``; after a change of the spec with that in front."""
    bounds: tuple[PartitionBound, ...] = field(default=(), compare=False)

    @property
    def is_exact(self) -> bool:
        """Whether only rows of the partition, and of partitions that it covers, meet :meth:`where`."""
        return bool(self.bounds) and all(
            bound.transform in _EXACT and bound.where() is not None for bound in self.bounds
        )

    def where(self) -> Expr | None:
        """Returns a condition that every row of the partition meets, for a scan of little more than it.

        None = no field bounds a column, as in a partition of buckets.
        """
        known = [one for one in (bound.where() for bound in self.bounds) if one is not None]
        return all_of(*known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of a snapshot, and what is in it."""

    key: PartitionKey
    files: int
    stored_rows: int
    """Rows in data files, those included that others replace or delete."""
    rows: int | None
    """Rows that readers see; None where only reading them tells."""
    bytes: int
    last_snapshot: int | None
    """Newest snapshot that added a file which is there; None = it has expired. What only took files away
    is told by :class:`ChangedPartitions`, not here."""
    delete_files: int = 0
    """Iceberg's delete files that may apply."""
    covers: tuple[PartitionKey, ...] = ()
    """Narrower partitions of other specs that lie within this one, after the partitioning was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """Partitions of a snapshot; none where the table has no partitions, or they cannot be told."""

    snapshot: int | None
    """None = the table has no snapshot."""
    fields: tuple[str, ...] = ()
    """Fields of the newest spec as text, such as ``day(ts)``."""
    partitions: tuple[Partition, ...] = ()
    is_complete: bool = True
    """Whether every row is in a partition of the list: rows in the write-ahead log alone are in none yet."""
    problem: str | None = None
    """Reason why there are none although the table is partitioned."""

    @property
    def by_key(self) -> dict[PartitionKey, Partition]:
        """Partitions by what identifies them."""
        return {one.key: one for one in self.partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPartitions:
    """Partitions whose rows may differ between two snapshots."""

    start: int | None
    """Snapshot that the caller has; None = nothing yet."""
    end: int | None
    partitions: tuple[PartitionKey, ...] = ()
    """Changed ones, in order of their names; a compaction changes none."""
    is_all: bool = False
    """Whether any partition may have changed, also those that are not listed."""
    reason: str | None = None
    """Reason for ``is_all``."""


def hashable(value: Any) -> Any:
    """Returns the value so that equal partition values are equal keys: every NaN is one object."""
    return math.nan if _is_nan(value) else value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def key_name(names: Iterable[str], values: Iterable[Any]) -> str:
    """Returns the name of a partition for people."""
    return "/".join(f"{name}={_shown(value)}" for name, value in zip(names, values, strict=True))


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    return value.hex() if isinstance(value, bytes) else str(value)
