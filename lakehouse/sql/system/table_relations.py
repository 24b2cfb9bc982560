"""Relations of a table that SQL shows: their columns, and which call on a table knows their rows.

One definition serves the relation of a single table (``orders$files``) and that of all (``system.files``).
Tables of ours and of Iceberg have the same columns; what only the other format has is null.

Invariant: columns keep their names and types, and are known without I/O; more may be added at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.catalog.pins import SnapshotPin
from lakehouse.format.schema import type_text
from lakehouse.iceberg import IcebergTable
from lakehouse.index import COMPACT, FLAT, GREPTIME, MetaCache, RowShape, iterate_index_metas
from lakehouse.sql.system.columns import (
    CHANGELOG,
    FILES,
    MANIFESTS,
    OPTIONS,
    PARTITIONS,
    SCHEMAS,
    SNAPSHOTS,
    TAGS,
)
from lakehouse.sql.system.json_values import JSON
from lakehouse.sql.system.masking import place_masked
from lakehouse.storage.cdc import CHANGE_COLUMN
from lakehouse.storage.table import Table
from lakehouse.storage.tables import SnapshotIndexSource

__all__ = ["SSTS_INDEX_META", "TABLE_RELATIONS", "ReadTable", "TableRelation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTable:
    """A table whose relations are read."""

    table: Table | IcebergTable
    """Open; one of Iceberg has the pinned snapshot as its current one."""
    pin: SnapshotPin | None = None
    """Snapshot that a statement reads; None = the newest."""
    is_masked: bool = False
    """Whether locations are replaced by pseudonyms."""
    metas: MetaCache | None = None
    """Keeps metadata of index files."""
    complain: Callable[[str, str], None]
    """Notes what could not be read: kind of the error, and message."""

    @property
    def snapshot(self) -> int | None:
        """Id of the snapshot; None = the newest."""
        return None if self.pin is None else self.pin.snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRelation:
    """Relation that a table has: something that it says about itself."""

    name: str
    schema: pa.Schema
    rows: Callable[[ReadTable], AsyncGenerator[pa.Table, None]]
    """Reads the rows of a table, with columns of these names among others."""
    locations: frozenset[str] = frozenset()
    """Columns whose values are locations."""
    is_large: bool = False
    """Whether rows of one table may be more than memory holds, so that no two tables are read at once."""


def _once(
    load: Callable[[ReadTable], Awaitable[pa.Table]],
) -> Callable[[ReadTable], AsyncGenerator[pa.Table, None]]:
    async def rows(read: ReadTable) -> AsyncGenerator[pa.Table, None]:
        yield await load(read)

    return rows


async def _snapshots(read: ReadTable) -> pa.Table:
    rows = await read.table.snapshots()
    if isinstance(read.table, IcebergTable):
        return rows.rename_columns(["tags" if name == "refs" else name for name in rows.column_names])
    return _until(rows, "snapshot", read.snapshot)


def _until(rows: pa.Table, column: str, last: int | None) -> pa.Table:
    """Leaves out what came after a pin: a statement shows one state."""
    return rows if last is None else rows.filter(pc.less_equal(rows[column], last))


async def _schemas(read: ReadTable) -> pa.Table:
    if isinstance(read.table, Table):
        return _until(await read.table.schemas(), "schema", None if read.pin is None else read.pin.schema_id)
    metadata = read.table.metadata
    rows = list[dict[str, Any]]()
    for schema in metadata.schemas.values():
        names = {field.id: field.name for field in schema.fields}
        columns = [
            {"id": field.id, "name": field.name, "type": type_text(field.type), "required": field.required}
            for field in schema.fields
        ]
        key = [names[number] for number in schema.identifier_ids if number in names]
        rows.append({"schema": schema.id, "columns": columns, "primary_key": key})
    return pa.Table.from_pylist(rows, pa.schema({name: SCHEMAS[name] for name in rows[0]}))


async def _files(read: ReadTable) -> pa.Table:
    if isinstance(read.table, Table):
        return await read.table.files(snapshot=read.snapshot)
    rows = await read.table.files()
    deletes = rows["deletes"]
    is_whole = pc.equal(pc.list_value_length(deletes), 0)
    stored = {"bytes": rows["size"], "stored_rows": rows["rows"], "delete_files": deletes}
    shown = pc.if_else(is_whole, rows["rows"], pa.NULL)
    for name, values in {**stored, "visible": shown}.items():
        rows = rows.append_column(name, values)
    kept = rows.drop_columns(["deletes", "size", "rows"])
    return kept.rename_columns(["rows" if name == "visible" else name for name in kept.column_names])


async def _manifests(read: ReadTable) -> pa.Table:
    if isinstance(read.table, Table):
        return await read.table.manifests(snapshot=read.snapshot)
    rows = await read.table.manifests()
    for name, parts in {"files": "files", "stored_rows": "rows"}.items():
        rows = rows.append_column(name, pc.add(rows[f"added_{parts}"], rows[f"existing_{parts}"]))
    return rows


async def _partitions(read: ReadTable) -> pa.Table:
    if isinstance(read.table, Table):
        return await read.table.partitions(snapshot=read.snapshot)
    return await read.table.partitions()


async def _tags(read: ReadTable) -> pa.Table:
    if isinstance(read.table, Table):
        return _until(await read.table.tags(), "snapshot", read.snapshot)
    return await read.table.refs()


async def _options(read: ReadTable) -> pa.Table:
    options: dict[str, Any]
    if isinstance(read.table, Table):
        options = dict((await read.table.schema(snapshot=read.snapshot)).options)
    else:
        options = dict(read.table.metadata.properties)
    hide = place_masked if read.is_masked else str
    shown = {name: hide(str(value)) for name, value in sorted(options.items())}
    return pa.table({"name": pa.array(shown, pa.string()), "value": pa.array(shown.values(), pa.string())})


async def _changelog(read: ReadTable) -> AsyncGenerator[pa.Table, None]:
    """Yields the changes of each snapshot against the one before it that is kept, oldest first."""
    if isinstance(read.table, IcebergTable):
        return
    kept = _until(await read.table.snapshots(), "snapshot", read.snapshot)
    numbers, times = kept["snapshot"].to_pylist(), kept["time"]
    for at in range(1, len(numbers)):
        changes = read.table.changes(numbers[at - 1], numbers[at])
        async with contextlib.aclosing(changes) as tables:
            async for rows in tables:
                yield _changed(rows, numbers[at], times[at])


def _changed(rows: pa.Table, snapshot: int, time: pa.Scalar) -> pa.Table:
    values = rows.drop_columns([CHANGE_COLUMN])
    return pa.table(
        {
            "snapshot": pa.repeat(pa.scalar(snapshot, pa.int64()), rows.num_rows),
            "time": pa.repeat(time, rows.num_rows),
            "change": rows[CHANGE_COLUMN],
            "row": values.to_struct_array(),
        }
    )


def _index_metas(shape: RowShape) -> Callable[[ReadTable], Awaitable[pa.Table]]:
    async def load(read: ReadTable) -> pa.Table:
        if isinstance(read.table, IcebergTable):
            return shape.schema.empty_table()
        core = read.table.core
        scan = iterate_index_metas(
            SnapshotIndexSource(core, read.snapshot),
            cache=read.metas,
            mask_locations=read.is_masked,
            settings=core.env.settings.index,
        )
        rows = await scan.to_arrow(shape)
        for problem in scan.problems:
            read.complain(problem.kind, problem.message)
        return rows

    return load


def _with_json(shape: RowShape) -> dict[str, pa.DataType]:
    is_json = {"target_json", "meta_json"}
    return {field.name: JSON if field.name in is_json else field.type for field in shape.schema}


def _relation(
    name: str,
    columns: Mapping[str, pa.DataType],
    load: Callable[[ReadTable], Awaitable[pa.Table]],
    *locations: str,
) -> TableRelation:
    return TableRelation(
        name=name, schema=pa.schema(dict(columns)), rows=_once(load), locations=frozenset(locations)
    )


TABLE_RELATIONS: Mapping[str, TableRelation] = {
    relation.name: relation
    for relation in (
        _relation("snapshots", SNAPSHOTS, _snapshots, "manifest_list"),
        _relation("schemas", SCHEMAS, _schemas),
        _relation("files", FILES, _files, "path", "index_path", "delete_files"),
        _relation("manifests", MANIFESTS, _manifests, "path"),
        _relation(
            "partitions",
            PARTITIONS,
            _partitions,
        ),
        _relation("tags", TAGS, _tags),
        _relation("options", OPTIONS, _options),
        TableRelation(
            name="changelog",
            schema=pa.schema(dict(CHANGELOG)),
            rows=_changelog,
            is_large=True,
        ),
        _relation("puffin_index_meta", _with_json(COMPACT), _index_metas(COMPACT)),
        _relation("puffin_index_meta_flat", _with_json(FLAT), _index_metas(FLAT)),
    )
}
"""Relations of a table, by name."""
SSTS_INDEX_META = _relation("ssts_index_meta", _with_json(GREPTIME), _index_metas(GREPTIME))
"""Rows of index metadata as GreptimeDB has them in ``information_schema.ssts_index_meta``."""
