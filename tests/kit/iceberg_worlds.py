"""Random Iceberg tables whose rows are known, made of a seed.

A world has some columns of :data:`tests.kit.iceberg_rows.COLUMNS`, up to three partition specs, manifests of
data and delete files of two schemas, and for each data file its rows.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, TruncateTransform, VoidTransform
from pyiceberg.types import (
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

from tests.kit.iceberg_rows import COLUMNS, Column, Row, metrics_of, partition_value, transforms_of
from tests.kit.iceberg_tables import (
    ADDED,
    DELETED,
    EQUALITY,
    EXISTING,
    FILE_PATH_ID,
    POSITION,
    Item,
    Manifest,
    Snapshot,
    Table,
)

__all__ = ["World", "random_world"]

_NOT_UNDERSTOOD: Any = (
    ((TimestampNanoType, TimestamptzNanoType), (IdentityTransform, VoidTransform)),
    (UUIDType, IdentityTransform),
)
"""Types and transforms that pyiceberg cannot read, or compares wrongly."""
_PLACE_ID = 18
_PLACE_IDS = (19, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A table and the rows of its files."""

    table: Table
    columns: Sequence[Column]
    rows: Mapping[str, Sequence[Row]]
    """Of each data file, by its path below the table's location."""

    def live(self, *, deletes: bool = False) -> list[tuple[Manifest, Item]]:
        """The files that the current snapshot has, with their manifests."""
        return [
            (manifest, item)
            for manifest in self.table.snapshots[-1].manifests
            for item in manifest.items
            if manifest.delete == deletes and item.status != DELETED
        ]

    def understood(self) -> bool:
        """Whether pyiceberg plans it as Iceberg would: no partition is of nanoseconds, a UUID, or wrapped."""
        known = {column.id: column for column in self.columns}
        fields = [(each, known[each.source_id]) for spec in self.table.specs for each in spec.fields]
        if any(
            isinstance(column.type, kinds) and isinstance(each.transform, transforms)
            for each, column in fields
            for kinds, transforms in _NOT_UNDERSTOOD
        ):
            return False
        least = {
            column.id: column.pool[0]
            for each, column in fields
            if isinstance(column.type, (IntegerType, LongType))
            and isinstance(each.transform, TruncateTransform)
        }
        rows = (row for rows in self.rows.values() for row in rows)
        return not any(row[number] == value for row in rows for number, value in least.items())


def random_world(
    rng: random.Random, *, version: int | None = None, kinds: Sequence[str] = (), few: bool = False
) -> World:
    """A world.

    Args:
        rng: decides everything.
        version: of the format; None = any.
        kinds: of delete files to have, among ``position``, ``equality`` and ``vector``.
        few: whether there are few columns, and so few partitions, which delete files then meet.
    """
    version = version or rng.choice([1, 2, 2, 3])
    columns = _some_columns(rng, version, 2 if few else rng.randint(3, 6))
    schemas = _schemas(columns, required=rng.random() < 0.3)
    specs = _specs(rng, columns, few=few)
    made = _Making(rng, version, columns, schemas, specs)
    snapshots = []
    manifests: list[Manifest] = []
    for number in range(1, rng.randint(1, 4) + 1):
        added = made.manifests(number, kinds)
        manifests = [*manifests, *added]
        snapshots.append(
            Snapshot(
                id=1_000 + number,
                sequence=number if version > 1 else 0,
                manifests=rng.sample(manifests, len(manifests)),
                parent=1_000 + number - 1 if number > 1 else None,
            )
        )
    table = Table(schemas=schemas, specs=specs, snapshots=snapshots, version=version)
    return World(table=table, columns=columns, rows=made.rows)


def _some_columns(rng: random.Random, version: int, count: int) -> list[Column]:
    known = [each for each in COLUMNS if version >= 3 or "ns" not in each.name[:2]]
    chosen = rng.sample(known, count)
    return sorted(chosen, key=lambda column: column.id)


def _schemas(columns: Sequence[Column], *, required: bool) -> list[Schema]:
    """The first schema of the table, and the current one."""
    return [_schema(columns, number, required=required) for number in (0, 1)]


def _schema(columns: Sequence[Column], number: int, *, required: bool) -> Schema:
    fields: list[NestedField] = []
    inner: list[NestedField] = []
    for column in columns:
        if number == 0 and column.late:
            continue
        kind = column.old if number == 0 and column.old is not None else column.type
        nested = column.id in _PLACE_IDS
        name = column.name.removeprefix("place.")
        must = required and not nested and not column.late
        (inner if nested else fields).append(NestedField(column.id, name, kind, required=must))
    if inner:
        fields.append(NestedField(_PLACE_ID, "place", StructType(*inner), required=False))
    # A column that no condition asks about: a schema is never empty.
    fields.append(NestedField(30, "other", StructType(NestedField(31, "x", IntegerType())), required=False))
    fields.append(NestedField(32, "renamed" if number else "before", StringType(), required=False))
    return Schema(*fields, schema_id=number)


def _specs(rng: random.Random, columns: Sequence[Column], *, few: bool) -> list[PartitionSpec]:
    """One to three specs, whose fields have ids of their own, and the older of which may hold void fields."""
    specs: list[PartitionSpec] = []
    number = 1_000
    sources = [column for column in columns if not column.late] or list(columns[:0])
    for spec_id in range(rng.choice([1, 1, 2, 3])):
        fields: list[PartitionField] = []
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            if not sources:
                break
            column = rng.choice(sources)
            transform = rng.choice(transforms_of(column.type)[: 2 if few else None])
            fields.append(
                PartitionField(column.id, number, transform, f"{column.name.replace('.', '_')}_{number}")
            )
            number += 1
        if spec_id and specs[-1].fields and rng.random() < 0.3:  # how v1 drops a field
            kept = specs[-1].fields[0]
            fields = [PartitionField(kept.source_id, kept.field_id, VoidTransform(), kept.name), *fields]
        specs.append(PartitionSpec(*fields, spec_id=spec_id))
    return specs


@dataclass(slots=True)
class _Making:
    """A world that is being made."""

    rng: random.Random
    version: int
    columns: Sequence[Column]
    schemas: Sequence[Schema]
    specs: Sequence[PartitionSpec]

    rows: dict[str, Sequence[Row]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _live: list[tuple[PartitionSpec, Item]] = field(default_factory=list)
    _vectors: set[str] = field(default_factory=set)

    def manifests(self, sequence: int, kinds: Sequence[str]) -> list[Manifest]:
        """The manifests that a snapshot adds."""
        found = [self._data_manifest(sequence) for _ in range(self.rng.choice([0, 1, 1, 2]) or sequence == 1)]
        if kinds:
            found += [self._delete_manifest(sequence, kinds) for _ in range(self.rng.choice([0, 1, 1, 2]))]
        return found

    def _data_manifest(self, sequence: int) -> Manifest:
        rng = self.rng
        old = rng.random() < 0.3
        spec = rng.choice(self.specs)
        pools = {column.id: self._window(column) for column in self.columns}
        required = any(field.required for field in self.schemas[0].fields)
        items = [
            self._data_item(spec, pools, sequence, old=old, nulls=0 if required else rng.choice([0, 0.2, 1]))
            for _ in range(rng.randint(1, 5))
        ]
        self._live += [(spec, item) for item in items if item.status != DELETED]
        return self._manifest(spec, items, sequence, self.schemas[0 if old else 1])

    def _manifest(
        self, spec: PartitionSpec, items: Sequence[Item], sequence: int, schema: Schema, **options: Any
    ) -> Manifest:
        rng = self.rng
        first = self.version > 1 and not options and rng.random() < 0.15  # of the time before an upgrade
        if first:
            items = [
                replace(item, sequence=None, snapshot=item.snapshot or 1_000 + sequence) for item in items
            ]
        return Manifest(
            name=f"m{next(self._numbers)}",
            schema=schema,
            spec=spec,
            items=items,
            version=1 if first else self.version,
            fields_of=None if first or self.version == 1 else options.pop("fields_of", rng.choice([2, 3])),
            snapshot=1_000 + sequence,
            sequence=0 if first or self.version == 1 else sequence,
            left_out=rng.choice([(), ("split_offsets", "sort_order_id"), ("column_sizes", "key_metadata")]),
            summaries=rng.random() < 0.85,
            codec=rng.choice(["deflate", "deflate", "null", "zstandard"]),
            block_records=rng.choice([1, 2, 1_000]),
            **options,
        )

    def _window(self, column: Column) -> Sequence[Any]:
        """Some neighbours among the values of a column, so that manifests differ."""
        width = self.rng.choice([1, 2, 3, len(column.pool)])
        at = self.rng.randrange(len(column.pool))
        return column.pool[at : at + width]

    def _data_item(
        self,
        spec: PartitionSpec,
        pools: Mapping[int, Sequence[Any]],
        sequence: int,
        *,
        old: bool,
        nulls: float,
    ) -> Item:
        rng = self.rng
        path = f"data/{next(self._numbers):05}.parquet"
        pools = {column.id: (None,) if old and column.late else pools[column.id] for column in self.columns}
        first = self._row(pools, nulls, {})
        fixed = self._alike(spec, pools, first)
        rows = [first] + [self._row(pools, nulls, fixed) for _ in range(rng.randint(0, 3))]
        kinds = {column.id: (old and column.old) or column.type for column in self.columns}
        if rng.random() < 0.04:
            rows = []
        self.rows[path] = rows
        status, own, inherited = rng.choices([ADDED, EXISTING, DELETED], [6, 3, 1])[0], None, True
        if self.version > 1:
            inherited = status == ADDED and rng.random() < 0.8
            own = None if inherited else rng.randint(0 if status == EXISTING else 1, sequence)
        return Item(
            path=path,
            partition=tuple(
                partition_value(field, kinds[field.source_id], first[field.source_id])
                for field in spec.fields
            ),
            rows=len(rows),
            size=rng.randint(100, 10_000),
            metrics=metrics_of(self.columns, rows, rng, old=old),
            split_offsets=rng.choice([None, [4], [4, 50]]),
            status=status,
            snapshot=None if inherited and self.version > 1 else 1_000 + rng.randint(1, sequence),
            sequence=own,
        )

    def _row(
        self, pools: Mapping[int, Sequence[Any]], nulls: float, fixed: Mapping[int, Sequence[Any]]
    ) -> Row:
        rng = self.rng
        free = {number: None if rng.random() < nulls else rng.choice(pool) for number, pool in pools.items()}
        return {**free, **{number: rng.choice(pool) for number, pool in fixed.items()}}

    def _alike(
        self, spec: PartitionSpec, pools: Mapping[int, Sequence[Any]], first: Row
    ) -> dict[int, Sequence[Any]]:
        """For each column that partitions, the values that are in the partition of a first row."""
        found: dict[int, Sequence[Any]] = {}
        for column in self.columns:
            fields = spec.fields_by_source_id(column.id)
            if fields:
                key = _key(fields, column, first[column.id])
                among = [None] if first[column.id] is None else pools[column.id]
                found[column.id] = [value for value in among if _key(fields, column, value) == key]
        return found

    # --- delete files ---------------------------------------------------------------------

    def _delete_manifest(self, sequence: int, kinds: Sequence[str]) -> Manifest:
        spec = self.rng.choice(self.specs)
        items = [
            self._delete_item(spec, sequence, self.rng.choice(kinds)) for _ in range(self.rng.randint(1, 3))
        ]
        return self._manifest(spec, items, sequence, self.schemas[1], delete=True, fields_of=3)

    def _delete_item(self, spec: PartitionSpec, sequence: int, kind: str) -> Item:
        rng = self.rng
        targets = [item for of, item in self._live if of.spec_id == spec.spec_id]
        target = rng.choice(targets) if targets else None
        status = rng.choices([ADDED, EXISTING, DELETED], [6, 3, 1])[0]
        inherited = status == ADDED and rng.random() < 0.6
        found = Item(
            path=f"data/{next(self._numbers):05}-deletes.parquet",
            content=EQUALITY if kind == "equality" else POSITION,
            partition=(None,) * len(spec.fields) if target is None else target.partition,
            rows=rng.randint(1, 5),
            status=status,
            snapshot=None if inherited else 1_000 + rng.randint(1, sequence),
            sequence=None if inherited else rng.randint(0, sequence),
        )
        if kind == "equality":
            columns = [column.id for column in self.columns if column.id not in _PLACE_IDS]
            return replace(found, equality_ids=columns[:1] or [32])
        path = target.path if target else "data/none.parquet"
        if kind == "vector" and path not in self._vectors:  # a data file has one at most
            self._vectors.add(path)
            return replace(
                found,
                path=found.path.replace(".parquet", ".puffin"),
                format="PUFFIN",
                referenced_data_file=path,
                content_offset=4,
                content_size=40,
            )
        others = [item.path for item in targets if repr(item.partition) == repr(found.partition)]
        return self._of_positions(found, path, others or [path])

    def _of_positions(self, found: Item, path: str, others: Sequence[str]) -> Item:
        """A position delete file that says of which data files it is: of one, of a range of paths, or not."""
        rng = self.rng
        scope = rng.choice(["none", "one", "range", "named"])
        if scope == "named":
            return replace(found, referenced_data_file=path)
        if scope == "none":
            return found
        low, high = (path, path) if scope == "one" else sorted(rng.choice(others) for _ in range(2))
        ends = {"lower_bounds": {FILE_PATH_ID: low}, "upper_bounds": {FILE_PATH_ID: high}}
        return replace(found, metrics=ends)


def _key(fields: Sequence[PartitionField], column: Column, value: Any) -> str:
    """The partition values of a value, as text: NaN is itself, and zeros are two."""
    return repr([partition_value(each, column.type, value) for each in fields])
