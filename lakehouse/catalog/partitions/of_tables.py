"""Partitions of our own tables, and those that changed between two snapshots.

Changes are read from the commits themselves: each names the files that it added and took away. So they cost
the snapshots in between, and the manifests that these commits wrote. Older manifests are read only where a
commit took whole files away that one of them lists, or replaced the whole state; caches have most of those.

Invariant: a partition whose rows differ is among the changed ones, or the answer says that any may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from lakehouse.catalog.partitions.values import (
    ChangedPartitions,
    Partition,
    PartitionBound,
    PartitionInfo,
    PartitionKey,
    hashable,
    key_name,
)
from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.keys import decode_value
from lakehouse.format.metadata import CommitKind, FileEntry, Snapshot
from lakehouse.format.schema import TableSchema
from lakehouse.storage.cdc import read_snapshots
from lakehouse.storage.commit import traits_of
from lakehouse.storage.metadata import with_position
from lakehouse.storage.scan import rows_of_files
from lakehouse.storage.tables import OpenTable, View

__all__ = ["table_changes", "table_partitions"]

_Raw = tuple[bytes, ...]
"""Partition as entries have it."""


async def table_partitions(view: View) -> PartitionInfo:
    """Returns the partitions of a snapshot of our table, in order of their values."""
    schema, at = view.schema, view.snapshot.id
    if not schema.partition_by:
        return PartitionInfo(snapshot=at)
    files = await view.files()
    known, is_all = rows_of_files(view, files), not view.snapshot.segments
    groups: dict[_Raw, list[FileEntry]] = {}
    for entry in files:
        groups.setdefault(entry.partition, []).append(entry)
    return PartitionInfo(
        snapshot=at,
        fields=schema.partition_by,
        partitions=tuple(
            _partition(_key(schema, raw), entries, known if is_all else {})
            for raw, entries in sorted(groups.items())
            if len(raw) == len(schema.partition_by)
        ),
        is_complete=is_all,
    )


def _partition(key: PartitionKey, entries: Collection[FileEntry], known: Mapping[str, int]) -> Partition:
    rows = [known.get(entry.path) for entry in entries]
    return Partition(
        key=key,
        files=len(entries),
        stored_rows=sum(entry.rows for entry in entries),
        rows=None if None in rows else sum(one or 0 for one in rows),
        bytes=sum(entry.size for entry in entries),
        last_snapshot=max(entry.at or 0 for entry in entries),
    )


def _key(schema: TableSchema, raw: _Raw) -> PartitionKey:
    fields = schema.partition_fields
    values = tuple(hashable(decode_value(data, one.type)) for data, one in zip(raw, fields, strict=True))
    return PartitionKey(
        spec_id=0,
        values=values,
        name=key_name((one.name for one in fields), values),
        bounds=tuple(
            PartitionBound(column=one.name, transform="identity", value=value, low=value, high=value)
            for one, value in zip(fields, values, strict=True)
        ),
    )


# --- changes ------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Changes:
    """Changed partitions found so far."""

    found: set[_Raw] = field(default_factory=set)
    reason: str | None = None
    """Reason why any partition may have changed."""


async def table_changes(table: OpenTable, start: int, end: int | None = None) -> ChangedPartitions:
    """Returns the partitions whose rows may differ between two snapshots of our table.

    Raises:
        InvalidInputError: the snapshots are not in their order.
        NotFoundError: the end, or a snapshot in between, has expired.
    """
    view = await table.read_view(snapshot=end)
    last = view.snapshot.id
    if not 0 <= start <= last:
        raise InvalidInputError(
            f"changes of {table.name} go from a snapshot to a later one, not from {start} to {last}",
            snapshot=start,
        )
    schema = view.schema
    changes = _Changes()
    if view.options.record_ttl_s:
        changes.reason = f"rows of {table.name} expire by themselves (record.ttl_s)"
    async with aclosing(read_snapshots(table, start + 1, view.snapshot)) as snapshots:
        async for snapshot in snapshots:
            if changes.reason is None:
                await _add_commit(table, snapshot, view, changes)
    whole = sorted(raw for raw in changes.found if len(raw) == len(schema.partition_by))
    return ChangedPartitions(
        start=start,
        end=last,
        partitions=tuple(_key(schema, raw) for raw in whole),
        is_all=changes.reason is not None,
        reason=changes.reason,
    )


async def _add_commit(table: OpenTable, snapshot: Snapshot, view: View, changes: _Changes) -> None:
    """Adds the partitions in which a commit changed rows."""
    covered = [one for one in snapshot.with_positions().segments if one.at == snapshot.id]
    traits = traits_of(snapshot.kind)
    # A flush puts rows into files that the commit which covered them has brought.
    changes_rows = traits.changes_rows and snapshot.kind is not CommitKind.FLUSH
    if not view.schema.partition_by:
        if covered or changes_rows:
            changes.reason = f"{table.name} has no partitions, and snapshot {snapshot.id} changed rows"
        return
    entries = await table.runs.entries(covered, view.schema) if covered else []
    if changes_rows:
        entries += await _own(table, snapshot)
    if traits.removes_rows:
        entries += await _gone(table, snapshot, view.schema)
    changes.found.update(entry.partition for entry in entries)
    if any(len(entry.partition) != len(view.schema.partition_by) for entry in entries):
        changes.reason = (
            f"rows of {table.name} move between partitions, and snapshot {snapshot.id} removed keys in "
            "whichever partition they were"
        )


async def _own(table: OpenTable, snapshot: Snapshot) -> list[FileEntry]:
    """Returns the files that a commit added."""
    refs = [ref for ref in snapshot.manifests if ref.at in (None, snapshot.id)]
    entries = [with_position(entry, snapshot.id) for entry in snapshot.added]
    for listed in await table.manifests.listed(snapshot, refs):
        entries += listed
    return [entry for entry in entries if entry.at == snapshot.id]


async def _gone(table: OpenTable, snapshot: Snapshot, schema: TableSchema) -> list[FileEntry]:
    """Returns the files that a commit took away; of one that replaced the state, those it put there too."""
    if snapshot.parent is None or snapshot.gone == ():
        return []
    parent = await table.snapshots.snapshot(snapshot.parent.id, head=snapshot)
    if snapshot.gone is None:
        return await _differing(table, parent, snapshot, schema)
    left = set(snapshot.gone)
    found = _taken(parent.added, left)
    # The newest manifests first: what is taken away was mostly added not long ago.
    for ref in reversed(parent.manifests):
        if not left:
            break
        found += _taken(await table.manifests.read(parent, ref), left)
    if left:
        raise CorruptionError(
            f"snapshot {snapshot.id} of {table.name} took {min(left)} away, which its parent does not have",
            key=min(left),
            snapshot=snapshot.id,
        )
    return found


async def _differing(
    table: OpenTable, before: Snapshot, after: Snapshot, schema: TableSchema
) -> list[FileEntry]:
    """Returns the files and segments that one of two states has and the other has not."""
    states = []
    for snapshot in (before, after):
        entries = list(await table.manifests.entries(snapshot))
        segments = snapshot.with_positions().segments
        if before.segments != after.segments and segments:
            entries += await table.runs.entries(segments, schema)
        states.append({entry.path: entry for entry in entries})
    had, has = states
    return [entry for path, entry in {**had, **has}.items() if (path in had) != (path in has)]


def _taken(entries: Iterable[FileEntry], left: set[str]) -> list[FileEntry]:
    """Takes the paths of entries from those that are left, and returns these entries."""
    taken = [entry for entry in entries if entry.path in left]
    left.difference_update(entry.path for entry in taken)
    return taken
