"""``lakehouse db list|create|drop|undrop``: the databases of a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import (
    Endpoint,
    Json,
    Options,
    WarehouseArgument,
    parse_options,
    with_lake,
)
from lakehouse.cli.asking import asks
from lakehouse.cli.escapes import json_text
from lakehouse.cli.output import print_json

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.storage.tables import DatabaseDropResult, DatabaseUndropResult

__all__ = ["app"]

_LOST = 4

app = typer.Typer(help="List, make and drop databases.", no_args_is_help=True)

_Database = Annotated[str, typer.Argument(help="Name of the database.")]


@app.command("list")
def _list(
    warehouse: WarehouseArgument,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """List databases, a name per line."""

    async def work(lake: Lake) -> list[str]:
        return await lake.databases()

    for name in with_lake(warehouse, parse_options(options, endpoint_url), work):
        typer.echo(json_text({"database": name}) if as_json else name)


@app.command("create")
def _create(
    warehouse: WarehouseArgument,
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
@asks(lambda given: f"Drop database {given['name']}{' and its tables' * given['cascade']}?")
def _drop(
    warehouse: WarehouseArgument,
    name: _Database,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Nothing to drop is fine.")] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop its tables too.")] = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Drop a database, which must have no tables unless --cascade drops them too."""

    async def work(lake: Lake) -> DatabaseDropResult | None:
        return await lake.drop_database(name, if_exists=if_exists, cascade=cascade)

    done = with_lake(warehouse, parse_options(options, endpoint_url), work)
    if as_json:
        print_json({"dropped": None} if done is None else {"dropped": name, "tables": _names(done)})
    else:
        typer.echo(f"there is no database {name}" if done is None else str(done))


def _names(done: DatabaseDropResult) -> list[str]:
    return [result.table for result in done.tables]


@app.command("undrop")
def _undrop(
    warehouse: WarehouseArgument,
    name: _Database,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Bring back a dropped database and the tables dropped with it; exit code 4 when some are lost."""

    async def work(lake: Lake) -> DatabaseUndropResult:
        return await lake.undrop_database(name)

    done = with_lake(warehouse, parse_options(options, endpoint_url), work)
    if as_json:
        print_json({"database": name, "tables": list(done.tables), "lost": dict(done.lost)})
    else:
        typer.echo(str(done))
    if done.lost:
        raise typer.Exit(_LOST)
