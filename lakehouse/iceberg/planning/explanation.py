"""Explanation of a plan: manifests and files that are left out, each with what excludes it and why.

Invariant: numbers are of the whole plan; only the list of what was left out is cut at the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse.expr.columnar import ColumnarBounds, FileBounds
from lakehouse.io.cost import Cost
from lakehouse.io.work import Report

__all__ = ["CacheUse", "Explanation", "FilterEffect", "Pruned", "range_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Report):
    """A manifest or a data file that is not read."""

    path: str
    what: str
    """``manifest`` or ``file``."""
    by: str
    """``partition``, ``metrics`` or ``runtime filter``."""
    why: str
    """The condition that excludes it, and what is known of the columns that it mentions."""


@dataclass(slots=True, kw_only=True)
class CacheUse(Report):
    """Manifests of a plan that were in memory, and those that were not."""

    hits: int = 0
    misses: int = 0
    """Manifests that were read from the store, or that another query was reading."""

    def __str__(self) -> str:
        return f"manifest cache: hits={self.hits} misses={self.misses}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterEffect(Report):
    """Effect of one condition or one runtime filter, whatever others exclude too."""

    filter: str
    kind: str
    """``where`` or ``runtime``."""
    manifests: int
    files: int
    """Data files of the manifests that were read."""
    bytes: int
    """Their size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Report):
    """Manifests and files of a plan, and what excludes the others."""

    snapshot: int | None
    """Id of the snapshot; None = the table has none."""
    manifests: int
    """Data manifests of the snapshot."""
    manifests_pruned: int
    files: int
    """Data files that are to be read."""
    files_pruned: int
    """Data files that were left out, of the manifests that were read."""
    bytes: int
    """Size of the files that are to be read."""
    rows: int
    """Rows of these, deleted ones included."""
    delete_files: int
    """Delete files of the manifests that were read."""
    filters: tuple[FilterEffect, ...]
    pruned: tuple[Pruned, ...] = field(repr=False)
    """Manifests and then files that are not read, as many as were asked for."""
    cost: Cost = field(default_factory=Cost)
    """Requests of the planning."""
    cache: CacheUse = field(default_factory=CacheUse)
    """Manifests of it that were in memory."""

    def __str__(self) -> str:
        lines = [
            (
                f"snapshot {self.snapshot}: {self.files:,} files of {self.bytes:,} bytes and {self.rows:,} "
                f"rows; {self.files_pruned:,} files and {self.manifests_pruned:,} of {self.manifests:,} "
                f"manifests left out; {self.delete_files:,} delete files; {self.cost}"
            ),
            *(
                f"  {effect.kind} {effect.filter}: excludes {effect.manifests:,} manifests and "
                f"{effect.files:,} files of {effect.bytes:,} bytes"
                for effect in self.filters
            ),
            *(f"  {one.what} {one.path}: {one.by}: {one.why}" for one in self.pruned),
            f"  {self.cache}",
        ]
        return "\n".join(lines)


def range_text(bounds: FileBounds, names: Sequence[str], at: int) -> str:
    """Returns what is known of some columns in one file or manifest, as a phrase."""
    return "; ".join(f"{name} {_known(bounds.columns.get(name), int(bounds.rows[at]), at)}" for name in names)


def _known(bounds: ColumnarBounds | None, rows: int, at: int) -> str:
    if bounds is None:
        return "has no bounds"
    if bounds.nulls[at] >= rows:
        return "is null"
    low, high = (_value(ends, at) for ends in (bounds.low.array, bounds.high.array))
    nulls = "" if bounds.nulls[at] == 0 else " or null"
    buckets = [
        f"in bucket {_span(int(one.least[at]), int(one.greatest[at]))}"
        for one in bounds.residues
        if one.least[at] >= 0
    ]
    if low is None and high is None:
        return f"is {' and '.join(buckets) or 'anything'}{nulls}"
    until = "below" if bounds.high_open is not None and bounds.high_open[at] else "to"
    shown = ["…" if end is None else str(end) for end in (low, high)]
    ends = shown[0] if low == high else f"{shown[0]} {until} {shown[1]}"
    return f"is {' and '.join([ends, *buckets])}{nulls}"


def _value(array: Any, at: int) -> Any:
    value = array[at]
    # Nanoseconds have no Python value without pandas.
    return None if not value.is_valid else str(value) if "timestamp[ns" in str(array.type) else value.as_py()


def _span(least: int, greatest: int) -> str:
    return str(least) if least == greatest else f"{least} to {greatest}"
