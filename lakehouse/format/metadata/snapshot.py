"""Snapshots: the whole state of a table in one object, and its JSON.

Invariant: a snapshot is a value; the object ``snapshot-{id}`` never changes, and creating it is the
commit. State = files of its manifests, without ``removed``, with ``added``. No object written before
the commit knows the commit's id, so entries that a snapshot adds leave ``at`` open, and a reader
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
    "WalRef",
    "WriterMark",
    "decode_snapshot",
    "encode_snapshot",
]

_FORMAT = 1
_FORMAT_UNDROP = 2
"""Of commits of a kind that releases before it do not know: they say so instead of finding damage."""
_SEGMENTS_MAX = 1 << 24
"""Segments of one range: more than a log grows by before it is flushed."""


class CommitKind(enum.StrEnum):
    """What a commit did."""

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
    """Said up to when uploads that nobody refers to are orphans."""
    INDEX = "index"
    """Gave data files other indexes."""
    FLUSH = "flush"
    """Put covered WAL segments into data files."""
    WAL = "wal"
    """Began the write-ahead log, or covered it and did nothing else."""
    RESCALE = "rescale"
    """Gave the table another number of buckets."""
    REPAIR = "repair"
    """Left out what could not be read any more."""
    DROP = "drop"
    UNDROP = "undrop"
    """Brought the table back; follows the drop and shows the same rows."""


class RefKind(enum.StrEnum):
    """Why a snapshot is kept."""

    TAG = "tag"
    PIN = "pin"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRef:
    """A schema object."""

    id: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentRef:
    """The snapshot before."""

    id: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRef:
    """A manifest, and what can be known of its entries without reading it."""

    path: str
    size: int
    """Bytes."""
    entries: int
    rows: int
    checksum: int
    """CRC32C of the object."""
    at: int | None = None
    """Snapshot that added those of its entries that do not say so; None = the one it stands in."""
    partition_low: tuple[bytes, ...] = ()
    """Least value of each partition column."""
    partition_high: tuple[bytes, ...] = ()
    """Greatest value of each partition column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalRef:
    """How far the write-ahead log is covered."""

    epoch: int
    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """Neighbouring WAL segments that one commit covered and that are in no data file yet."""

    first: int
    last: int
    size: int
    """Bytes of all of them."""
    at: int | None = None
    """Snapshot that covered them; None = the one the range stands in."""

    def without(self, numbers: Collection[int]) -> tuple[SegmentRange, ...]:
        """What is left when some segments are taken out, in order; sizes are then estimates."""
        if not any(self.first <= one <= self.last for one in numbers):
            return (self,)
        left = [one for one in range(self.first, self.last + 1) if one not in numbers]
        groups: list[list[int]] = []
        for one in left:
            if groups and groups[-1][1] == one - 1:
                groups[-1][1] = one
            else:
                groups.append([one, one])
        each = self.size / (self.last - self.first + 1)
        return tuple(
            SegmentRange(first=first, last=last, size=int(each * (last - first + 1)), at=self.at)
            for first, last in groups
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterMark:
    """The last commit of a writer that counts its commits."""

    sequence: int
    snapshot: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A name for a snapshot, which keeps it."""

    snapshot: int
    kind: RefKind = RefKind.TAG
    expires_ms: int | None = None
    """Pins end by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sums over the files of a state, or over those a commit added or took away."""

    files: int = 0
    rows: int = 0
    """Rows of every kind: what a merge would read, not what it would return."""
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
    """From 1 without gaps; the order of commits."""
    token: str
    """Names the logical commit, whatever id it ends up with."""
    parent: ParentRef | None
    kind: CommitKind
    time_ms: int
    """Later than the parent's."""
    table: uuid.UUID
    schema: SchemaRef
    manifests: tuple[ManifestRef, ...] = ()
    added: tuple[FileEntry, ...] = ()
    """Live files that no manifest lists."""
    removed: tuple[str, ...] = ()
    """Paths that a manifest lists and that are not live any more."""
    gone: tuple[str, ...] | None = ()
    """Paths that this commit took out of the state; None = too many to say, compare with the parent."""
    segments: tuple[SegmentRange, ...] = ()
    """WAL segments that are covered and not flushed, ascending."""
    wal: WalRef | None = None
    """None = no streaming writer was ever here."""
    writers: Mapping[str, WriterMark] = dataclass_field(default_factory=dict)
    refs: Mapping[str, Ref] = dataclass_field(default_factory=dict)
    earliest: int = 1
    """Snapshots below do not exist for readers, tagged ones aside."""
    orphan_horizon_ms: int | None = None
    """Uploads that began before, and are in no snapshot, may be deleted."""
    total: Counts = Counts()
    plus: Counts = Counts()
    """What this commit added."""
    minus: Counts = Counts()
    """What this commit took away."""
    message: str | None = None
    """What the committer wanted to say to people."""

    def carried(self) -> Snapshot:
        """The same state with nothing left open: what a child takes over."""
        return dataclasses.replace(
            self,
            added=tuple(
                one if one.at is not None else dataclasses.replace(one, at=self.id) for one in self.added
            ),
            manifests=tuple(
                one if one.at is not None else dataclasses.replace(one, at=self.id) for one in self.manifests
            ),
            segments=tuple(
                one if one.at is not None else dataclasses.replace(one, at=self.id) for one in self.segments
            ),
        )


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The bytes of the object ``snapshot-{id}``."""
    return _SNAPSHOT.encode(snapshot)


def decode_snapshot(data: bytes, *, key: str) -> Snapshot:
    """The snapshot in an object; ``key`` is named in errors."""
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
        "manifests": [_manifest_to_json(one) for one in snapshot.manifests],
        "added": [entry_to_json(one) for one in snapshot.added],
        "removed": list(snapshot.removed),
        "segments": [[one.first, one.last, one.size, one.at] for one in snapshot.segments],
        "writers": {
            name: [mark.sequence, mark.snapshot, mark.time_ms] for name, mark in snapshot.writers.items()
        },
        "refs": {name: [ref.snapshot, ref.kind.value, ref.expires_ms] for name, ref in snapshot.refs.items()},
        "message": snapshot.message,
        "orphan_horizon_ms": snapshot.orphan_horizon_ms,
        "wal": None if snapshot.wal is None else [snapshot.wal.epoch, snapshot.wal.upto],
    }
    members |= {name: value for name, value in lists.items() if value}
    if snapshot.gone is None or snapshot.gone:
        members["gone"] = None if snapshot.gone is None else list(snapshot.gone)
    return members


def _from_members(found: JsonObject) -> Snapshot:
    return Snapshot(
        id=found.read("id", _snapshot_id),
        token=found.read("token", text),
        parent=found.read("parent", optional(_parent_from_json)),
        kind=found.word("kind", CommitKind),
        time_ms=found.read("time_ms", moment),
        table=found.read("table", unique_id),
        schema=found.read("schema", _schema_from_json),
        manifests=tuple(map(_manifest_from_json, found.objects("manifests", []))),
        added=tuple(map(entry_from_json, found.objects("added", []))),
        removed=found.read("removed", each(text), ()),
        gone=found.read("gone", optional(each(text)), ()),
        segments=found.read("segments", each(_segments_from_json), ()),
        wal=found.read("wal", optional(_wal_from_json), None),
        writers=found.read("writers", table_of(_mark_from_json), {}),
        refs=found.read("refs", table_of(_ref_from_json), {}),
        earliest=found.read("earliest", _snapshot_id),
        orphan_horizon_ms=found.read("orphan_horizon_ms", optional(moment), None),
        total=found.read("total", _counts_from_json),
        plus=found.read("plus", _counts_from_json),
        minus=found.read("minus", _counts_from_json),
        message=found.read("message", optional(text), None),
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
    found = SegmentRange(
        first=_snapshot_id(first),
        last=_snapshot_id(last),
        size=count(size),
        at=optional(_snapshot_id)(at),
    )
    if not 0 <= found.last - found.first < _SEGMENTS_MAX:
        raise ValueError(f"must be a range of segments, not {first} to {last}")
    return found


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
    found = members(value)
    return Counts(files=count(found["files"]), rows=count(found["rows"]), bytes=count(found["bytes"]))


def _counts(counts: Counts) -> dict[str, int]:
    return dataclasses.asdict(counts)


def _manifest_to_json(ref: ManifestRef) -> dict[str, Any]:
    found: dict[str, Any] = {
        "path": ref.path,
        "size": ref.size,
        "entries": ref.entries,
        "rows": ref.rows,
        "crc32c": f"{ref.checksum:08x}",
    }
    if ref.at is not None:
        found["at"] = ref.at
    if ref.partition_low:
        found["partition"] = [
            [value.hex() for value in side] for side in (ref.partition_low, ref.partition_high)
        ]
    return found


def _manifest_from_json(found: JsonObject) -> ManifestRef:
    low, high = found.read("partition", _sides_from_json, ((), ()))
    return ManifestRef(
        path=found.read("path", text),
        size=found.read("size", count),
        entries=found.read("entries", count),
        rows=found.read("rows", count),
        checksum=found.read("crc32c", hex_checksum),
        at=found.read("at", _snapshot_id, None),
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
