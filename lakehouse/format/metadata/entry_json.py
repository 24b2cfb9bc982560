"""File entries as JSON members of a snapshot.

Invariant: a member that is left out has its default, so a small file's entry stays below half a kilobyte.
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
    """Returns the members of an entry; see ``docs/spec/v1/snapshot.md``."""
    members_: dict[str, Any] = {"path": entry.path, "size": entry.size, "rows": entry.rows}
    if entry.partition:
        members_["partition"] = [value.hex() for value in entry.partition]
    if (entry.bucket, entry.total_buckets) != (0, 1):
        members_["bucket"] = [entry.bucket, entry.total_buckets]
    for name in ("run", "at", "level", "deletes", "updates"):
        if getattr(entry, name):
            members_[name] = int(getattr(entry, name))
    if entry.lo is not None and entry.hi is not None:
        members_["interval"] = [*entry.lo, *entry.hi]
    if entry.format is not FileFormat.PARQUET:
        members_["format"] = entry.format.value
    if entry.min_key is not None and entry.max_key is not None:
        members_["keys"] = [entry.min_key.hex(), entry.max_key.hex()]
    if entry.stats:
        members_["stats"] = stats_to_json(entry.stats)
    if entry.schema_id:
        members_["schema"] = entry.schema_id
    if entry.checksum is not None:
        members_["crc32c"] = f"{entry.checksum:08x}"
    if entry.index is not None:
        members_["index"] = _index_to_json(entry.index)
    return members_


def entry_from_json(members_: JsonObject) -> FileEntry:
    """Returns the entry with these members; CorruptionError when one of them is invalid."""
    bucket, total = members_.read("bucket", _bucket, (0, 1))
    lo, hi = members_.read("interval", _interval, (None, None))
    low, high = members_.read("keys", _keys, (None, None))
    return FileEntry(
        path=members_.read("path", text),
        size=members_.read("size", count),
        rows=members_.read("rows", count),
        partition=members_.read("partition", _hex_list, ()),
        bucket=bucket,
        total_buckets=total,
        run=members_.read("run", number, 0),
        at=members_.read("at", count, None),
        lo=lo,
        hi=hi,
        level=members_.read("level", _level, Level.FRESH),
        format=members_.read("format", FileFormat, FileFormat.PARQUET),
        deletes=members_.read("deletes", count, 0),
        updates=members_.read("updates", count, 0),
        min_key=low,
        max_key=high,
        stats=members_.read("stats", stats_from_json, {}),
        schema_id=members_.read("schema", number, 0),
        checksum=members_.read("crc32c", hex_checksum, None),
        index=members_.read("index", _index_from_json, None),
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
    lo_commit, lo_kind, lo_number, *rest = map(count, items(value))
    hi_commit, hi_kind, hi_number = rest
    return (lo_commit, lo_kind, lo_number), (hi_commit, hi_kind, hi_number)


def _index_to_json(index: IndexRef) -> list[Any]:
    if not index.ids:
        return [index.path, index.size]
    crc = None if index.checksum is None else f"{index.checksum:08x}"
    parts = [index.path, index.size, list(index.ids), index.footer_bytes, crc]
    return [*parts, list(index.reach)] if any(index.reach) else parts


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
    """Returns the JSON object of statistics by field id, as entries and SSTables have them."""
    return {str(field): _column_to_json(column) for field, column in stats.items()}


def _column_to_json(stats: ColumnStats) -> list[Any]:
    if stats.low is None and stats.high is None:
        return [stats.nulls]
    low, high = ((value.hex() if value is not None else None) for value in (stats.low, stats.high))
    return [stats.nulls, low, high, int(stats.exact)]


def stats_from_json(value: Any) -> dict[int, ColumnStats]:
    """Reads statistics by field id; ValueError or TypeError when the JSON is invalid."""
    return {_field_id(field): _column_from_json(column) for field, column in members(value).items()}


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
