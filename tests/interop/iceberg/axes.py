"""The axes along which Iceberg tables differ, and tables in which every legal pair of their values meets.

The choice is made by rule and the same each time: a table is begun with a pair that no table has yet, and
each further axis takes the value that adds most pairs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["AXES", "TRANSFORMS", "Pair", "Point", "legal", "pairs_of", "points", "possible_pairs"]

Point = dict[str, str]
"""A value for each axis: what a table is like."""
Pair = frozenset[tuple[str, str]]
"""Values of two axes."""

_TIMES = ("date", "timestamp", "timestamp_ntz")
_HASHED = ("int", "long", "string", *_TIMES, "decimal", "binary")
_ALL = (*_HASHED, "boolean", "float", "double")

TRANSFORMS: dict[str, tuple[str, ...]] = {
    "none": _ALL,
    "identity": _ALL,
    "year": _TIMES,
    "month": _TIMES,
    "day": _TIMES,
    "hour": ("timestamp", "timestamp_ntz"),
    "bucket": _HASHED,
    "truncate": ("int", "long", "string", "decimal", "binary"),
    "several": _ALL,
}
"""Partitioning, and the types that may be partitioned so. Spark can make no UUID and no FIXED."""

AXES: dict[str, tuple[str, ...]] = {
    "type": _ALL,
    "transform": tuple(TRANSFORMS),
    "schema": ("none", "add", "drop", "rename", "reorder", "promote", "nested"),
    "spec": ("one", "added", "removed", "replaced", "source renamed", "source promoted"),
    "deletes": ("none", "by file", "by partition", "equality", "vectors"),
    "version": ("1", "2", "3", "upgraded"),
    "metrics": ("truncate(16)", "counts", "none", "full"),
    "history": ("plain", "compacted", "emptied", "expired"),
    "format": ("parquet", "avro", "orc"),
    "refs": ("none", "both"),
    "zone": ("UTC", "Asia/Shanghai"),
}
"""Of each axis its values."""

_PROMOTED = ("int", "float", "decimal")
"""Types that have a wider one."""
_DELETES = {
    # Version 1 knows no deletes: rows go with their files.
    "1": ("none",),
    "2": ("none", "by file", "by partition", "equality"),
    # Iceberg writes no position deletes into tables of version 3.
    "3": ("none", "equality", "vectors"),
    "upgraded": AXES["deletes"],
}


def legal(point: Mapping[str, str]) -> bool:
    """Whether there can be a table with these values, of which some may be missing."""
    kind, transform, spec = point.get("type"), point.get("transform"), point.get("spec")
    if kind and transform and kind not in TRANSFORMS[transform]:
        return False
    if transform == "none" and spec in ("removed", "replaced", "source renamed", "source promoted"):
        return False
    if spec == "source promoted" and kind and kind not in _PROMOTED:
        return False
    version, deletes = point.get("version"), point.get("deletes")
    return not (version and deletes) or deletes in _DELETES[version]


def pairs_of(point: Mapping[str, str]) -> Iterator[Pair]:
    """All pairs of values of a table."""
    for one, other in itertools.combinations(point.items(), 2):
        yield frozenset((one, other))


@functools.cache
def possible_pairs() -> frozenset[Pair]:
    """Pairs that at least one legal table has."""
    found = set()
    for one, other in itertools.combinations(AXES, 2):
        for pair in itertools.product(AXES[one], AXES[other]):
            point = dict(zip((one, other), pair, strict=True))
            if _completed(point) is not None:
                found.add(frozenset(point.items()))
    return frozenset(found)


def _completed(point: Point) -> Point | None:
    """A legal table with these values; None when there is none."""
    if not legal(point):
        return None
    missing = next((axis for axis in AXES if axis not in point), None)
    if missing is None:
        return point
    tried = (_completed({**point, missing: value}) for value in AXES[missing])
    return next((made for made in tried if made is not None), None)


@functools.cache
def points() -> tuple[Point, ...]:
    """Tables in which every possible pair meets at least once."""
    left = dict.fromkeys(sorted(possible_pairs(), key=lambda pair: sorted(pair)))
    made = []
    while left:
        best = max((_grown(dict(pair), left) for pair in _beginnings(left)), key=lambda p: _new(p, left))
        made.append(best)
        for pair in pairs_of(best):
            left.pop(pair, None)
    return tuple({axis: point[axis] for axis in AXES} for point in made)


def _beginnings(left: Mapping[Pair, None]) -> list[Pair]:
    """A few pairs that are still missing, from all over them."""
    pairs = list(left)
    return pairs[:: max(1, len(pairs) // 12)]


def _grown(point: Point, left: Mapping[Pair, None]) -> Point:
    for axis in sorted(AXES, key=lambda axis: -len(AXES[axis])):
        if axis not in point:
            choices = [{**point, axis: value} for value in _turned(AXES[axis], len(left))]
            possible = [choice for choice in choices if _completed(choice) is not None]
            point = max(possible, key=lambda choice: _new(choice, left))
    return point


def _turned(values: Sequence[str], by: int) -> Sequence[str]:
    """The values from another one on: ties are not always won by the first."""
    start = by % len(values)
    return (*values[start:], *values[:start])


def _new(point: Point, left: Mapping[Pair, None]) -> int:
    return sum(pair in left for pair in pairs_of(point))
