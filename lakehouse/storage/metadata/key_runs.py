"""The files of a snapshot arranged by bucket and run, so that a search finds those that may hold a key.

Made once for a snapshot, where looking through all files would cost every lookup as many steps as there are
files. Pure: everything here is read off the entries.

Invariant: :meth:`KeyRuns.newest_first` returns exactly the files whose bucket, partition and range of keys
admit the key, those of newer rows before those of older ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from lakehouse.format.keys import bucket_of_key
from lakehouse.format.metadata import FileEntry, Position
from lakehouse.format.schema import TableSchema
from lakehouse.storage.metadata.run_order import interval

__all__ = ["KeyRuns"]

_Unit = tuple[int, tuple[bytes, ...]]
"""Bucket and partition; the partition is empty where the key does not say it."""


class _Run(NamedTuple):
    """Files that have no key range in common, by key."""

    lows: list[bytes]
    highs: list[bytes]
    files: list[FileEntry]


class KeyRuns:
    """Files by number of buckets, bucket, partition and run.

    Args:
        entries: live files, with their positions filled in.
        schema: the snapshot's schema, with a primary key.
    """

    __slots__ = ("_by_total", "_key_fields")

    def __init__(self, entries: Iterable[FileEntry], schema: TableSchema) -> None:
        self._key_fields = schema.key_fields
        found: dict[int, dict[_Unit, dict[tuple[Position, Position], list[FileEntry]]]] = {}
        by_partition = schema.key_holds_partition
        for entry in entries:
            if entry.min_key is not None and entry.max_key is not None:
                unit = entry.bucket, entry.partition if by_partition else ()
                runs = found.setdefault(entry.total_buckets, {}).setdefault(unit, {})
                runs.setdefault(interval(entry), []).append(entry)
        self._by_total: dict[int, dict[_Unit, list[_Run]]] = {
            total: {
                unit: [run for at in sorted(runs, reverse=True) for run in _runs(runs[at])]
                for unit, runs in units.items()
            }
            for total, units in found.items()
        }

    def newest_first(self, key: bytes, partition: tuple[bytes, ...] = ()) -> Sequence[FileEntry]:
        """Returns the files that may hold a row key, newest first.

        Args:
            key: the row key.
            partition: its encoded partition, if the key says it; else empty.
        """
        found: list[FileEntry] = []
        for total, units in self._by_total.items():
            bucket = bucket_of_key(key, self._key_fields, total) if total > 1 else 0
            for lows, highs, files in units.get((bucket, partition), ()):
                at = bisect_right(lows, key) - 1
                if at >= 0 and key <= highs[at]:
                    found.append(files[at])
        if len(self._by_total) > 1:
            found.sort(key=interval, reverse=True)
        return found


def _runs(files: list[FileEntry]) -> Iterator[_Run]:
    """Yields the files of an interval in groups without common keys: one, unless somebody cut them oddly."""
    files.sort(key=attrgetter("min_key", "path"))
    lows = [entry.min_key or b"" for entry in files]
    highs = [entry.max_key or b"" for entry in files]
    if all(high < low for high, (_, low) in zip(highs, pairwise(lows), strict=False)):
        yield _Run(lows, highs, files)
        return
    # Files of several partitions may reach over each other, where the key does not say the partition.
    for low, high, entry in zip(lows, highs, files, strict=True):
        yield _Run([low], [high], [entry])
