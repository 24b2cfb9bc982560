"""``lakehouse table …``: commands that show a table's schema, rows and history."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import tables
from lakehouse.cli.arguments import (
    Endpoint,
    Json,
    Options,
    SnapshotOption,
    TableArgument,
    Tag,
    Timestamp,
    WarehouseArgument,
    moment,
    parse_options,
    parse_words,
    with_lake,
    with_table,
)
from lakehouse.cli.escapes import json_text
from lakehouse.cli.output import error_console, human_bytes, print_json, print_table, say
from lakehouse.cli.tables import changes as table_changes
from lakehouse.cli.tables import compact as table_compact
from lakehouse.cli.tables import indexes as table_indexes
from lakehouse.cli.tables import maintenance as table_maintenance
from lakehouse.format import schema as schemas
from lakehouse.storage import scan as scans

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.format.schema import TableSchema
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

_Where = Annotated[str | None, typer.Option(help="Condition in SQL, such as 'amount > 10'.")]
_ColumnNames = Annotated[
    list[str] | None, typer.Option("--column", "-c", help="Only this column; may be repeated.")
]
_Stats = Annotated[bool, typer.Option("--stats", help="Say at the end what was read and what it cost.")]
_NO_SUCH_ROW = 3


@app.command("list")
def _list(
    warehouse: WarehouseArgument,
    database: Annotated[str | None, typer.Argument(help="Only this database.")] = None,
    prefix: Annotated[str, typer.Option(help="Only tables whose names begin so.")] = "",
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """List tables, a name per line."""

    async def work(lake: Lake) -> None:
        for namespace in [database] if database else await lake.databases():
            async for name in lake.tables(namespace, prefix=prefix):
                typer.echo(json_text({"table": name}) if as_json else name)

    with_lake(warehouse, parse_options(options, endpoint_url), work)


@app.command("describe")
def _describe(
    warehouse: WarehouseArgument,
    table: TableArgument,
    snapshot: SnapshotOption = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Show a table's columns, keys, options and size."""

    async def work(table: Table) -> tuple[TableSchema, dict[str, Any]]:
        number = await table.current_snapshot() if snapshot is None else snapshot
        schema = await table.schema(snapshot=number)
        sizes = await table.partitions(snapshot=number)
        rows = await scans.rows_of_view(await table.core.view(snapshot=number))
        return schema, {
            "table": table.name,
            "location": table.location,
            "uuid": str(table.uuid),
            "snapshot": number,
            **{name: tables.total(sizes[name]) for name in ("files", "stored_rows", "bytes")},
            "rows": rows,
            "partitions": sizes.num_rows,
        }

    schema, about = with_table(warehouse, table, parse_options(options, endpoint_url), work)
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
    if as_json:
        print_json({**about, "schema": schema.id, **keys, "columns": columns})
        return
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

    def command(
        warehouse: WarehouseArgument,
        table: TableArgument,
        options: Options = None,
        endpoint_url: Endpoint = None,
        as_json: Json = False,
    ) -> None:
        _show(with_table(warehouse, table, parse_options(options, endpoint_url), read), columns, as_json)

    app.command(name, help=about)(command)


def _relation_at(
    name: str, about: str, read: Callable[[Table, int | None], Awaitable[pa.Table]], columns: Sequence[str]
) -> None:
    """Registers a command that shows a relation of a snapshot."""

    def command(
        warehouse: WarehouseArgument,
        table: TableArgument,
        snapshot: SnapshotOption = None,
        options: Options = None,
        endpoint_url: Endpoint = None,
        as_json: Json = False,
    ) -> None:
        parsed = parse_options(options, endpoint_url)
        _show(with_table(warehouse, table, parsed, lambda opened: read(opened, snapshot)), columns, as_json)

    app.command(name, help=about)(command)


def _show(rows: pa.Table, columns: Sequence[str], as_json: bool) -> None:
    if as_json:
        tables.print_lines(rows)
    else:
        tables.print_rows(rows, columns, _FORMATS, wraps=_WRAPS)


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
def _scan(
    warehouse: WarehouseArgument,
    table: TableArgument,
    where: _Where = None,
    columns: _ColumnNames = None,
    limit: Annotated[
        int | None, typer.Option(help=f"Most rows; without it a table shows {_SHOWN}, --json all.", min=0)
    ] = None,
    snapshot: SnapshotOption = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    stats: _Stats = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Print rows: as a table, or with --json an object per line, however many there are."""
    most = _SHOWN if limit is None else limit
    read = _SHOWN + 1 if limit is None and not as_json else limit

    async def work(table: Table) -> None:
        scan = table.scan(
            where, columns=columns, limit=read, snapshot=snapshot, timestamp=moment(timestamp), tag=tag
        )
        await tables.print_some(scan.tables(), as_json=as_json, most=most, rest="--column or --json")
        if stats:
            error_console().print_json(json.dumps(scan.report.as_dict()))

    with_table(warehouse, table, parse_options(options, endpoint_url), work)


@app.command("explain")
def _explain(
    warehouse: WarehouseArgument,
    table: TableArgument,
    where: _Where = None,
    columns: _ColumnNames = None,
    snapshot: SnapshotOption = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Show which files a scan would read, and why it need not read the others."""

    async def work(table: Table) -> dict[str, Any]:
        scan = table.scan(where, columns=columns, snapshot=snapshot, timestamp=moment(timestamp), tag=tag)
        return (await scan.explain()).as_dict()

    report = with_table(warehouse, table, parse_options(options, endpoint_url), work)
    if as_json:
        print_json(report)
        return
    rows = [("files", report["files"])]
    rows += [(f"left out by {what}", count) for what, count in sorted(report["files_pruned"].items())]
    rows += [("to read", report["files_read"]), ("of these, for their keys only", report["files_keys_only"])]
    if report["indexes_read"] or report["indexes_failed"]:
        rows += [("index files asked", report["indexes_read"])]
        rows += [("rows in files to read that indexes exclude", report["rows_pruned_by_index"])]
        rows += [("index files that cannot be read", report["indexes_failed"])]
    print_table(("files of the snapshot", "count"), rows, right=("count",))


@app.command("get")
def _get(
    warehouse: WarehouseArgument,
    table: TableArgument,
    key: Annotated[list[str], typer.Argument(help="The primary key, such as id=7.", metavar="COLUMN=VALUE…")],
    columns: _ColumnNames = None,
    snapshot: SnapshotOption = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Show the row of a key; exit code 3 when there is none."""
    words = parse_words(key, "a key is COLUMN=VALUE for each column of the primary key, such as id=7")

    async def work(table: Table) -> dict[str, Any] | None:
        typed = tables.typed(words, await table.schema())
        return await table.get(
            typed, columns=columns, snapshot=snapshot, timestamp=moment(timestamp), tag=tag
        )

    row = with_table(warehouse, table, parse_options(options, endpoint_url), work)
    if as_json:
        print_json(None if row is None else {name: tables.plain(value) for name, value in row.items()})
    elif row is None:
        error_console().print("there is no row of that key")
    else:
        print_table(
            ("column", "value"),
            [(name, None if value is None else tables.cell(value)) for name, value in row.items()],
        )
    if row is None:
        raise typer.Exit(_NO_SUCH_ROW)


@app.command("changes")
def _changes(
    warehouse: WarehouseArgument,
    table: TableArgument,
    start: Annotated[int, typer.Argument(help="Id of a snapshot.")],
    end: Annotated[int | None, typer.Argument(help="Id of a later one; else the newest.")] = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Print which rows differ between two snapshots, and how."""

    async def work(table: Table) -> None:
        await tables.print_some(_first_column(table, start, end), as_json=as_json, most=_SHOWN)

    with_table(warehouse, table, parse_options(options, endpoint_url), work)


async def _first_column(table: Table, start: int, end: int | None) -> AsyncGenerator[pa.Table, None]:
    """Moves the kind of changes to the front, where people look first."""
    async with aclosing(table.changes(start, end)) as tables:
        async for rows in tables:
            names = rows.schema.names
            yield rows.select([names[-1], *names[:-1]])
