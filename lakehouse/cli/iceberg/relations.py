"""``lakehouse iceberg describe|files|snapshots``: an Iceberg table's columns, data files and history."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse.cli import tables
from lakehouse.cli.arguments import SnapshotOption
from lakehouse.cli.frame import Outcome, on_iceberg
from lakehouse.cli.output import human_bytes, print_table, say
from lakehouse.format import schema as schemas

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.iceberg import IcebergTable, PartitionSpec
    from lakehouse.iceberg.types import IcebergSchema

__all__ = ["describe", "files", "snapshots"]

_SHOWN_APART = ("table", "columns", "snapshot", "partition_specs")


@on_iceberg
async def describe(table: IcebergTable) -> Outcome:
    """Show a table's columns, partition specs, properties and size."""
    metadata = table.metadata
    current, snapshot = metadata.current_schema, metadata.current_snapshot
    columns = [
        {
            "id": field.id,
            "name": field.name,
            "type": schemas.type_text(field.type),
            "required": field.required,
            "comment": field.comment,
        }
        for field in current.fields
    ]
    about = {
        "table": table.name,
        "location": metadata.location,
        "metadata": metadata.path,
        "uuid": metadata.uuid,
        "format_version": metadata.format_version,
        "snapshot": None if snapshot is None else snapshot.id,
        "snapshots": len(metadata.snapshots),
        "schema": current.id,
        "columns": columns,
        "columns_not_read": dict(current.unread),
        "partition_specs": {str(spec.id): _parts(spec, current) for spec in metadata.specs.values()},
        "default_spec": metadata.default_spec_id,
        "properties": dict(metadata.properties),
        "summary": {} if snapshot is None else dict(snapshot.summary),
    }
    return Outcome(partial(_print_description, about), about)


def _parts(spec: PartitionSpec, current: IcebergSchema) -> list[dict[str, Any]]:
    """Returns the fields of a spec; a column that the table has no more has its id for a name."""
    known = {field.id: field.name for _, field in schemas.walk(current.fields)}
    return [
        {
            "name": field.name,
            "transform": field.transform,
            "columns": [known.get(number, str(number)) for number in field.source_ids],
        }
        for field in spec.fields
    ]


def _spec_text(fields: Sequence[Mapping[str, Any]]) -> str:
    each = [f"{one['name']} = {one['transform']} of {' and '.join(one['columns'])}" for one in fields]
    return ", ".join(each) or "no partitions"


def _print_description(about: dict[str, Any]) -> None:
    rows = [
        [
            tables.cell(part)
            for part in (
                column["id"],
                column["name"],
                column["type"],
                "not null" * column["required"],
                column["comment"],
            )
        ]
        for column in about["columns"]
    ]
    title = f"{about['table']} at snapshot {about['snapshot']}"
    print_table(
        ("id", "column", "type", "null", "comment"),
        rows,
        title=title,
        right=("id",),
        whole=("column", "type"),
    )
    for number, fields in about["partition_specs"].items():
        say(f"partition spec {number}: {_spec_text(fields)}")
    for name, value in about.items():
        if name not in _SHOWN_APART and value not in (None, [], {}):
            say(f"{name.replace('_', ' ')}: {tables.cell(value)}")


@on_iceberg
async def files(table: IcebergTable, snapshot: SnapshotOption = None) -> Outcome:
    """List the live data files of a snapshot."""
    names = ("path", "format", "spec_id", "partition", "rows", "size", "sequence", "deletes")
    return _rows(await table.files(snapshot=snapshot), names)


@on_iceberg
async def snapshots(table: IcebergTable) -> Outcome:
    """List snapshots, with the branches and tags that name them."""
    return _rows(await table.snapshots(), ("snapshot", "parent", "kind", "time", "schema", "refs", "summary"))


def _time(moment: dt.datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


_WRAPS = ("deletes", "partition", "path", "refs", "summary")
"""Columns whose cells may be wrapped."""
_FORMATS: Mapping[str, Callable[[Any], str]] = {"size": human_bytes, "time": _time}


def _rows(rows: pa.Table, columns: Sequence[str]) -> Outcome:
    return Outcome(
        lambda: tables.print_rows(rows, columns, _FORMATS, wraps=_WRAPS), lambda: tables.print_lines(rows)
    )
