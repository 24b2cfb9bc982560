"""Snapshots: the whole state of a table in one object, and its JSON.

Invariant: a snapshot is a value; the object ``snapshot-{id}`` never changes, and creating it is the
commit. State = files of its manifests, without ``removed``, with ``added``. No object written before
the commit contains the commit's id, so entries that a snapshot adds leave ``at`` open, and a reader
fills in the id of the snapshot it read them from.
"""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from lakehouse.format.limits.json_object import (
    COUNT_MAX,
    JsonObject,
    count,
    each,
    hex_bytes,
    hex_checksum,
    items,
    members,
    moment,
    number,
    optional,
    table_of,
    text,
    unique_id,
    whole,
)
from lakehouse.format.metadata.entry_json import entry_from_json, entry_to_json
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.metadata.sealed_json import REPAIR_ADVICE, SealedFormat

__all__ = [
    "CommitKind",
    "Counts",
    "ManifestRef",
    "ParentRef",
    "Ref",
    "RefKind",
    "SchemaRef",
    "SegmentRange",
    "Snapshot",
    "StatisticsRef",
    "WalRef",
    "WriterMark",
    "decode_snapshot",
    "encode_snapshot",
]

_FORMAT = 1
_FORMAT_UNDROP = 2
"""Format of commits of kind ``undrop``, so that older releases ask for an upgrade, not find damage."""
_SEGMENTS_MAX = 1 << 24
"""Maximum segments of one range: more than a log grows by before it is flushed."""


class CommitKind(enum.StrEnum):
    """Kind of a commit: the operation that made it."""

    CREATE = "create"
    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"
    OVERWRITE = "overwrite"
    COMPACT = "compact"
    ALTER = "alter"
    ROLLBACK = "rollback"
    TAG = "tag"
    """Made, moved or dropped tags and pins."""
    EXPIRE = "expire"
    ORPHANS = "orphans"
    """Set the time before which uploads without a reference count as orphans."""
    INDEX = "index"
    """Gave data files other indexes."""
    FLUSH = "flush"
    """Put covered WAL segments into data files."""
    WAL = "wal"
    """Began the write-ahead log, or covered it and did nothing else."""
    RESCALE = "rescale"
    """Gave the table another number of buckets."""
    REPAIR = "repair"
    """Left out files that could not be read any more."""
    DROP = "drop"
    UNDROP = "undrop"
    """Restored the table; follows the drop and has the same rows."""


class RefKind(enum.StrEnum):
    """Kind of a reference that keeps a snapshot."""

    TAG = "tag"
    PIN = "pin"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRef:
    """Reference to a schema object."""

    id: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentRef:
    """Reference to the snapshot before."""

    id: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRef:
    """Reference to a manifest, with sums and bounds of its entries."""

    path: str
    size: int
    """Size of the object in bytes."""
    entries: int
    rows: int
    checksum: int
    """CRC32C of the object."""
    at: int | None = None
    """Snapshot that added those of its entries that leave ``at`` open; None = the one it is read from."""
    partition_low: tuple[bytes, ...] = ()
    """Least value of each partition column."""
    partition_high: tuple[bytes, ...] = ()
    """Greatest value of each partition column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalRef:
    """The covered part of the write-ahead log."""

    epoch: int
    """Lower bound of the epoch of the log's writer."""
    upto: int
    """Number of the last covered segment; 0 = none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsRef:
    """A puffin file with sketches of a table's columns."""

    snapshot: int
    """Id of the snapshot that was read for it."""
    path: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """Neighbouring WAL segments that one commit covered and that are in no data file yet."""

    first: int
    last: int
    """Number of the last segment, inclusive."""
    size: int
    """Bytes of all of them together."""
    at: int | None = None
    """Snapshot that covered them; None = the one the range is read from."""

    def without(self, numbers: Collection[int]) -> tuple[SegmentRange, ...]:
        """Returns the ranges that remain without some segments, in order; sizes are then estimates."""
        if not any(self.first <= segment <= self.last for segment in numbers):
            return (self,)
        left = [segment for segment in range(self.first, self.last + 1) if segment not in numbers]
        groups: list[list[int]] = []
        for segment in left:
            if groups and groups[-1][1] == segment - 1:
                groups[-1][1] = segment
            else:
                groups.append([segment, segment])
        each = self.size / (self.last - self.first + 1)
        return tuple(
            SegmentRange(first=first, last=last, size=int(each * (last - first + 1)), at=self.at)
            for first, last in groups
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterMark:
    """The last commit of a writer that numbers its commits."""

    sequence: int
    """Number that the writer gave the commit."""
    snapshot: int
    """Id of the snapshot that the commit made."""
    time_ms: int
    """Time of the commit, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A name for a snapshot, which keeps it."""

    snapshot: int
    kind: RefKind = RefKind.TAG
    expires_ms: int | None = None
    """Time at which a pin ends by itself, in milliseconds since 1970; None = never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sums over the files of a state, or over those that a commit added or removed."""

    files: int = 0
    rows: int = 0
    """Rows of every kind: those that a merge would read, not those that it would return."""
    bytes: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            files=self.files + other.files, rows=self.rows + other.rows, bytes=self.bytes + other.bytes
        )

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            files=self.files - other.files, rows=self.rows - other.rows, bytes=self.bytes - other.bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a table after one commit."""

    id: int
    """Number of the snapshot, from 1 without gaps; the order of commits."""
    token: str
    """Name of the logical commit, whatever id it ends up with."""
    parent: ParentRef | None
    kind: CommitKind
    time_ms: int
    """Time of the commit in milliseconds since 1970, later than the parent's."""
    table: uuid.UUID
    schema: SchemaRef
    manifests: tuple[ManifestRef, ...] = ()
    added: tuple[FileEntry, ...] = ()
    """Live files that no manifest lists."""
    removed: tuple[str, ...] = ()
    """Paths that a manifest lists and that are not live any more."""
    gone: tuple[str, ...] | None = ()
    """Paths that this commit removed from the state; None = too many to list, compare with the parent."""
    segments: tuple[SegmentRange, ...] = ()
    """WAL segments that are covered and not flushed, ascending."""
    wal: WalRef | None = None
    """Covered part of the write-ahead log; None = the table never had a streaming writer."""
    writers: Mapping[str, WriterMark] = dataclass_field(default_factory=dict)
    """Last commit of each writer that numbers its commits, by the writer's id."""
    refs: Mapping[str, Ref] = dataclass_field(default_factory=dict)
    """Tags and pins by name."""
    earliest: int = 1
    """Lowest id of a snapshot that readers may read, tagged and pinned ones aside."""
    orphan_horizon_ms: int | None = None
    """Time before which uploads must have begun to be orphans, if no snapshot refers to them."""
    statistics: StatisticsRef | None = None
    """Newest statistics of the columns; of an older snapshot, mostly. None = there are none."""
    total: Counts = Counts()
    """Sums over the files of the state."""
    plus: Counts = Counts()
    """Sums over the files that this commit added."""
    minus: Counts = Counts()
    """Sums over the files that this commit removed."""
    message: str | None = None
    """Message of the committer for people."""

    def with_positions(self) -> Snapshot:
        """Returns the same state with every ``at`` filled in, as a child of the snapshot lists it."""
        return dataclasses.replace(
            self,
            added=tuple(
                entry if entry.at is not None else dataclasses.replace(entry, at=self.id)
                for entry in self.added
            ),
            manifests=tuple(
                ref if ref.at is not None else dataclasses.replace(ref, at=self.id) for ref in self.manifests
            ),
            segments=tuple(
                segments if segments.at is not None else dataclasses.replace(segments, at=self.id)
                for segments in self.segments
            ),
        )


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encodes the object ``snapshot-{id}``."""
    return _SNAPSHOT.encode(snapshot)


def decode_snapshot(data: bytes, *, key: str) -> Snapshot:
    """Decodes the object; ``key`` is named in errors."""
    return _SNAPSHOT.decode(data, key=key)


def _to_members(snapshot: Snapshot) -> dict[str, Any]:
    members: dict[str, Any] = {
        "format": _FORMAT_UNDROP if snapshot.kind is CommitKind.UNDROP else _FORMAT,
        "id": snapshot.id,
        "token": snapshot.token,
        "parent": None if snapshot.parent is None else [snapshot.parent.id, snapshot.parent.token],
        "kind": snapshot.kind.value,
        "time_ms": snapshot.time_ms,
        "table": str(snapshot.table),
        "schema": [snapshot.schema.id, snapshot.schema.path],
        "earliest": snapshot.earliest,
        "total": _counts(snapshot.total),
        "plus": _counts(snapshot.plus),
        "minus": _counts(snapshot.minus),
    }
    lists: dict[str, Any] = {
        "manifests": [_manifest_to_json(ref) for ref in snapshot.manifests],
        "added": [entry_to_json(entry) for entry in snapshot.added],
        "removed": list(snapshot.removed),
        "segments": [
            [segments.first, segments.last, segments.size, segments.at] for segments in snapshot.segments
        ],
        "writers": {
            name: [mark.sequence, mark.snapshot, mark.time_ms] for name, mark in snapshot.writers.items()
        },
        "refs": {name: [ref.snapshot, ref.kind.value, ref.expires_ms] for name, ref in snapshot.refs.items()},
        "message": snapshot.message,
        "orphan_horizon_ms": snapshot.orphan_horizon_ms,
        "wal": None if snapshot.wal is None else [snapshot.wal.epoch, snapshot.wal.upto],
        "statistics": _statistics_to_json(snapshot.statistics),
    }
    members |= {name: value for name, value in lists.items() if value}
    if snapshot.gone is None or snapshot.gone:
        members["gone"] = None if snapshot.gone is None else list(snapshot.gone)
    return members


def _from_members(members_: JsonObject) -> Snapshot:
    return Snapshot(
        id=members_.read("id", _snapshot_id),
        token=members_.read("token", text),
        parent=members_.read("parent", optional(_parent_from_json)),
        kind=members_.word("kind", CommitKind),
        time_ms=members_.read("time_ms", moment),
        table=members_.read("table", unique_id),
        schema=members_.read("schema", _schema_from_json),
        manifests=tuple(map(_manifest_from_json, members_.objects("manifests", []))),
        added=tuple(map(entry_from_json, members_.objects("added", []))),
        removed=members_.read("removed", each(text), ()),
        gone=members_.read("gone", optional(each(text)), ()),
        segments=members_.read("segments", each(_segments_from_json), ()),
        wal=members_.read("wal", optional(_wal_from_json), None),
        writers=members_.read("writers", table_of(_mark_from_json), {}),
        refs=members_.read("refs", table_of(_ref_from_json), {}),
        earliest=members_.read("earliest", _snapshot_id),
        statistics=members_.read("statistics", optional(_statistics_from_json), None),
        orphan_horizon_ms=members_.read("orphan_horizon_ms", optional(moment), None),
        total=members_.read("total", _counts_from_json),
        plus=members_.read("plus", _counts_from_json),
        minus=members_.read("minus", _counts_from_json),
        message=members_.read("message", optional(text), None),
    )


def _snapshot_id(value: Any) -> int:
    return whole(value, 1, COUNT_MAX)


def _parent_from_json(value: Any) -> ParentRef:
    parent_id, token = items(value)
    return ParentRef(id=_snapshot_id(parent_id), token=text(token))


def _schema_from_json(value: Any) -> SchemaRef:
    schema_id, path = items(value)
    return SchemaRef(id=number(schema_id), path=text(path))


def _segments_from_json(value: Any) -> SegmentRange:
    first, last, size, at = items(value)
    segments = SegmentRange(
        first=_snapshot_id(first),
        last=_snapshot_id(last),
        size=count(size),
        at=optional(_snapshot_id)(at),
    )
    if not 0 <= segments.last - segments.first < _SEGMENTS_MAX:
        raise ValueError(f"must be a range of segments, not {first} to {last}")
    return segments


def _statistics_to_json(ref: StatisticsRef | None) -> list[Any] | None:
    return None if ref is None else [ref.snapshot, ref.path, ref.size]


def _statistics_from_json(value: Any) -> StatisticsRef:
    snapshot, path, size = items(value)
    return StatisticsRef(snapshot=_snapshot_id(snapshot), path=text(path), size=count(size))


def _wal_from_json(value: Any) -> WalRef:
    epoch, upto = items(value)
    return WalRef(epoch=count(epoch), upto=count(upto))


def _mark_from_json(value: Any) -> WriterMark:
    sequence, snapshot, time_ms = items(value)
    return WriterMark(sequence=whole(sequence), snapshot=_snapshot_id(snapshot), time_ms=moment(time_ms))


def _ref_from_json(value: Any) -> Ref:
    snapshot, kind, expires_ms = items(value)
    return Ref(snapshot=_snapshot_id(snapshot), kind=RefKind(kind), expires_ms=optional(moment)(expires_ms))


def _counts_from_json(value: Any) -> Counts:
    sums = members(value)
    return Counts(files=count(sums["files"]), rows=count(sums["rows"]), bytes=count(sums["bytes"]))


def _counts(counts: Counts) -> dict[str, int]:
    return dataclasses.asdict(counts)


def _manifest_to_json(ref: ManifestRef) -> dict[str, Any]:
    members_: dict[str, Any] = {
        "path": ref.path,
        "size": ref.size,
        "entries": ref.entries,
        "rows": ref.rows,
        "crc32c": f"{ref.checksum:08x}",
    }
    if ref.at is not None:
        members_["at"] = ref.at
    if ref.partition_low:
        members_["partition"] = [
            [value.hex() for value in side] for side in (ref.partition_low, ref.partition_high)
        ]
    return members_


def _manifest_from_json(ref: JsonObject) -> ManifestRef:
    low, high = ref.read("partition", _sides_from_json, ((), ()))
    return ManifestRef(
        path=ref.read("path", text),
        size=ref.read("size", count),
        entries=ref.read("entries", count),
        rows=ref.read("rows", count),
        checksum=ref.read("crc32c", hex_checksum),
        at=ref.read("at", _snapshot_id, None),
        partition_low=low,
        partition_high=high,
    )


def _sides_from_json(value: Any) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    low, high = (each(hex_bytes)(side) for side in items(value))
    if len(low) != len(high):
        raise ValueError("must be as many least values as greatest ones")
    return low, high


_SNAPSHOT = SealedFormat(
    what="snapshot", newest=_FORMAT_UNDROP, to_json=_to_members, from_json=_from_members, advice=REPAIR_ADVICE
)
