"""Partitions of Iceberg tables, and those that changed between two snapshots.

Changes are read from the manifests that each commit wrote: a list for each commit, and of its manifests those
that it added itself. Their entries say which files it added and which it deleted; a commit that only rewrites
files (operation ``replace``) changes no rows.

Invariant: a partition whose rows differ is among the changed ones, or the answer says that any may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.catalog.partitions.coverage import FieldColumn, SpecPartitions, coverage
from lakehouse.catalog.partitions.values import (
    ChangedPartitions,
    Partition,
    PartitionBound,
    PartitionInfo,
    PartitionKey,
    hashable,
    key_name,
)
from lakehouse.errors import FormatError, InvalidInputError, NotFoundError
from lakehouse.expr.partition_bounds import bounds_of
from lakehouse.expr.transforms import Transform, storage_of
from lakehouse.iceberg import IcebergSnapshot, IcebergTable
from lakehouse.iceberg.manifests import ADDED, DATA, DELETED, EQUALITY_DELETES, ManifestFile
from lakehouse.iceberg.metadata import PartitionSpec, TableMetadata
from lakehouse.iceberg.planning import FileSet, LiveEntries
from lakehouse.iceberg.types import IcebergSchema, field_types
from lakehouse.io import map_bounded
from lakehouse.kernels.arrays import I64

__all__ = ["iceberg_changes", "iceberg_partitions"]

_AT_ONCE = 8
"""Commits whose manifests are read at once, each with a bound of its own on manifests."""


async def iceberg_partitions(table: IcebergTable, snapshot: int | None = None) -> PartitionInfo:
    """Returns the partitions of a snapshot, None = the current one; in order of specs and names."""
    metadata = table.metadata
    wanted = metadata.current_snapshot if snapshot is None else metadata.snapshot_by_id(snapshot)
    fields = tuple(_field_texts(metadata.default_spec, metadata.current_schema))
    if wanted is None or not any(spec.fields for spec in metadata.specs.values()):
        return PartitionInfo(snapshot=wanted.id if wanted is not None else None, fields=fields)
    try:
        return await _Reading(table, wanted).info(fields)
    except (FormatError, InvalidInputError) as error:
        return PartitionInfo(snapshot=wanted.id, fields=fields, problem=error.message)


def _field_texts(spec: PartitionSpec, schema: IcebergSchema) -> Iterator[str]:
    columns = field_types(schema)
    for field in spec.fields:
        names = [columns[source][0] if source in columns else field.name for source in field.source_ids]
        yield ", ".join(names) if field.transform == "identity" else f"{field.transform}({', '.join(names)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """Sums of the files of one partition."""

    files: int
    rows: int
    bytes: int
    last: int
    """Place of the newest snapshot in the table's order of them; -1 = it has expired."""

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(
            files=self.files + other.files,
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
            last=max(self.last, other.last),
        )


class _Reading:
    """Partitions of one snapshot, as its manifests have them."""

    def __init__(self, table: IcebergTable, snapshot: IcebergSnapshot) -> None:
        self._table, self._snapshot = table, snapshot
        self._metadata = table.metadata
        self._shapes = _Shapes(table.metadata, table.metadata.schema_of(snapshot))
        ordered = sorted(
            self._metadata.snapshots.values(), key=lambda one: (one.sequence, one.timestamp_ms, one.id)
        )
        self._order = [one.id for one in ordered]

    async def info(self, fields: tuple[str, ...]) -> PartitionInfo:
        """Reads the manifests that are not cached, and returns the partitions."""
        source = self._table.source
        manifests = await source.manifests(self._snapshot)
        data = [one for one in manifests if not one.content]
        deletes = [one for one in manifests if one.content]
        files = await source.files(data, self._metadata.specs)
        removers = await source.files(deletes, self._metadata.specs)
        specs, sums = self._summed(files)
        _, removed = self._summed(removers)
        # Equality deletes without a partition apply to every file.
        everywhere = [one for key, one in removed.items() if not key.values]
        covers = coverage(specs)
        partitions = []
        for key, one in sums.items():
            own = removed.get(key) if key.values else None
            found = self._partition(key, one, everywhere if own is None else [*everywhere, own])
            partitions.append(replace(found, covers=covers.get(key, ())))
        return PartitionInfo(
            snapshot=self._snapshot.id,
            fields=fields,
            partitions=tuple(sorted(partitions, key=lambda one: (one.key.spec_id, one.key.name))),
        )

    def _partition(self, key: PartitionKey, sums: _Sums, removed: Sequence[_Sums]) -> Partition:
        last = max([sums.last, *(one.last for one in removed)])
        return Partition(
            key=key,
            files=sums.files,
            stored_rows=sums.rows,
            rows=None if removed else sums.rows,
            bytes=sums.bytes,
            last_snapshot=self._order[last] if last >= 0 else None,
            delete_files=sum(one.files for one in removed),
        )

    def _summed(self, files: FileSet) -> tuple[list[SpecPartitions], dict[PartitionKey, _Sums]]:
        places = {number: at for at, number in enumerate(self._order)}
        order = np.array([places.get(number, -1) for number in files.snapshots.tolist()], np.int64)
        specs: dict[int, SpecPartitions] = {}
        sums: dict[PartitionKey, _Sums] = {}
        for one in files.spec_ranges:
            if one.begin == one.end:
                continue
            at = np.arange(one.begin, one.end, dtype=np.int64)
            columns = files.partition_columns(one.spec.id, at)
            numbers = {"rows": files.rows[at], "bytes": files.sizes[at], "last": order[at]}
            grouped, totals = _grouped(columns, numbers)
            shape = self._shapes.of(one.spec, grouped)
            specs[one.spec.id] = shape
            for key, total in zip(shape.keys, totals, strict=True):
                # Zeros of both signs are two partition values in Arrow, and one key.
                sums[key] = sums[key] + total if key in sums else total
        return list(specs.values()), sums


def _grouped(columns: Sequence[pa.Array], numbers: dict[str, I64]) -> tuple[list[pa.Array], list[_Sums]]:
    """Returns the values of each partition once, and its sums."""
    names = [f"p{at}" for at in range(len(columns))]
    values = [_groupable(storage_of(column)) for column in columns]
    rows = np.maximum(numbers["rows"], 0)
    table = pa.table(
        [*values, rows, numbers["bytes"], numbers["last"]], names=[*names, "rows", "bytes", "last"]
    )
    sums = [("rows", "sum"), ("bytes", "sum"), ("last", "max"), ("last", "count")]
    made = table.group_by(names).aggregate(sums)
    columns_of = ("last_count", "rows_sum", "bytes_sum", "last_max")
    totals = zip(*(made[name].to_pylist() for name in columns_of), strict=True)
    counted = [_Sums(files=files, rows=rows, bytes=size, last=last) for files, rows, size, last in totals]
    return [made[name].combine_chunks() for name in names], counted


def _groupable(values: pa.Array) -> pa.Array:
    return values.cast(pa.int32()) if pa.types.is_null(values.type) else values


class _Shapes:
    """Keys of partitions, with the bounds that the specs of a table give them."""

    def __init__(self, metadata: TableMetadata, schema: IcebergSchema) -> None:
        self._columns = field_types(schema)
        self._several = sum(bool(spec.fields) for spec in metadata.specs.values()) > 1

    def of(self, spec: PartitionSpec, values: Sequence[pa.Array]) -> SpecPartitions:
        """Returns the partitions of a spec, given their values by field."""
        fields = [
            self._field(source_ids, transform, column)
            for (source_ids, transform), column in zip(
                [(field.source_ids, field.transform) for field in spec.fields], values, strict=True
            )
        ]
        count = len(values[0]) if values else 1
        texts = [_shown(field.transform, field.values) for field in fields]
        names = [field.name for field in spec.fields]
        keys = [
            PartitionKey(
                spec_id=spec.id,
                values=tuple(column[at] for column in texts),
                name=self._name(spec, key_name(names, [column[at] for column in texts])),
                bounds=tuple(
                    self._bound(named.name, field, texts[number][at], at)
                    for number, (named, field) in enumerate(zip(spec.fields, fields, strict=True))
                ),
            )
            for at in range(count)
        ]
        columns = [
            FieldColumn(source=field.source, transform=field.transform, values=field.values, low=field.low)
            for field in fields
        ]
        return SpecPartitions(keys=keys, fields=columns)

    def _name(self, spec: PartitionSpec, name: str) -> str:
        if not spec.fields:
            return f"spec {spec.id}: not partitioned"
        return f"spec {spec.id}: {name}" if self._several else name

    def _field(self, source_ids: tuple[int, ...], text: str, values: pa.Array) -> _Field:
        transform = Transform.parse(text, sources=len(source_ids))
        source = source_ids[0] if len(source_ids) == 1 else None
        name, kind = self._columns.get(source, (None, None)) if source is not None else (None, None)
        if kind is None:
            return _Field(transform=transform, values=values)
        bounds = bounds_of(transform, values, kind, np.ones(len(values), np.int64))
        return _Field(
            transform=transform,
            values=values,
            source=source,
            column=name,
            low=bounds.low.array,
            lows=_plain(bounds.low.array),
            highs=_plain(bounds.high.array),
            high_open=None if bounds.high_open is None else bounds.high_open.tolist(),
        )

    def _bound(self, name: str, field: _Field, value: Any, at: int) -> PartitionBound:
        low = high = None
        # NaN lies between no two numbers.
        if field.lows is not None and field.highs is not None and value == value:
            low, high = field.lows[at], field.highs[at]
        return PartitionBound(
            column=field.column or name,
            transform=field.transform.text if field.transform.name != "unknown" else "unknown",
            value=value,
            low=low,
            high=high,
            high_open=field.high_open is not None and bool(field.high_open[at]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Field:
    """One field of a spec over all of its partitions; what is None is not known."""

    transform: Transform
    values: pa.Array
    source: int | None = None
    column: str | None = None
    low: pa.Array | None = None
    lows: list[Any] | None = None
    highs: list[Any] | None = None
    high_open: list[bool] | None = None


def _shown(transform: Transform, values: pa.Array) -> list[Any]:
    """Returns partition values as Python's; days as dates, other times as numbers from 1970 on."""
    if transform.name == "day" and pa.types.is_integer(values.type):
        values = values.cast(pa.int32()).view(pa.date32())
    return [hashable(value) for value in _plain(values)]


def _plain(values: pa.Array) -> list[Any]:
    """Returns values as Python's; moments that it cannot tell apart, or has no year for, as their numbers."""
    is_time = pa.types.is_timestamp(values.type)
    if is_time and values.type.unit == "ns":
        return _nanoseconds(values)
    try:
        found: list[Any] = values.to_pylist()
    except (ValueError, OverflowError):
        numbers = values.cast(pa.int64() if is_time else pa.int32())
        pairs = zip(values, numbers.to_pylist(), strict=True)
        found = [_moment(value, number) for value, number in pairs]
    return found


def _moment(value: pa.Scalar, number: Any) -> Any:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return number


def _nanoseconds(values: pa.Array) -> list[Any]:
    numbers = values.cast(pa.int64()).to_pylist()
    moments = _plain(values.cast(pa.timestamp("us", values.type.tz), safe=False))
    pairs = zip(numbers, moments, strict=True)
    return [moment if number is None or number % 1_000 == 0 else number for number, moment in pairs]


# --- changes ------------------------------------------------------------------------


async def iceberg_changes(table: IcebergTable, start: int, end: int | None = None) -> ChangedPartitions:
    """Returns the partitions whose rows may differ between a snapshot and one that was made of it.

    Args:
        table: the table, with metadata that know both.
        start: snapshot that the caller has.
        end: snapshot to reach; None = the current one.

    Raises:
        InvalidInputError: the start is no ancestor of the end.
        NotFoundError: a snapshot is not known any more.
    """
    metadata = table.metadata
    last = metadata.current_snapshot if end is None else metadata.snapshot_by_id(end)
    if last is None or last.id == start:
        return ChangedPartitions(start=start, end=None if last is None else last.id)
    commits = [one for one in _between(table, start, last) if one.operation != "replace"]
    if not any(spec.fields for spec in metadata.specs.values()):
        why = f"{table.name} has no partitions, and rows changed" if commits else None
        return ChangedPartitions(start=start, end=last.id, is_all=bool(commits), reason=why)
    shapes = _Shapes(metadata, metadata.schema_of(last))
    found: dict[PartitionKey, None] = {}
    reason: str | None = None
    reads = map_bounded(lambda one: _own_entries(table, one), commits, _AT_ONCE)
    async with aclosing(reads):
        async for snapshot, entries in reads:
            for part in entries:
                changed = _changed(part, snapshot)
                found.update(dict.fromkeys(_keys(part, changed, metadata, shapes)))
                if _applies_everywhere(part, changed, metadata):
                    reason = f"snapshot {snapshot.id} deleted rows in whichever partition they were"
    return ChangedPartitions(
        start=start,
        end=last.id,
        partitions=tuple(sorted(found, key=lambda key: (key.spec_id, key.name))),
        is_all=reason is not None,
        reason=reason,
    )


def _between(table: IcebergTable, start: int, last: IcebergSnapshot) -> list[IcebergSnapshot]:
    """Returns the commits after the start, up to the last one, oldest first."""
    commits: list[IcebergSnapshot] = []
    for one in table.metadata.ancestors(last):
        if one.id == start:
            return commits[::-1]
        commits.append(one)
    if start not in table.metadata.snapshots:
        raise NotFoundError(
            f"{table.name}: the snapshots between {start} and {last.id} are not all known any more: they "
            "have expired; read all partitions",
            snapshot=start,
        )
    raise InvalidInputError(
        f"{table.name}: snapshot {start} is no ancestor of {last.id}, so that nothing says what changed "
        "between them; read all partitions",
        snapshot=start,
    )


async def _own_entries(
    table: IcebergTable, snapshot: IcebergSnapshot
) -> tuple[IcebergSnapshot, list[LiveEntries]]:
    """Reads the manifests that a commit wrote."""
    manifests = await table.source.manifests(snapshot)
    own = [one for one in manifests if one.snapshot_id == snapshot.id and _has_changes(one)]
    return snapshot, await table.source.entries(own)


def _has_changes(manifest: ManifestFile) -> bool:
    return manifest.added_files != 0 or manifest.deleted_files != 0


def _changed(part: LiveEntries, snapshot: IcebergSnapshot) -> I64:
    """Returns the entries of a manifest that say what a commit added and deleted."""
    columns = part.columns
    status, said = columns.status.all(), columns.snapshot_id.all()
    is_own = (said == snapshot.id) | (said < 0)
    return np.flatnonzero(((status == ADDED) | (status == DELETED)) & is_own)


def _keys(
    part: LiveEntries, changed: I64, metadata: TableMetadata, shapes: _Shapes
) -> Sequence[PartitionKey]:
    """Returns the partitions of changed entries."""
    spec = metadata.specs.get(part.manifest.spec_id, PartitionSpec(id=part.manifest.spec_id))
    if not len(changed):
        return ()
    if not spec.fields:
        has_data = bool((part.columns.content.at(changed) == DATA).any())
        return shapes.of(spec, []).keys if has_data else ()
    columns = []
    for field in spec.fields:
        values = part.columns.partition.get(field.field_id)
        columns.append(pa.nulls(len(changed)) if values is None else values.take(pa.array(changed)))
    nothing = np.zeros(len(changed), np.int64)
    grouped, _ = _grouped(columns, {"rows": nothing, "bytes": nothing, "last": nothing})
    return shapes.of(spec, grouped).keys


def _applies_everywhere(part: LiveEntries, changed: I64, metadata: TableMetadata) -> bool:
    """Returns whether deletes without a partition are among the changes: they apply to all files."""
    spec = metadata.specs.get(part.manifest.spec_id)
    if not part.manifest.content or (spec is not None and spec.fields):
        return False
    return bool((part.columns.content.at(changed) == EQUALITY_DELETES).any())
