"""What a verification found, as values, text and an Arrow relation.

Invariant: every damage names one object and every verified snapshot that needs it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from lakehouse.io.cost import Cost
from lakehouse.storage.metadata.paths import ObjectKind, object_kind

__all__ = ["Damage", "Damages", "Problem", "VerifyReport"]


class Problem(enum.StrEnum):
    """What is wrong with an object."""

    MISSING = "missing"
    SIZE = "size"
    """It has another size than its snapshot says."""
    UNREADABLE = "unreadable"
    """Its bytes are damaged, or those of another object."""
    CHAIN = "chain"
    """A snapshot does not follow from the one before."""
    COUNTS = "counts"
    """Sums that a snapshot or a manifest gives are wrong."""
    INTERVAL = "interval"
    """Its rows stand where those of another run stand."""
    ENTRY = "entry"
    """What its snapshot says of it cannot be true."""
    ROWS = "rows"
    """Its rows are not those its snapshot speaks of: their number, kinds, keys, partition or bucket."""
    STATS = "stats"
    """It holds values outside the bounds that its snapshot gives."""


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
    """Something wrong with one object."""

    object: str
    """Path relative to the table's directory."""
    problem: Problem
    detail: str
    """For people."""
    snapshots: tuple[int, ...]
    """Ids of the verified snapshots that need the object, ascending."""

    def __str__(self) -> str:
        return f"{self.object}: {self.detail} (snapshots {_ranges(self.snapshots)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a verification looked at and found."""

    deep: bool
    """Whether data was read, and not only what describes it."""
    snapshots: int
    """Snapshots verified."""
    manifests: int
    files: int
    """Data files."""
    bytes: int
    """Of the data files."""
    damages: tuple[Damage, ...] = ()
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damages

    def relation(self) -> pa.Table:
        """One row per damage."""
        rows = [
            {
                "object": one.object,
                "problem": one.problem.value,
                "detail": one.detail,
                "snapshots": list(one.snapshots),
            }
            for one in self.damages
        ]
        return pa.Table.from_pylist(rows, _RELATION)

    def __str__(self) -> str:
        found = "\n".join(f"  {one}" for one in self.damages)
        looked = f"{self.snapshots:,} snapshots, {self.manifests:,} manifests, {self.files:,} data files"
        depth = "read in full" if self.deep else "not opened"
        return (
            f"{looked} ({self.bytes:,} bytes, {depth}): "
            + (f"{len(self.damages):,} damages\n{found}" if found else "sound")
            + f"\n{self.cost}"
        )


class Damages:
    """Damages as they are found, each object's snapshots put together."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Problem], tuple[str, set[int]]] = {}
        self._by_object: dict[str, list[tuple[str, Problem]]] = {}

    def add(self, path: str, problem: Problem, detail: str, snapshots: Iterable[int]) -> None:
        """Something is wrong with an object that some snapshots need."""
        key = (path, problem)
        if key not in self._found:
            self._found[key] = (detail, set())
            self._by_object.setdefault(path, []).append(key)
        self._found[key][1].update(snapshots)

    def touch(self, path: str, snapshot: int) -> None:
        """A snapshot needs the object as well, whatever is wrong with it."""
        for key in self._by_object.get(path, ()):
            self._found[key][1].add(snapshot)

    def carry(self, before: int, snapshot: int) -> None:
        """A snapshot needs the same files as the one before."""
        for (path, _), (_, snapshots) in self._found.items():
            if before in snapshots and object_kind(path) not in (ObjectKind.SNAPSHOT, ObjectKind.HINT):
                snapshots.add(snapshot)

    def all(self, gone: Iterable[int] = ()) -> tuple[Damage, ...]:
        """All of them by object; those that only touch snapshots which expired meanwhile are left out."""
        expired = frozenset(gone)
        return tuple(
            Damage(object=path, problem=problem, detail=detail, snapshots=tuple(sorted(snapshots)))
            for (path, problem), (detail, snapshots) in sorted(self._found.items())
            if not snapshots or snapshots - expired
        )


def _ranges(numbers: Iterable[int]) -> str:
    """``1-3, 7``."""
    groups: list[list[int]] = []
    for one in numbers:
        if groups and groups[-1][1] == one - 1:
            groups[-1][1] = one
        else:
            groups.append([one, one])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in groups) or "none"
