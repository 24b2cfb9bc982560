"""``lakehouse table alter|delete``: commands that change columns and options, and that delete rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import tables
from lakehouse.cli.arguments import Where, parse_words
from lakehouse.cli.asking import asks
from lakehouse.cli.frame import Outcome, on_table
from lakehouse.errors import InvalidInputError
from lakehouse.format import schema as schemas
from lakehouse.storage import schema as changes

if TYPE_CHECKING:
    from lakehouse.storage.schema import SchemaChange
    from lakehouse.storage.table import Table
    from lakehouse.storage.tables import CommitResult

__all__ = ["alter", "committed", "delete", "parse_columns"]

_Words = list[str] | None


def _drops(given: Mapping[str, Any]) -> str:
    dropped = given.get("drop")
    return f"Drop {', '.join(dropped)} of {given['table']}?" if dropped else ""


@asks(_drops)
@on_table
async def alter(
    table: Table,
    add: Annotated[
        _Words, typer.Option("--add", metavar="'NAME TYPE'", help="Add a column, written as in SQL.")
    ] = None,
    drop: Annotated[_Words, typer.Option("--drop", metavar="NAME", help="Drop a column.")] = None,
    rename: Annotated[
        _Words, typer.Option("--rename", metavar="OLD=NEW", help="Give a column another name.")
    ] = None,
    widen: Annotated[
        _Words, typer.Option("--widen", metavar="'NAME TYPE'", help="Give a column a wider type.")
    ] = None,
    optional: Annotated[
        _Words, typer.Option("--optional", metavar="NAME", help="Let a column have nulls.")
    ] = None,
    settings: Annotated[
        _Words, typer.Option("--set", metavar="NAME=VALUE", help="Set an option of the table.")
    ] = None,
    unset: Annotated[
        _Words, typer.Option("--unset", metavar="NAME", help="Give an option its default back.")
    ] = None,
    comment: Annotated[str | None, typer.Option(help="What the table is for.")] = None,
) -> Outcome:
    """Change columns and options, all of it or nothing, in one commit; each option may be repeated."""
    wanted: list[SchemaChange] = [
        *(
            changes.AddColumn(one.name, one.type, required=one.required, comment=one.comment)
            for one in _columns(add)
        ),
        *(changes.WidenColumn(one.name, one.type) for one in _columns(widen)),
        *(changes.RenameColumn(old, new) for old, new in _pairs(rename, "--rename takes OLD=NEW")),
        *map(changes.MakeOptional, optional or ()),
        *map(changes.DropColumn, drop or ()),
    ]
    options = dict(_pairs(settings, "--set takes NAME=VALUE; docs/reference/table-options.md has the names"))
    if options:
        wanted.append(changes.SetOptions(options))
    if unset:
        wanted.append(changes.UnsetOptions(unset))
    if comment is not None:
        wanted.append(changes.SetTableComment(comment))
    if not wanted:
        raise InvalidInputError("there is nothing to change: say --add, --drop, --rename or another")
    return committed(table, await table.alter(*wanted))


def _columns(texts: _Words) -> Iterator[schemas.Field]:
    """Reads columns as in SQL, each of a text of its own."""
    for text in texts or ():
        yield from parse_columns(text)[0]


def parse_columns(text: str) -> tuple[tuple[schemas.Field, ...], int]:
    """Reads columns as in SQL; returns them, and the highest of their ids."""
    numbers = itertools.count(1)
    kind = schemas.parse_type(f"struct<{text}>", numbers.__next__)
    assert isinstance(kind, schemas.StructType)
    return kind.fields, next(numbers) - 1


def _pairs(words: _Words, wrong: str) -> Iterator[tuple[str, str]]:
    yield from parse_words(words, wrong).items()


def _question(given: Mapping[str, Any]) -> str:
    which = given["where"] or "the row of " + ", ".join(given["key"] or ())
    return f"{given['table']}: delete {which}?"


@asks(_question)
@on_table
async def delete(
    table: Table,
    where: Where = None,
    key: Annotated[
        _Words,
        typer.Option("--key", "-k", metavar="COLUMN=VALUE", help="Part of a primary key; may be repeated."),
    ] = None,
) -> Outcome:
    """Delete the rows that match a condition, or the row of a key."""
    if (where is None) == (not key):
        raise InvalidInputError("say which rows: --where 'amount < 0', or --key id=7")
    if where is not None:
        return committed(table, await table.delete(where))
    words = parse_words(key, "--key takes COLUMN=VALUE, such as id=7")
    return committed(table, await table.delete(keys=[tables.typed(words, await table.schema())]))


def committed(table: Table, done: CommitResult) -> Outcome:
    """Returns what a commit made of a table as the result of a command."""
    report = {"snapshot": done.snapshot, "changed": done.changed, **done.cost.as_dict()}
    as_it_was = "" if done.changed else ", as it was"
    return Outcome(f"{table.name} is at snapshot {done.snapshot}{as_it_was}", report)
