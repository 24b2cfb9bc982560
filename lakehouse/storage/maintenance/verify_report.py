"""Report of a verification, as values, text and an Arrow relation.

Invariant: every damage names one object and every verified snapshot that needs it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.io.work import CostReport
from lakehouse.storage.metadata.paths import ObjectKind, object_kind

__all__ = ["Damage", "Damages", "Problem", "VerifyReport"]


class Problem(enum.StrEnum):
    """Kind of damage to an object."""

    MISSING = "missing"
    SIZE = "size"
    """Its size is not the one that its snapshot records."""
    UNREADABLE = "unreadable"
    """Its bytes are damaged, or those of another object."""
    CHAIN = "chain"
    """A snapshot does not follow from the one before."""
    COUNTS = "counts"
    """Sums that a snapshot or a manifest records are wrong."""
    INTERVAL = "interval"
    """Its interval overlaps that of another run."""
    ENTRY = "entry"
    """Its entry cannot be true."""
    ROWS = "rows"
    """Its rows are not those of its entry: their number, kinds, keys, partition or bucket."""
    STATS = "stats"
    """It holds values outside the bounds of its entry."""


_RELATION = pa.schema(
    {
        "object": pa.string(),
        "problem": pa.string(),
        "detail": pa.string(),
        "snapshots": pa.list_(pa.int64()),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One problem of one object."""

    object: str
    """Path relative to the table's directory."""
    problem: Problem
    detail: str
    """Description for people."""
    snapshots: tuple[int, ...]
    """Ids of the verified snapshots that need the object, ascending."""

    def __str__(self) -> str:
        return f"{self.object}: {self.detail} (snapshots {_ranges(self.snapshots)})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VerifyReport(CostReport):
    """Result of a verification: the objects checked and the damages found."""

    deep: bool
    """Whether data files were read, and not only their metadata."""
    snapshots: int
    """Number of snapshots verified."""
    manifests: int
    """Number of manifests read."""
    files: int
    """Number of data files checked."""
    bytes: int
    """Bytes of the data files."""
    damages: tuple[Damage, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damages

    def relation(self) -> pa.Table:
        """Returns one row per damage."""
        rows = [
            {
                "object": damage.object,
                "problem": damage.problem.value,
                "detail": damage.detail,
                "snapshots": list(damage.snapshots),
            }
            for damage in self.damages
        ]
        return pa.Table.from_pylist(rows, _RELATION)

    def __str__(self) -> str:
        lines = "\n".join(f"  {damage}" for damage in self.damages)
        looked = f"{self.snapshots:,} snapshots, {self.manifests:,} manifests, {self.files:,} data files"
        depth = "read in full" if self.deep else "not opened"
        return (
            f"{looked} ({self.bytes:,} bytes, {depth}): "
            + (f"{len(self.damages):,} damages\n{lines}" if lines else "sound")
            + f"\n{self.cost}"
        )


class Damages:
    """Collects damages, with all the snapshots that need each object."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Problem], tuple[str, set[int]]] = {}
        self._by_object: dict[str, list[tuple[str, Problem]]] = {}

    def add(self, path: str, problem: Problem, detail: str, snapshots: Iterable[int]) -> None:
        """Adds a problem of an object that some snapshots need."""
        key = (path, problem)
        if key not in self._found:
            self._found[key] = (detail, set())
            self._by_object.setdefault(path, []).append(key)
        self._found[key][1].update(snapshots)

    def touch(self, path: str, snapshot: int) -> None:
        """Notes that a snapshot needs an object as well, whatever problems it has."""
        for key in self._by_object.get(path, ()):
            self._found[key][1].add(snapshot)

    def carry(self, before: int, snapshot: int) -> None:
        """Notes that a snapshot needs the same files as the one before."""
        for (path, _), (_, snapshots) in self._found.items():
            # Damage to a snapshot object is its own; only files are shared.
            if before in snapshots and object_kind(path) not in (ObjectKind.SNAPSHOT, ObjectKind.HINT):
                snapshots.add(snapshot)

    def all(self, gone: Iterable[int] = ()) -> tuple[Damage, ...]:
        """Returns all damages by object, without those that only concern snapshots expired meanwhile."""
        expired = frozenset(gone)
        return tuple(
            Damage(object=path, problem=problem, detail=detail, snapshots=tuple(sorted(snapshots)))
            for (path, problem), (detail, snapshots) in sorted(self._found.items())
            if not snapshots or snapshots - expired
        )


def _ranges(numbers: Iterable[int]) -> str:
    """Formats numbers as ranges: ``1-3, 7``."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and groups[-1][1] == number - 1:
            groups[-1][1] = number
        else:
            groups.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in groups) or "none"
