"""``lakehouse table create|drop|undrop|rename|…``: commands after which a table is another."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from lakehouse.cli.asking import asks
from lakehouse.cli.output import print_json, say
from lakehouse.cli.tables.indexes import parse_index_words
from lakehouse.format import schema as schemas

if TYPE_CHECKING:
    from lakehouse.format.schema import TableSchema
    from lakehouse.lake import Lake
    from lakehouse.storage.table import Table
    from lakehouse.storage.tables import CommitResult, DropResult

__all__ = ["create", "drop", "rename", "rollback", "tag", "undrop", "untag"]


def create(
    warehouse: WarehouseArgument,
    table: TableArgument,
    columns: Annotated[
        str, typer.Argument(help="Such as 'id bigint, day date, note string comment ''for people'''.")
    ],
    primary_key: Annotated[
        list[str] | None, typer.Option("--primary-key", "-k", help="Column of the key; may be repeated.")
    ] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option("--partition-by", "-p", help="Partition column; may be repeated.")
    ] = None,
    bucket: Annotated[int, typer.Option(help="Parts that rows are spread over.", min=1)] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of the table; may be repeated."),
    ] = None,
    indexes: Annotated[
        list[str] | None,
        typer.Option(
            "--index",
            metavar="TARGET=KIND",
            help="Such as host=inverted, trace=bloom:granularity=1024 or message=fulltext:English:bloom; "
            "may be repeated.",
        ),
    ] = None,
    comment: Annotated[str | None, typer.Option(help="What the table is for.")] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Leave one that is there.")] = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Make a table; its columns are written as in SQL."""
    wrong = "--set takes NAME=VALUE; docs/reference/table-options.md has the names"
    schema = dataclasses.replace(
        _schema(columns, primary_key or [], partition_by or []),
        buckets=bucket,
        options=schemas.option_texts(parse_words(settings, wrong)),
        comment=comment,
    )
    definitions = schemas.parse_indexes(parse_index_words(indexes), schema.fields)
    schema = dataclasses.replace(schema, indexes=definitions, highest_index_id=len(definitions))
    schemas.check_schema(schema)
    schemas.check_options(schema)

    async def work(lake: Lake) -> Table:
        return await lake.create_table(table, schema, if_not_exists=if_not_exists)

    made = with_lake(warehouse, parse_options(options, endpoint_url), work)
    _say(f"{made.name} at {made.location}", {"table": made.name, "location": made.location}, as_json)


def _schema(columns: str, primary_key: list[str], partition_by: list[str]) -> TableSchema:
    """Makes a schema of the columns in SQL text; those of keys are required."""
    numbers = itertools.count(1)
    kind = schemas.parse_type(f"struct<{columns}>", numbers.__next__)
    assert isinstance(kind, schemas.StructType)
    fixed = {*primary_key, *partition_by}
    return schemas.TableSchema(
        fields=tuple(
            dataclasses.replace(field, required=field.required or field.name in fixed)
            for field in kind.fields
        ),
        primary_key=tuple(primary_key),
        partition_by=tuple(partition_by),
        highest_field_id=next(numbers) - 1,
    )


@asks("Drop {table}?".format_map)
def drop(
    warehouse: WarehouseArgument,
    table: TableArgument,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Nothing to drop is fine.")] = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Drop a table: its name is free, and whoever has it open is told. Says until when it can come back."""

    async def work(lake: Lake) -> DropResult | None:
        return await lake.drop_table(table, if_exists=if_exists)

    done = with_lake(warehouse, parse_options(options, endpoint_url), work)
    if done is None:
        _say(f"there is no table {table}", {"dropped": None}, as_json)
        return
    _say(str(done), {"dropped": table, "uuid": str(done.uuid), "until": _iso(done.until)}, as_json)


def undrop(
    warehouse: WarehouseArgument,
    table: TableArgument,
    uuid: Annotated[
        str | None, typer.Option(help="Which one, when several of that name were dropped; else the last.")
    ] = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Bring a dropped table back as it was, until a purge has deleted its objects."""

    async def work(lake: Lake) -> Table:
        return await lake.undrop_table(table, uuid=uuid)

    back = with_lake(warehouse, parse_options(options, endpoint_url), work)
    _say(f"{back.name} is back", {"table": back.name, "location": back.location}, as_json)


def rename(
    warehouse: WarehouseArgument,
    table: TableArgument,
    new_name: Annotated[str, typer.Argument(help="In this or another database.", metavar="DATABASE.TABLE")],
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Give a table another name."""

    async def work(lake: Lake) -> Table:
        return await lake.rename_table(table, new_name)

    moved = with_lake(warehouse, parse_options(options, endpoint_url), work)
    _say(f"{table} is {moved.name} now", {"table": moved.name, "location": moved.location}, as_json)


def tag(
    warehouse: WarehouseArgument,
    table: TableArgument,
    name: Annotated[str, typer.Argument(help="Of the tag.")],
    snapshot: SnapshotOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Move a tag that is there.")] = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Give a snapshot a name, which keeps it."""
    _commit(
        warehouse,
        table,
        parse_options(options, endpoint_url),
        lambda opened: opened.create_tag(name, snapshot=snapshot, replace=replace),
        as_json,
    )


@asks("Delete tag {name} of {table}?".format_map)
def untag(
    warehouse: WarehouseArgument,
    table: TableArgument,
    name: Annotated[str, typer.Argument(help="Of the tag.")],
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Take a tag away; its snapshot may expire then."""
    parsed = parse_options(options, endpoint_url)
    _commit(warehouse, table, parsed, lambda opened: opened.delete_tag(name), as_json)


@asks("Roll {table} back?".format_map)
def rollback(
    warehouse: WarehouseArgument,
    table: TableArgument,
    snapshot: Annotated[int | None, typer.Option(help="Id of a snapshot.")] = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Make an older state the newest, by a commit; what came between can still be read."""
    _commit(
        warehouse,
        table,
        parse_options(options, endpoint_url),
        lambda opened: opened.rollback(snapshot=snapshot, timestamp=moment(timestamp), tag=tag),
        as_json,
    )


def _commit(
    warehouse: str,
    name: str,
    options: dict[str, Any],
    work: Callable[[Table], Awaitable[CommitResult]],
    as_json: bool,
) -> None:
    """Makes a commit and says what it did."""
    done = with_table(warehouse, name, options, work)
    report = {"snapshot": done.snapshot, "changed": done.changed, **done.cost.as_dict()}
    _say(f"{name} is at snapshot {done.snapshot}" + ("" if done.changed else ", as it was"), report, as_json)


def _iso(moment: dt.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


def _say(text: str, report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
    else:
        say(text)
