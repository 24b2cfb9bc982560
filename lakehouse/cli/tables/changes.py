"""``lakehouse table create|drop|undrop|rename|…``: commands after which a table is another."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import (
    IfExists,
    IfNotExists,
    SnapshotOption,
    TableArgument,
    Tag,
    Timestamp,
    moment,
    parse_words,
)
from lakehouse.cli.asking import asks
from lakehouse.cli.frame import Outcome, on_lake, on_table
from lakehouse.cli.tables.alter import committed, parse_columns
from lakehouse.cli.tables.indexes import parse_index_words
from lakehouse.format import schema as schemas

if TYPE_CHECKING:
    from lakehouse.format.schema import TableSchema
    from lakehouse.lake import Lake
    from lakehouse.storage.table import Table

__all__ = ["create", "drop", "rename", "rollback", "tag", "undrop", "untag"]


@on_lake
async def create(
    lake: Lake,
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
    if_not_exists: IfNotExists = False,
) -> Outcome:
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
    made = await lake.create_table(table, schema, if_not_exists=if_not_exists)
    return _named(f"{made.name} at {made.location}", made)


def _schema(columns: str, primary_key: list[str], partition_by: list[str]) -> TableSchema:
    """Makes a schema of the columns in SQL text; those of keys are required."""
    fields, highest = parse_columns(columns)
    fixed = {*primary_key, *partition_by}
    return schemas.TableSchema(
        fields=tuple(
            dataclasses.replace(field, required=field.required or field.name in fixed) for field in fields
        ),
        primary_key=tuple(primary_key),
        partition_by=tuple(partition_by),
        highest_field_id=highest,
    )


@asks("Drop {table}?".format_map)
@on_lake
async def drop(lake: Lake, table: TableArgument, if_exists: IfExists = False) -> Outcome:
    """Drop a table: its name is free, and whoever has it open is told. Says until when it can come back."""
    done = await lake.drop_table(table, if_exists=if_exists)
    if done is None:
        return Outcome(f"there is no table {table}", {"dropped": None})
    return Outcome(str(done), {"dropped": table, "uuid": str(done.uuid), "until": _iso(done.until)})


@on_lake
async def undrop(
    lake: Lake,
    table: TableArgument,
    uuid: Annotated[
        str | None, typer.Option(help="Which one, when several of that name were dropped; else the last.")
    ] = None,
) -> Outcome:
    """Bring a dropped table back as it was, until a purge has deleted its objects."""
    back = await lake.undrop_table(table, uuid=uuid)
    return _named(f"{back.name} is back", back)


@on_lake
async def rename(
    lake: Lake,
    table: TableArgument,
    new_name: Annotated[str, typer.Argument(help="In this or another database.", metavar="DATABASE.TABLE")],
) -> Outcome:
    """Give a table another name."""
    moved = await lake.rename_table(table, new_name)
    return _named(f"{table} is {moved.name} now", moved)


def _named(text: str, table: Table) -> Outcome:
    return Outcome(text, {"table": table.name, "location": table.location})


@on_table
async def tag(
    table: Table,
    name: Annotated[str, typer.Argument(help="Of the tag.")],
    snapshot: SnapshotOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Move a tag that is there.")] = False,
) -> Outcome:
    """Give a snapshot a name, which keeps it."""
    return committed(table, await table.create_tag(name, snapshot=snapshot, replace=replace))


@asks("Delete tag {name} of {table}?".format_map)
@on_table
async def untag(table: Table, name: Annotated[str, typer.Argument(help="Of the tag.")]) -> Outcome:
    """Take a tag away; its snapshot may expire then."""
    return committed(table, await table.delete_tag(name))


@asks("Roll {table} back?".format_map)
@on_table
async def rollback(
    table: Table,
    snapshot: Annotated[int | None, typer.Option(help="Id of a snapshot.")] = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
) -> Outcome:
    """Make an older state the newest, by a commit; what came between can still be read."""
    done = await table.rollback(snapshot=snapshot, timestamp=moment(timestamp), tag=tag)
    return committed(table, done)


def _iso(moment: dt.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
