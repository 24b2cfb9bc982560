"""File entries as JSON, the way they stand in a snapshot.

Invariant: what is left out has its default, so a small file's entry stays below half a kilobyte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.format.file_entry import ColumnStats, FileEntry, FileFormat, IndexRef, Level, Position

__all__ = ["entry_from_json", "entry_to_json"]


def entry_to_json(entry: FileEntry) -> dict[str, Any]:
    """The members of an entry; see ``docs/spec/v1/snapshot.md``."""
    found: dict[str, Any] = {"path": entry.path, "size": entry.size, "rows": entry.rows}
    if entry.partition:
        found["partition"] = [value.hex() for value in entry.partition]
    if (entry.bucket, entry.total_buckets) != (0, 1):
        found["bucket"] = [entry.bucket, entry.total_buckets]
    for name in ("run", "at", "level", "deletes", "updates"):
        if getattr(entry, name):
            found[name] = int(getattr(entry, name))
    if entry.lo is not None and entry.hi is not None:
        found["interval"] = [*entry.lo, *entry.hi]
    if entry.format is not FileFormat.PARQUET:
        found["format"] = entry.format.value
    if entry.min_key is not None and entry.max_key is not None:
        found["keys"] = [entry.min_key.hex(), entry.max_key.hex()]
    if entry.stats:
        found["stats"] = {str(field): _stats_to_json(stats) for field, stats in entry.stats.items()}
    if entry.schema_id:
        found["schema"] = entry.schema_id
    if entry.checksum is not None:
        found["crc32c"] = f"{entry.checksum:08x}"
    if entry.index is not None:
        found["index"] = _index_to_json(entry.index)
    return found


def entry_from_json(found: Mapping[str, Any]) -> FileEntry:
    """The entry with these members; raises KeyError, TypeError or ValueError when they are none."""
    bucket, total = found.get("bucket", (0, 1))
    interval = found.get("interval")
    keys = found.get("keys")
    checksum = found.get("crc32c")
    index = found.get("index")
    return FileEntry(
        path=found["path"],
        size=found["size"],
        rows=found["rows"],
        partition=tuple(map(bytes.fromhex, found.get("partition", ()))),
        bucket=bucket,
        total_buckets=total,
        run=found.get("run", 0),
        at=found.get("at"),
        lo=_position(interval[:3]) if interval else None,
        hi=_position(interval[3:]) if interval else None,
        level=Level(found.get("level", 0)),
        format=FileFormat(found.get("format", FileFormat.PARQUET)),
        deletes=found.get("deletes", 0),
        updates=found.get("updates", 0),
        min_key=bytes.fromhex(keys[0]) if keys else None,
        max_key=bytes.fromhex(keys[1]) if keys else None,
        stats={int(field): _stats_from_json(stats) for field, stats in found.get("stats", {}).items()},
        schema_id=found.get("schema", 0),
        checksum=int(checksum, 16) if checksum is not None else None,
        index=_index_from_json(index) if index else None,
    )


def _index_to_json(index: IndexRef) -> list[Any]:
    if not index.ids:
        return [index.path, index.size]
    crc = None if index.checksum is None else f"{index.checksum:08x}"
    found = [index.path, index.size, list(index.ids), index.footer_bytes, crc]
    return [*found, list(index.reach)] if any(index.reach) else found


def _index_from_json(found: list[Any]) -> IndexRef:
    path, size, *more = found
    if not more:
        return IndexRef(path=path, size=size)
    ids, footer_bytes, crc, *rest = more
    return IndexRef(
        path=path,
        size=size,
        ids=tuple(ids),
        footer_bytes=footer_bytes,
        checksum=None if crc is None else int(crc, 16),
        reach=tuple(rest[0]) if rest else (),
    )


def _position(numbers: list[int]) -> Position:
    commit, kind, number = numbers
    return commit, kind, number


def _stats_to_json(stats: ColumnStats) -> list[Any]:
    if stats.low is None and stats.high is None:
        return [stats.nulls]
    low, high = ((value.hex() if value is not None else None) for value in (stats.low, stats.high))
    return [stats.nulls, low, high, int(stats.exact)]


def _stats_from_json(found: list[Any]) -> ColumnStats:
    if len(found) == 1:
        return ColumnStats(nulls=found[0])
    nulls, low, high, exact = found
    return ColumnStats(
        nulls=nulls,
        low=bytes.fromhex(low) if low is not None else None,
        high=bytes.fromhex(high) if high is not None else None,
        exact=bool(exact),
    )
