"""``lakehouse check-store`` and ``lakehouse store ls|stat|cat|tail``."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Annotated, Any

import typer

from lakehouse.cli.arguments import (
    Endpoint,
    Json,
    ObjectUrl,
    Options,
    Url,
    parse_options,
    split_object,
    with_store,
)
from lakehouse.cli.output import console, human_bytes, print_json, print_table
from lakehouse.io import ObjectMeta, ObjectStore, measure
from lakehouse.io.check import StoreReport, check_store

__all__ = ["app", "check_store_command", "print_report"]

app = typer.Typer(help="Look into an object store.", no_args_is_help=True)


def check_store_command(
    url: Url, options: Options = None, endpoint_url: Endpoint = None, as_json: Json = False
) -> None:
    """Try out whether the engine may commit on a store; exit code 0 if so, 3 if not.

    Races real writers under a prefix of its own and removes what it wrote.
    """
    report = with_store(url, parse_options(options, endpoint_url), check_store)
    if as_json:
        print_json(_report(report))
    else:
        print_report(report)
    if not report.may_commit:
        raise typer.Exit(3)


def _report(report: StoreReport) -> dict[str, Any]:
    return {
        "url": report.url,
        "backend": report.backend,
        "may_commit": report.may_commit,
        "checks": [
            {
                "name": result.name,
                "holds": result.holds,
                "required": result.required,
                "detail": result.detail,
                "seconds": round(result.seconds, 4),
            }
            for result in report.results
        ],
    }


def print_report(report: StoreReport) -> None:
    """The table of what a store does right, and the verdict."""
    marks = {True: "[green]yes[/]", False: "[red]no[/]"}
    rows = [
        (
            result.name,
            marks[result.holds] if result.required or result.holds else "[yellow]no[/]",
            "required" if result.required else "optional",
            result.detail.replace("[", r"\["),
            f"{result.seconds * 1000:.0f}",
        )
        for result in report.results
    ]
    print_table(
        ("property", "holds", "need", "what was seen", "ms"),
        rows,
        title=f"{report.url} through {report.backend}",
        right=("ms",),
    )
    if report.may_commit:
        console().print("[green]The engine may commit on this store.[/]")
    else:
        console().print("[red]The engine must not commit on this store; it can be read.[/]")


@app.command("ls")
def _ls(
    url: Url,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Go into every prefix.")] = False,
    limit: Annotated[int, typer.Option(help="Print at most this many.", min=1)] = 1000,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """List objects under a URL."""

    async def work(store: ObjectStore) -> tuple[list[str], list[ObjectMeta]]:
        if recursive:
            return [], [meta async for meta in store.list(limit=limit)]
        prefixes: list[str] = []
        metas: list[ObjectMeta] = []
        page: str | None = None
        while len(prefixes) + len(metas) < limit:
            listed = await store.list_page(delimiter="/", page=page)
            prefixes += listed.prefixes
            metas += listed.objects
            page = listed.next_page
            if page is None:
                break
        return prefixes[:limit], metas[:limit]

    prefixes, metas = with_store(url, parse_options(options, endpoint_url), work)
    if as_json:
        print_json({"prefixes": prefixes, "objects": [_meta(meta) for meta in metas]})
        return
    rows = [("", "", prefix) for prefix in prefixes]
    rows += [(human_bytes(meta.size), _time(meta.modified_ms), meta.key) for meta in metas]
    print_table(("size", "modified", "key"), rows, right=("size",))


@app.command("stat")
def _stat(
    url: ObjectUrl, options: Options = None, endpoint_url: Endpoint = None, as_json: Json = False
) -> None:
    """Show size, version and time of one object."""
    root, key = split_object(url)
    meta = with_store(root, parse_options(options, endpoint_url), lambda store: store.head(key))
    if as_json:
        print_json(_meta(meta))
    else:
        print_table(("field", "value"), [(name, value) for name, value in _meta(meta).items()])


@app.command("cat")
def _cat(url: ObjectUrl, options: Options = None, endpoint_url: Endpoint = None) -> None:
    """Write an object's bytes to standard output."""
    root, key = split_object(url)
    fetched = with_store(root, parse_options(options, endpoint_url), lambda store: store.get(key))
    sys.stdout.buffer.write(fetched.data)
    sys.stdout.buffer.flush()


@app.command("tail")
def _tail(
    url: ObjectUrl,
    length: Annotated[int, typer.Option("--bytes", "-n", help="How many bytes.", min=1)] = 1024,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Write the last bytes of an object to standard output, in one request."""
    root, key = split_object(url)
    with measure() as cost:
        fetched = with_store(
            root, parse_options(options, endpoint_url), lambda store: store.get_tail(key, length)
        )
    if as_json:
        print_json(
            {
                "key": key,
                "start": fetched.start,
                "size": fetched.size,
                "hex": fetched.data.hex(),
                "cost": cost.as_dict(),
            }
        )
        return
    sys.stdout.buffer.write(fetched.data)
    sys.stdout.buffer.flush()


def _meta(meta: ObjectMeta) -> dict[str, Any]:
    return {
        "key": meta.key,
        "size": meta.size,
        "version": meta.version,
        "modified": _time(meta.modified_ms),
    }


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
