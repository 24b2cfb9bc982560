"""``lakehouse table …``: commands that show a table's schema, rows and history."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import tables
from lakehouse.cli.arguments import (
    ColumnNames,
    SnapshotOption,
    Tag,
    Timestamp,
    Where,
    moment,
    parse_words,
)
from lakehouse.cli.escapes import json_text
from lakehouse.cli.frame import Outcome, on_lake, on_table
from lakehouse.cli.output import error_console, human_bytes, print_table, say
from lakehouse.cli.tables import alter as table_alter
from lakehouse.cli.tables import changes as table_changes
from lakehouse.cli.tables import compact as table_compact
from lakehouse.cli.tables import indexes as table_indexes
from lakehouse.cli.tables import maintenance as table_maintenance
from lakehouse.format import schema as schemas
from lakehouse.storage import scan as scans

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.lake import Lake
    from lakehouse.storage.table import Table

__all__ = ["app"]

_SHOWN = 100
"""Rows that people are shown unless they ask for a number."""

app = typer.Typer(help="Look into tables, and make, tag and drop them.", no_args_is_help=True)
app.command("create")(table_changes.create)
app.command("drop")(table_changes.drop)
app.command("undrop")(table_changes.undrop)
app.command("rename")(table_changes.rename)
app.command("alter")(table_alter.alter)
app.command("delete")(table_alter.delete)
app.command("tag")(table_changes.tag)
app.command("untag")(table_changes.untag)
app.command("rollback")(table_changes.rollback)
app.command("expire")(table_maintenance.expire)
app.command("expire-partitions")(table_maintenance.expire_partitions)
app.command("orphans")(table_maintenance.orphans)
app.command("verify")(table_maintenance.verify)
app.command("repair")(table_maintenance.repair)
app.command("rescale")(table_maintenance.rescale)
app.command("purge")(table_maintenance.purge)
app.command("compact")(table_compact.compact)
app.command("rebuild-indexes")(table_indexes.rebuild_indexes)

_Stats = Annotated[bool, typer.Option("--stats", help="Say at the end what was read and what it cost.")]
_NO_SUCH_ROW = 3


@app.command("list")
@on_lake
async def _list(
    lake: Lake,
    database: Annotated[str | None, typer.Argument(help="Only this database.")] = None,
    prefix: Annotated[str, typer.Option(help="Only tables whose names begin so.")] = "",
    *,
    as_json: bool,
) -> None:
    """List tables, a name per line."""
    for namespace in [database] if database else await lake.databases():
        async for name in lake.tables(namespace, prefix=prefix):
            typer.echo(json_text({"table": name}) if as_json else name)


@app.command("describe")
@on_table
async def _describe(table: Table, snapshot: SnapshotOption = None) -> Outcome:
    """Show a table's columns, keys, options and size."""
    number = await table.current_snapshot() if snapshot is None else snapshot
    schema = await table.schema(snapshot=number)
    sizes = await table.partitions(snapshot=number)
    about = {
        "table": table.name,
        "location": table.location,
        "uuid": str(table.uuid),
        "snapshot": number,
        **{name: tables.total(sizes[name]) for name in ("files", "stored_rows", "bytes")},
        "rows": await scans.rows_of_view(await table.core.view(snapshot=number)),
        "partitions": sizes.num_rows,
    }
    columns = [
        {
            "id": field.id,
            "name": field.name,
            "type": schemas.type_text(field.type),
            "required": field.required,
            "default": tables.plain(field.write_default),
            "comment": field.comment,
        }
        for field in schema.fields
    ]
    keys = {
        "primary_key": list(schema.primary_key),
        "partition_by": list(schema.partition_by),
        "buckets": schema.buckets,
        "options": dict(schema.options),
        "comment": schema.comment,
    }
    document = {**about, "schema": schema.id, **keys, "columns": columns}
    return Outcome(partial(_print_description, about, keys, columns), document)


def _print_description(about: dict[str, Any], keys: dict[str, Any], columns: list[dict[str, Any]]) -> None:
    print_table(
        ("id", "column", "type", "null", "default", "comment"),
        [
            [tables.cell(part) for part in (row["id"], row["name"], row["type"], _null(row), *_last(row))]
            for row in columns
        ],
        title=f"{about['table']} at snapshot {about['snapshot']}",
        right=("id",),
        whole=("column", "type"),
    )
    known = "" if about["rows"] is None else f"{about['rows']:,} rows, "
    stored = f"{about['stored_rows']:,} stored rows in {about['files']:,} files"
    size = f"{known}{stored}, {human_bytes(about['bytes'])}"
    for name, value in {**keys, "size": size, "location": about["location"]}.items():
        if value not in (None, [], {}):
            say(f"{name.replace('_', ' ')}: {tables.cell(value)}")


def _null(column: dict[str, Any]) -> str:
    return "not null" if column["required"] else ""


def _last(column: dict[str, Any]) -> tuple[Any, Any]:
    return column["default"], column["comment"]


def _relation(
    name: str, about: str, read: Callable[[Table], Awaitable[pa.Table]], columns: Sequence[str]
) -> None:
    """Registers a command that shows a relation of a table."""

    @on_table
    async def command(table: Table) -> Outcome:
        return _rows(await read(table), columns)

    app.command(name, help=about)(command)


def _relation_at(
    name: str, about: str, read: Callable[[Table, int | None], Awaitable[pa.Table]], columns: Sequence[str]
) -> None:
    """Registers a command that shows a relation of a snapshot."""

    @on_table
    async def command(table: Table, snapshot: SnapshotOption = None) -> Outcome:
        return _rows(await read(table, snapshot), columns)

    app.command(name, help=about)(command)


def _rows(rows: pa.Table, columns: Sequence[str]) -> Outcome:
    return Outcome(
        lambda: tables.print_rows(rows, columns, _FORMATS, wraps=_WRAPS), lambda: tables.print_lines(rows)
    )


def _time(moment: dt.datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _columns(fields: list[dict[str, Any]]) -> str:
    return ", ".join(f"{field['name']} {field['type']}{' not null' * field['required']}" for field in fields)


_WRAPS = ("columns", "max_key", "message", "min_key", "options", "partition", "tags")
"""Columns of relations whose cells may be wrapped."""
_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "time": _time,
    "expires": _time,
    "bytes": human_bytes,
    "columns": _columns,
}
_relation(
    "snapshots",
    "List snapshots, oldest first.",
    lambda table: table.snapshots(),
    ("snapshot", "kind", "time", "files", "rows", "stored_rows", "bytes", "tags", "message"),
)
_relation(
    "schemas",
    "List the schemas there were, oldest first.",
    lambda table: table.schemas(),
    ("schema", "time", "columns"),
)
_relation("tags", "List tags and pins.", lambda table: table.tags(), ("name", "snapshot", "kind", "expires"))
_relation_at(
    "files",
    "List the data files of a snapshot.",
    lambda table, snapshot: table.files(snapshot=snapshot),
    ("path", "level", "rows", "stored_rows", "deletes", "bytes", "snapshot", "min_key", "max_key"),
)
_relation_at(
    "indexes",
    "List the indexes of a table, and how many data files have them.",
    lambda table, snapshot: table.indexes(snapshot=snapshot),
    ("index", "target", "kind", "options", "files"),
)
_relation_at(
    "partitions",
    "List the partitions of a snapshot.",
    lambda table, snapshot: table.partitions(snapshot=snapshot),
    ("partition", "files", "rows", "stored_rows", "bytes", "last_snapshot"),
)
_relation_at(
    "manifests",
    "List the manifests of a snapshot; recent files stand in the snapshot itself.",
    lambda table, snapshot: table.manifests(snapshot=snapshot),
    ("path", "files", "stored_rows", "bytes", "snapshot"),
)


@app.command("scan")
@on_table
async def _scan(
    table: Table,
    where: Where = None,
    columns: ColumnNames = None,
    limit: Annotated[
        int | None, typer.Option(help=f"Most rows; without it a table shows {_SHOWN}, --json all.", min=0)
    ] = None,
    snapshot: SnapshotOption = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    stats: _Stats = False,
    *,
    as_json: bool,
) -> None:
    """Print rows: as a table, or with --json an object per line, however many there are."""
    most = _SHOWN if limit is None else limit
    read = _SHOWN + 1 if limit is None and not as_json else limit
    scan = table.scan(
        where, columns=columns, limit=read, snapshot=snapshot, timestamp=moment(timestamp), tag=tag
    )
    await tables.print_some(scan.tables(), as_json=as_json, most=most, rest="--column or --json")
    if stats:
        error_console().print_json(json.dumps(scan.report.as_dict()))


@app.command("explain")
@on_table
async def _explain(
    table: Table,
    where: Where = None,
    columns: ColumnNames = None,
    snapshot: SnapshotOption = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
) -> Outcome:
    """Show which files a scan would read, and why it need not read the others."""
    scan = table.scan(where, columns=columns, snapshot=snapshot, timestamp=moment(timestamp), tag=tag)
    report = (await scan.explain()).as_dict()
    rows = [("files", report["files"])]
    rows += [(f"left out by {what}", count) for what, count in sorted(report["files_pruned"].items())]
    rows += [("to read", report["files_read"]), ("of these, for their keys only", report["files_keys_only"])]
    if report["indexes_read"] or report["indexes_failed"]:
        rows += [("index files asked", report["indexes_read"])]
        rows += [("rows in files to read that indexes exclude", report["rows_pruned_by_index"])]
        rows += [("index files that cannot be read", report["indexes_failed"])]
    return Outcome(lambda: print_table(("files of the snapshot", "count"), rows, right=("count",)), report)


@app.command("get")
@on_table
async def _get(
    table: Table,
    key: Annotated[list[str], typer.Argument(help="The primary key, such as id=7.", metavar="COLUMN=VALUE…")],
    columns: ColumnNames = None,
    snapshot: SnapshotOption = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
) -> Outcome:
    """Show the row of a key; exit code 3 when there is none."""
    words = parse_words(key, "a key is COLUMN=VALUE for each column of the primary key, such as id=7")
    typed = tables.typed(words, await table.schema())
    row = await table.get(typed, columns=columns, snapshot=snapshot, timestamp=moment(timestamp), tag=tag)
    if row is None:
        return Outcome(lambda: error_console().print("there is no row of that key"), None, _NO_SUCH_ROW)
    cells = [(name, None if value is None else tables.cell(value)) for name, value in row.items()]
    return Outcome(
        lambda: print_table(("column", "value"), cells),
        {name: tables.plain(value) for name, value in row.items()},
    )


@app.command("changes")
@on_table
async def _changes(
    table: Table,
    start: Annotated[int, typer.Argument(help="Id of a snapshot.")],
    end: Annotated[int | None, typer.Argument(help="Id of a later one; else the newest.")] = None,
    *,
    as_json: bool,
) -> None:
    """Print which rows differ between two snapshots, and how."""
    await tables.print_some(_first_column(table, start, end), as_json=as_json, most=_SHOWN)


async def _first_column(table: Table, start: int, end: int | None) -> AsyncGenerator[pa.Table, None]:
    """Moves the kind of changes to the front, where people look first."""
    async with aclosing(table.changes(start, end)) as tables:
        async for rows in tables:
            names = rows.schema.names
            yield rows.select([names[-1], *names[:-1]])
