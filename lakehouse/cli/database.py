"""``lakehouse db list|create|drop|undrop``: the databases of a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import IfExists, IfNotExists
from lakehouse.cli.asking import asks
from lakehouse.cli.escapes import json_text
from lakehouse.cli.frame import Outcome, on_lake

if TYPE_CHECKING:
    from lakehouse.lake import Lake

__all__ = ["app"]

_LOST = 4

app = typer.Typer(help="List, make and drop databases.", no_args_is_help=True)

_Database = Annotated[str, typer.Argument(help="Name of the database.")]


@app.command("list")
@on_lake
async def _list(lake: Lake, *, as_json: bool) -> None:
    """List databases, a name per line."""
    for name in await lake.databases():
        typer.echo(json_text({"database": name}) if as_json else name)


@app.command("create")
@on_lake
async def _create(
    lake: Lake,
    name: _Database,
    if_not_exists: IfNotExists = False,
    comment: Annotated[str | None, typer.Option(help="What the database is for.")] = None,
) -> Outcome:
    """Make a database."""
    await lake.create_database(name, if_not_exists=if_not_exists, comment=comment)
    return Outcome(f"{name} is there", {"database": name})


@app.command("drop")
@asks(lambda given: f"Drop database {given['name']}{' and its tables' * given['cascade']}?")
@on_lake
async def _drop(
    lake: Lake,
    name: _Database,
    if_exists: IfExists = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop its tables too.")] = False,
) -> Outcome:
    """Drop a database, which must have no tables unless --cascade drops them too."""
    done = await lake.drop_database(name, if_exists=if_exists, cascade=cascade)
    if done is None:
        return Outcome(f"there is no database {name}", {"dropped": None})
    return Outcome(str(done), {"dropped": name, "tables": [result.table for result in done.tables]})


@app.command("undrop")
@on_lake
async def _undrop(lake: Lake, name: _Database) -> Outcome:
    """Bring back a dropped database and the tables dropped with it; exit code 4 when some are lost."""
    done = await lake.undrop_database(name)
    document = {"database": name, "tables": list(done.tables), "lost": dict(done.lost)}
    return Outcome(str(done), document, _LOST if done.lost else 0)
