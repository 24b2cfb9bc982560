"""Metadata of an Iceberg table as values: schemas, partition specs, snapshots, references.

Made by :mod:`lakehouse.iceberg.metadata_json`. Version 1 is shown as later versions are: missing lists hold
the one schema and the one spec that there is, sequence numbers are 0, and the current snapshot is ``main``.

Invariant: the current schema and default spec exist, and so does the snapshot of every reference.
"""

from __future__ import annotations

import datetime as dt
import uuid as uuid_module
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Literal

from lakehouse.errors import CorruptionError, InvalidInputError, NotFoundError
from lakehouse.iceberg.types import IcebergSchema
from lakehouse.suggest import suggestion

__all__ = [
    "MAIN",
    "IcebergRef",
    "IcebergSnapshot",
    "LogEntry",
    "PartitionField",
    "PartitionSpec",
    "SnapshotStatistics",
    "SortField",
    "SortOrder",
    "TableMetadata",
]

MAIN = "main"
"""The branch whose snapshot is the table's current one."""
_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One value of a partition, and how it is made of columns."""

    source_ids: tuple[int, ...]
    """Ids of the columns; several for transforms of several arguments."""
    field_id: int
    """Id of the value in manifests, unique over all specs of a table of version 2 or later."""
    name: str
    transform: str
    """As the metadata has it: ``identity``, ``bucket[16]``, ``truncate[4]``, ``day`` …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """How files of a table are cut by partition; without fields they are not."""

    id: int
    fields: tuple[PartitionField, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One step of an order of rows."""

    source_ids: tuple[int, ...]
    transform: str
    direction: str
    """``asc`` or ``desc``."""
    null_order: str
    """``nulls-first`` or ``nulls-last``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """The order that writers give rows; 0 has no fields and means none."""

    id: int
    fields: tuple[SortField, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSnapshot:
    """The files of a table as of one commit."""

    id: int
    parent_id: int | None = None
    sequence: int = 0
    """Number of the commit in their order; 0 in tables of version 1."""
    timestamp_ms: int
    manifest_list: str | None = None
    """Path of the list of its manifests; None where ``manifests`` names them."""
    manifests: tuple[str, ...] = ()
    """Paths of its manifests, in tables of version 1 that have no list."""
    summary: Mapping[str, str] = dataclass_field(default_factory=dict, hash=False)
    schema_id: int | None = None
    """Schema that the table had then."""
    first_row_id: int | None = None
    """Row id of the first row that it added, from version 3 on."""

    @property
    def operation(self) -> str:
        """``append``, ``replace``, ``overwrite`` or ``delete``; empty where it is not told."""
        return self.summary.get("operation", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergRef:
    """A branch or a tag: a name for a snapshot."""

    name: str
    snapshot_id: int
    kind: Literal["branch", "tag"]
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotStatistics:
    """A statistics file, as metadata tell of it."""

    snapshot_id: int
    """Snapshot that it was computed of."""
    path: str
    size: int
    ndv: Mapping[int, int]
    """Distinct values by field id, of columns with a theta sketch."""
    sketched: frozenset[int] | None = None
    """Ids of the columns with a sketch; None = metadata do not list what is in the file."""

    def may_have(self, field_id: int) -> bool:
        """Returns whether the file may have a sketch of a column."""
        return self.sketched is None or field_id in self.sketched


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """The moment from which a snapshot was the current one."""

    timestamp_ms: int
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """One metadata file."""

    path: str
    """Where it was read, for messages."""
    format_version: int
    uuid: str | None
    location: str
    """Base of the table's paths, without a slash at its end."""
    last_sequence_number: int
    last_updated_ms: int
    last_column_id: int
    schemas: Mapping[int, IcebergSchema]
    current_schema_id: int
    specs: Mapping[int, PartitionSpec]
    default_spec_id: int
    sort_orders: Mapping[int, SortOrder]
    default_sort_order_id: int
    properties: Mapping[str, str]
    current_snapshot_id: int | None
    """None = the table has no rows yet."""
    snapshots: Mapping[int, IcebergSnapshot]
    """By id, in the order of the file."""
    snapshot_log: tuple[LogEntry, ...] = ()
    """Which snapshot was current from when on, oldest first."""
    metadata_log: tuple[tuple[int, str], ...] = ()
    """Earlier metadata files: milliseconds since 1970 of their last change, and path."""
    refs: Mapping[str, IcebergRef]
    statistics: tuple[SnapshotStatistics, ...] = ()
    """Statistics files; those that make no sense are left out, as they are a help and not the table."""
    next_row_id: int | None = None

    @property
    def identity(self) -> uuid_module.UUID:
        """Incarnation of the table: its uuid; where it has none that is one, a uuid made of its location."""
        try:
            return uuid_module.UUID(self.uuid or "")
        except ValueError:
            return uuid_module.uuid5(uuid_module.NAMESPACE_URL, self.location)

    @property
    def current_schema(self) -> IcebergSchema:
        """Schema that the table has now."""
        return self.schemas[self.current_schema_id]

    @property
    def default_spec(self) -> PartitionSpec:
        """Partition spec that writers use now."""
        return self.specs[self.default_spec_id]

    @property
    def current_snapshot(self) -> IcebergSnapshot | None:
        """Snapshot that the table has now; None while it has none."""
        return None if self.current_snapshot_id is None else self.snapshots[self.current_snapshot_id]

    def schema_of(self, snapshot: IcebergSnapshot | None) -> IcebergSchema:
        """Returns the schema that the table had at a snapshot; where that is not told, the current one."""
        number = None if snapshot is None else snapshot.schema_id
        if snapshot is None or number is None:
            return self.current_schema
        if number not in self.schemas:
            raise CorruptionError(
                f"{self.path}: snapshot {snapshot.id} has schema {number}, which the metadata lack "
                f"(there are {_listed(self.schemas)}): read another snapshot",
                key=self.path,
                field="schema-id",
                got=number,
            )
        return self.schemas[number]

    def snapshot_by_id(self, number: int) -> IcebergSnapshot:
        """Returns the snapshot of that id.

        Raises:
            NotFoundError: the table has none; the message lists those that it has.
        """
        found = self.snapshots.get(number)
        if found is None:
            raise NotFoundError(
                f"{self.path}: there is no snapshot {number}, it may have expired; "
                f"there are {_listed(self.snapshots)}",
                snapshot=number,
            )
        return found

    def snapshot_at(self, timestamp_ms: int) -> IcebergSnapshot:
        """Returns the snapshot that was the table's current one at a moment: the log's last entry until then.

        Raises:
            NotFoundError: the log begins later, or the snapshot has expired.
        """
        entries = [entry for entry in self.snapshot_log if entry.timestamp_ms <= timestamp_ms]
        if not entries:
            begins = "has none" if not self.snapshot_log else f"begins at {_iso(self.snapshot_log[0])}"
            raise NotFoundError(
                f"{self.path}: no snapshot was current at {_moment(timestamp_ms)}: the log of snapshots "
                f"{begins}; name one by its id: there are {_listed(self.snapshots)}",
                timestamp_ms=timestamp_ms,
            )
        return self.snapshot_by_id(entries[-1].snapshot_id)

    def snapshot_of_ref(
        self, name: str, kind: Literal["branch", "tag"] | None = None
    ) -> IcebergSnapshot | None:
        """Returns the snapshot of a branch or a tag; None for ``main`` of a table without snapshots.

        Raises:
            NotFoundError: there is no reference of that name, or it is of the other kind.
        """
        found = self.refs.get(name)
        if found is None and name == MAIN and kind != "tag":
            return None
        known = [ref for ref in self.refs.values() if kind is None or ref.kind == kind]
        if found is None or found not in known:
            names = sorted(ref.name for ref in known)
            what = kind or "branch or tag"
            other = f" ({name!r} is a {found.kind})" if found is not None else ""
            near = f"; {suggestion(name, names)}" if names else ""
            raise NotFoundError(
                f"{self.path}: there is no {what} {name!r}{other}; "
                f"there are {', '.join(names) or 'none'}{near}",
                ref=name,
            )
        return self.snapshots[found.snapshot_id]

    def ancestors(self, snapshot: IcebergSnapshot | None) -> Iterator[IcebergSnapshot]:
        """Yields a snapshot and those that it was made of, newest first, as far as they have not expired."""
        seen: set[int] = set()
        while snapshot is not None and snapshot.id not in seen:
            seen.add(snapshot.id)
            yield snapshot
            snapshot = None if snapshot.parent_id is None else self.snapshots.get(snapshot.parent_id)

    def appends_since(self, since: int, snapshot: IcebergSnapshot | None) -> frozenset[int]:
        """Returns the ids of the snapshots that appended rows after ``since``, up to a snapshot.

        Raises:
            InvalidInputError: ``since`` is no ancestor, or rows were replaced or deleted in between.
        """
        after: list[IcebergSnapshot] = []
        for one in self.ancestors(snapshot):
            if one.id == since:
                break
            after.append(one)
        else:
            raise InvalidInputError(
                f"{self.path}: snapshot {since} is no ancestor of "
                f"{'the table, which has none' if snapshot is None else snapshot.id}, or has expired: "
                "plan the whole snapshot",
                snapshot=since,
            )
        for one in after:
            if one.operation not in ("append", "replace"):
                raise InvalidInputError(
                    f"{self.path}: snapshot {one.id} ({one.operation or 'of no kind that is told'}) changed "
                    f"rows after {since}, which added files do not show: plan the whole snapshot",
                    snapshot=one.id,
                )
        return frozenset(one.id for one in after if one.operation == "append")


def _listed(numbers: Iterable[int]) -> str:
    """Returns the last of some ids, for a message."""
    known = list(numbers)
    shown = ", ".join(map(str, known[-_SHOWN_MAX:]))
    return f"{len(known):,}, the last are {shown}" if len(known) > _SHOWN_MAX else shown or "none"


def _moment(timestamp_ms: int) -> str:
    return dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")


def _iso(entry: LogEntry) -> str:
    return _moment(entry.timestamp_ms)
