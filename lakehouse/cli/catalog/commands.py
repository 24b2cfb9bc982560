"""``lakehouse catalog tree|resolve|describe``: what a warehouse and its attached catalogs hold, by name.

Nothing of a table is read to list it; describing one reads its newest snapshot and its schema.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.catalog.graph import ResolutionStatus, show_name
from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import (
    CatalogNode,
    NamespaceNode,
    Node,
    RelationPath,
    SystemViewNode,
    TableNode,
    ViewNode,
)
from lakehouse.cli.escapes import json_text
from lakehouse.cli.frame import Outcome, on_lake
from lakehouse.cli.output import human_bytes, print_table, say
from lakehouse.errors import NotFoundError

if TYPE_CHECKING:
    from lakehouse.catalog.graph import ResolutionPage
    from lakehouse.lake import Lake

__all__ = ["app"]

app = typer.Typer(help="Look into catalogs: what they hold, and what names stand for.", no_args_is_help=True)

_ALL: RelationPath = ()
_NOT_FOUND = 3
"""Exit code when a name of a list is not there or fails."""


@app.command("tree")
@on_lake
async def _tree(
    lake: Lake,
    name: Annotated[
        str | None, typer.Argument(help="Only this database, catalog or namespace.", metavar="NAME")
    ] = None,
    depth: Annotated[int, typer.Option(help="Levels to show: 1 shows namespaces alone.", min=1)] = 64,
    *,
    as_json: bool,
) -> None:
    """Show catalogs, namespaces, tables and views as a tree; no table is read for it."""
    async for level, kind, shown in _below(lake, name, depth):
        if as_json:
            typer.echo(json_text({"name": shown, "kind": kind, "level": level}))
        else:
            mark = "" if kind in ("table", "") else f"  ({kind})"
            typer.echo(f"{'  ' * level}{shown}{mark}")


async def _below(lake: Lake, name: str | None, depth: int) -> AsyncGenerator[tuple[int, str, str], None]:
    """Yields level, kind and name of what there is, each namespace before what it holds."""
    graph = lake.graph
    if name is None:
        roots = [(catalog, _ALL) for catalog in ("", *await lake.catalogs())]
    else:
        found = await graph.resolve(await graph.resolve_name(name))
        if isinstance(found, CatalogNode):
            roots = [(found.name, _ALL)]
        elif isinstance(found, NamespaceNode):
            parent = await graph.resolve(found.catalog)
            roots = [(parent.name if isinstance(parent, CatalogNode) else "", found.path)]
        else:
            raise NotFoundError(f"{name} is a {found.kind.value}: a tree begins at a catalog or a namespace")
    for catalog, path in roots:
        waiting: list[tuple[int, tuple[str, ...]]] = [(0, path)]
        while waiting:
            level, inside = waiting.pop()
            full = (catalog, *inside) if catalog else inside
            if full:
                yield level, "namespace" if inside else "catalog", show_name(full)
            below = level + bool(full)
            if below >= depth:
                continue
            if inside:
                async for entry in graph.listed(catalog, inside):
                    shown = show_name((catalog, *entry.path) if catalog else entry.path)
                    yield below, "" if entry.kind is None else entry.kind.value, shown
            if catalog or not inside:
                children = await graph.namespace_paths(catalog, inside)
                waiting += [(below, child) for child in reversed(children)]


@app.command("resolve")
@on_lake
async def _resolve(
    lake: Lake,
    names: Annotated[list[str], typer.Argument(help="Full names, such as sales.orders.", metavar="NAME…")],
    views: Annotated[bool, typer.Option("--views", help="They are names of views.")] = False,
) -> Outcome:
    """Show which ids names stand for; exit code 3 when one is not there or fails."""
    resolve = lake.graph.resolve_views if views else lake.graph.resolve_tables
    page = await resolve(names)
    document = [
        {
            "name": item.name,
            "status": item.status.value,
            "id": None if item.id is None else str(item.id),
            "error": None if item.error is None else item.error.message,
        }
        for item in page.items
    ]
    is_whole = all(item.status is ResolutionStatus.FOUND for item in page.items)
    return Outcome(partial(_print_resolutions, page), document, 0 if is_whole else _NOT_FOUND)


def _print_resolutions(page: ResolutionPage) -> None:
    rows = [
        [item.name, item.status.value, str(item.id or ""), item.error.message if item.error else ""]
        for item in page.items
    ]
    print_table(["name", "status", "id", "error"], rows)


@app.command("describe")
@on_lake
async def _describe(
    lake: Lake,
    name: Annotated[str, typer.Argument(help="Full name, or an id such as default:table:…", metavar="NAME")],
) -> Outcome:
    """Show the node of a catalog, namespace, table or view."""
    graph = lake.graph
    node = await graph.resolve(_id(name) or await graph.resolve_name(name))
    about = _about(node)
    return Outcome(partial(_print_node, about), about)


def _id(text: str) -> ResourceId | None:
    parts = text.split(":")
    is_id = len(parts) == 3 and parts[1] in set(NodeKind)
    return ResourceId.parse(text) if is_id else None


def _about(node: Node) -> dict[str, Any]:
    about: dict[str, Any] = {"id": str(node.id), "kind": node.kind.value, "version": node.version}
    if isinstance(node, CatalogNode):
        return {
            **about,
            "name": node.name,
            "place": node.display,
            "connector": node.connector,
            "policy": dict(node.policy),
            "namespaces": len(node.namespaces or ()),
        }
    if isinstance(node, NamespaceNode):
        return {**about, "name": node.display, "namespaces": len(node.children or ())}
    if isinstance(node, TableNode):
        return {**about, **_about_table(node)}
    if isinstance(node, ViewNode):
        return {
            **about,
            "name": node.display,
            "sql": dict(node.texts) or {node.dialect: node.sql},
            "columns": list(node.columns),
            "reads": list(node.base_relations),
            "owner": node.owner,
        }
    if isinstance(node, SystemViewNode):
        return {**about, "name": node.display, "columns": [list(column) for column in node.columns]}
    return about


def _about_table(node: TableNode) -> dict[str, Any]:
    return {
        "name": node.display,
        "format": node.format,
        "location": node.location,
        "snapshot": node.current_snapshot,
        "schema": node.schema_id,
        "columns": [
            {"id": one["id"], "name": one["name"], "type": one["type"], "required": one["required"]}
            for one in json.loads(node.schema_json)["fields"]
        ],
        "primary_key": list(node.primary_key),
        "partition_keys": list(node.partition_keys),
        "rows": node.summary.rows,
        "bytes": node.summary.bytes,
        "files": node.summary.files,
    }


def _print_node(about: dict[str, Any]) -> None:
    for name, value in about.items():
        if name == "columns" and value and isinstance(value[0], dict):
            continue
        if name == "bytes" and value is not None:
            value = human_bytes(value)
        shown = json_text(value) if isinstance(value, dict | list) else value
        say(f"{name.replace('_', ' '):15}{'' if shown is None else shown}")
    columns = about.get("columns")
    if columns and isinstance(columns[0], dict):
        rows = [
            [str(one["id"]), one["name"], _type(one["type"]), "not null" if one["required"] else ""]
            for one in columns
        ]
        print_table(["id", "column", "type", ""], rows)


def _type(kind: Any) -> str:
    return kind if isinstance(kind, str) else json_text(kind)
