"""``lakehouse view create|show|list|drop|undrop|rename|impact``: the views of a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import IfExists, IfNotExists
from lakehouse.cli.asking import asks
from lakehouse.cli.escapes import json_text
from lakehouse.cli.frame import Outcome, on_lake

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.storage.tables import ViewDefinition

__all__ = ["app"]

app = typer.Typer(help="Make, show and drop views: SQL under a name.", no_args_is_help=True)

_View = Annotated[str, typer.Argument(help="Such as sales.large_orders.", metavar="DATABASE.VIEW")]


@app.command("create")
@on_lake
async def _create(
    lake: Lake,
    view: _View,
    sql: Annotated[str, typer.Argument(help="The query, as one word.")],
    dialect: Annotated[str, typer.Option(help="Dialect of the query.")] = "duckdb",
    depends_on: Annotated[
        list[str] | None,
        typer.Option("--depends-on", help="Full name of a relation that it reads; may be repeated."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="Name of an output column; may be repeated.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Who it belongs to.")] = None,
    comment: Annotated[str | None, typer.Option(help="What the view is for.")] = None,
    if_not_exists: IfNotExists = False,
    replace: Annotated[bool, typer.Option("--replace", help="Make the next version of a view.")] = False,
) -> Outcome:
    """Make a view, or with --replace its next version; older ones can still be read."""
    made = await lake.create_view(
        view,
        {dialect: sql},
        columns=columns or (),
        depends_on=depends_on,
        owner=owner,
        comment=comment,
        if_not_exists=if_not_exists,
        or_replace=replace,
    )
    return Outcome(f"{made.name} is at version {made.version}", _document(made))


@app.command("show")
@on_lake
async def _show(
    lake: Lake,
    view: _View,
    version: Annotated[int | None, typer.Option(help="Number of an older version.")] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Show what it depends on instead.")] = False,
) -> Outcome:
    """Show a view's SQL, or with --tree what it reads, through other views too."""
    if tree:
        found = await lake.view_dependencies(view)
        relations = {name: list(one.reads) for name, one in found.relations.items()}
        return Outcome(str(found), {"view": found.of, "reads": relations, "missing": list(found.missing)})
    shown = await lake.view(view, version=version)
    several = len(shown.texts) > 1
    texts = [f"-- {dialect}\n{text}" if several else text for dialect, text in shown.texts.items()]
    return Outcome("\n".join(texts), _document(shown))


@app.command("list")
@on_lake
async def _list(
    lake: Lake,
    database: Annotated[str | None, typer.Argument(help="Only this database.")] = None,
    prefix: Annotated[str, typer.Option(help="Only views whose names begin so.")] = "",
    *,
    as_json: bool,
) -> None:
    """List views, a name per line."""
    for namespace in [database] if database else await lake.databases():
        async for name in lake.views(namespace, prefix=prefix):
            typer.echo(json_text({"view": name}) if as_json else name)


@app.command("impact")
@on_lake
async def _impact(
    lake: Lake,
    relation: Annotated[str, typer.Argument(help="Full name of a table or view.", metavar="RELATION")],
) -> Outcome:
    """List the views that read a relation, directly or through others."""
    found = await lake.impact(relation)
    lines = [*found.direct, *(f"{name}  (through others)" for name in found.indirect)]
    lines += [f"{name}  (not known)" for name in found.unknown]
    document = {
        "of": found.of,
        "direct": list(found.direct),
        "indirect": list(found.indirect),
        "unknown": list(found.unknown),
    }
    return Outcome("\n".join(lines) or f"no view reads {relation}", document)


@app.command("drop")
@asks("Drop {view}?".format_map)
@on_lake
async def _drop(lake: Lake, view: _View, if_exists: IfExists = False) -> Outcome:
    """Drop a view; undrop brings it back until it is purged or its name is taken."""
    done = await lake.drop_view(view, if_exists=if_exists)
    if done is None:
        return Outcome(f"there is no view {view}", {"dropped": None})
    return Outcome(f"{view} is dropped", {"dropped": view, "uuid": str(done.uuid)})


@app.command("undrop")
@on_lake
async def _undrop(lake: Lake, view: _View) -> Outcome:
    """Bring a dropped view back, with all its versions."""
    back = await lake.undrop_view(view)
    return Outcome(f"{back.name} is back", _document(back))


@app.command("rename")
@on_lake
async def _rename(
    lake: Lake,
    view: _View,
    new_name: Annotated[str, typer.Argument(help="In this or another database.", metavar="DATABASE.VIEW")],
) -> Outcome:
    """Give a view another name."""
    moved = await lake.rename_view(view, new_name)
    return Outcome(f"{view} is {moved.name} now", _document(moved))


def _document(view: ViewDefinition) -> dict[str, Any]:
    return {
        "view": view.name,
        "uuid": str(view.uuid),
        "version": view.version,
        "created": view.created.isoformat(),
        "sql": dict(view.texts),
        "columns": list(view.columns),
        "depends_on": None if view.depends_on is None else list(view.depends_on),
        "search_path": list(view.search_path),
        "owner": view.owner,
        "comment": view.comment,
    }
