"""File entries as JSON, the way they stand in a snapshot.

Invariant: what is left out has its default, so a small file's entry stays below half a kilobyte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.excerpt import short
from lakehouse.format.limits.json_object import (
    INT32_MAX,
    JsonObject,
    count,
    each,
    hex_bytes,
    hex_checksum,
    items,
    members,
    number,
    optional,
    text,
    whole,
)
from lakehouse.format.metadata.file_entry import ColumnStats, FileEntry, FileFormat, IndexRef, Level, Position

__all__ = ["entry_from_json", "entry_to_json", "stats_from_json", "stats_to_json"]

_ID_DIGITS = 10


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
        found["stats"] = stats_to_json(entry.stats)
    if entry.schema_id:
        found["schema"] = entry.schema_id
    if entry.checksum is not None:
        found["crc32c"] = f"{entry.checksum:08x}"
    if entry.index is not None:
        found["index"] = _index_to_json(entry.index)
    return found


def entry_from_json(found: JsonObject) -> FileEntry:
    """The entry with these members; CorruptionError when they are none."""
    bucket, total = found.read("bucket", _bucket, (0, 1))
    lo, hi = found.read("interval", _interval, (None, None))
    low, high = found.read("keys", _keys, (None, None))
    return FileEntry(
        path=found.read("path", text),
        size=found.read("size", count),
        rows=found.read("rows", count),
        partition=found.read("partition", _hex_list, ()),
        bucket=bucket,
        total_buckets=total,
        run=found.read("run", number, 0),
        at=found.read("at", count, None),
        lo=lo,
        hi=hi,
        level=found.read("level", _level, Level.FRESH),
        format=found.read("format", FileFormat, FileFormat.PARQUET),
        deletes=found.read("deletes", count, 0),
        updates=found.read("updates", count, 0),
        min_key=low,
        max_key=high,
        stats=found.read("stats", stats_from_json, {}),
        schema_id=found.read("schema", number, 0),
        checksum=found.read("crc32c", hex_checksum, None),
        index=found.read("index", _index_from_json, None),
    )


def _level(value: Any) -> Level:
    return Level(whole(value, 0, max(Level)))


def _bucket(value: Any) -> tuple[int, int]:
    bucket, total = items(value)
    return number(bucket), whole(total, 1, INT32_MAX)


def _keys(value: Any) -> tuple[bytes, bytes]:
    low, high = items(value)
    return hex_bytes(low), hex_bytes(high)


def _interval(value: Any) -> tuple[Position, Position]:
    commit, kind, number, *above = map(count, items(value))
    high_commit, high_kind, highnumber = above
    return (commit, kind, number), (high_commit, high_kind, highnumber)


def _index_to_json(index: IndexRef) -> list[Any]:
    if not index.ids:
        return [index.path, index.size]
    crc = None if index.checksum is None else f"{index.checksum:08x}"
    found = [index.path, index.size, list(index.ids), index.footer_bytes, crc]
    return [*found, list(index.reach)] if any(index.reach) else found


def _index_from_json(value: Any) -> IndexRef:
    path, size, *more = items(value)
    if not more:
        return IndexRef(path=text(path), size=count(size))
    ids, footer_bytes, crc, *rest = more
    return IndexRef(
        path=text(path),
        size=count(size),
        ids=_numbers(ids),
        footer_bytes=count(footer_bytes),
        checksum=_checksum(crc),
        reach=_counts(rest[0]) if rest else (),
    )


def stats_to_json(stats: Mapping[int, ColumnStats]) -> dict[str, list[Any]]:
    """Statistics by field id, as entries and SSTables have them."""
    return {str(field): _column_to_json(one) for field, one in stats.items()}


def _column_to_json(stats: ColumnStats) -> list[Any]:
    if stats.low is None and stats.high is None:
        return [stats.nulls]
    low, high = ((value.hex() if value is not None else None) for value in (stats.low, stats.high))
    return [stats.nulls, low, high, int(stats.exact)]


def stats_from_json(value: Any) -> dict[int, ColumnStats]:
    """Statistics by field id; ValueError or TypeError when they are none."""
    return {_field_id(field): _column_from_json(one) for field, one in members(value).items()}


def _field_id(digits: str) -> int:
    if len(digits) <= _ID_DIGITS and digits.isdigit() and digits.isascii():
        return number(int(digits))
    raise ValueError(f"must be named by field ids, not by {short(digits)}")


def _column_from_json(value: Any) -> ColumnStats:
    nulls, *more = items(value)
    if not more:
        return ColumnStats(nulls=count(nulls))
    low, high, exact = more
    return ColumnStats(
        nulls=count(nulls),
        low=None if low is None else bytes.fromhex(low),
        high=None if high is None else bytes.fromhex(high),
        exact=_EXACT[exact],
    )


_EXACT = (False, True)
_hex_list = each(hex_bytes)
_numbers = each(number)
_counts = each(count)
_checksum = optional(hex_checksum)
