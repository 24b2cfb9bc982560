"""``lakehouse db list|create|drop``: the databases of a warehouse."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lakehouse.cli.arguments import (
    Endpoint,
    Json,
    Options,
    Warehouse,
    Yes,
    confirm,
    parse_options,
    with_lake,
)
from lakehouse.cli.output import print_json
from lakehouse.lake import Lake

__all__ = ["app"]

app = typer.Typer(help="List, make and drop databases.", no_args_is_help=True)

_Database = Annotated[str, typer.Argument(help="Name of the database.")]


@app.command("list")
def _list(
    warehouse: Warehouse, options: Options = None, endpoint_url: Endpoint = None, as_json: Json = False
) -> None:
    """List databases, a name per line."""

    async def work(lake: Lake) -> list[str]:
        return await lake.databases()

    for name in with_lake(warehouse, parse_options(options, endpoint_url), work):
        typer.echo(json.dumps({"database": name}, ensure_ascii=False) if as_json else name)


@app.command("create")
def _create(
    warehouse: Warehouse,
    name: _Database,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Leave one that is there.")] = False,
    comment: Annotated[str | None, typer.Option(help="What the database is for.")] = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Make a database."""

    async def work(lake: Lake) -> None:
        await lake.create_database(name, if_not_exists=if_not_exists, comment=comment)

    with_lake(warehouse, parse_options(options, endpoint_url), work)
    if as_json:
        print_json({"database": name})
    else:
        typer.echo(f"{name} is there")


@app.command("drop")
def _drop(
    warehouse: Warehouse,
    name: _Database,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Nothing to drop is fine.")] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop its tables too.")] = False,
    yes: Yes = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Drop a database, which must have no tables unless --cascade drops them too."""
    confirm(f"Drop database {name}{' and its tables' if cascade else ''}?", yes=yes)

    async def work(lake: Lake) -> None:
        await lake.drop_database(name, if_exists=if_exists, cascade=cascade)

    with_lake(warehouse, parse_options(options, endpoint_url), work)
    if as_json:
        print_json({"dropped": name})
    else:
        typer.echo(f"{name} is dropped")
