"""``lakehouse check-store`` and ``lakehouse store ls|stat|cat|tail``."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import anyio
import typer

from lakehouse.cli.output import console, human_bytes, print_json, print_table
from lakehouse.errors import InvalidInputError
from lakehouse.io import ObjectMeta, ObjectStore, measure, open_store
from lakehouse.io.check import StoreReport, check_store

__all__ = ["app", "check_store_command", "parse_options", "print_report"]

R = TypeVar("R")

app = typer.Typer(help="Look into an object store.", no_args_is_help=True)

Url = Annotated[str, typer.Argument(help="s3://bucket/prefix, file:///path, a plain path or memory://name.")]
ObjectUrl = Annotated[str, typer.Argument(help="URL of one object, such as s3://bucket/path/object.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="Storage option for fsspec; may be repeated. AWS_… works too.",
    ),
]
Endpoint = Annotated[str | None, typer.Option("--endpoint-url", help="Endpoint of an S3-compatible store.")]


def parse_options(options: list[str] | None, endpoint: str | None) -> dict[str, Any]:
    """Storage options from ``NAME=VALUE`` words."""
    parsed: dict[str, Any] = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise InvalidInputError(
                "--option takes NAME=VALUE, such as key=minio (the value is not shown here)"
            )
        parsed[name] = {"true": True, "false": False}.get(value.lower(), value)
    if endpoint:
        parsed["endpoint_url"] = endpoint
    return parsed


def _with_store(url: str, options: dict[str, Any], work: Callable[[ObjectStore], Awaitable[R]]) -> R:
    async def run() -> R:
        async with open_store(url, storage_options=options) as store:
            return await work(store)

    return anyio.run(run)


def _split(url: str) -> tuple[str, str]:
    """The store and the key that an object's URL names."""
    root, slash, key = url.rpartition("/")
    if not slash or not key or root.endswith((":", ":/")):
        raise InvalidInputError(f"{url!r} names no object: write store/key, such as s3://bucket/path/object")
    return root, key


def check_store_command(
    url: Url, options: Options = None, endpoint_url: Endpoint = None, as_json: Json = False
) -> None:
    """Try out whether the engine may commit on a store; exit code 0 if so, 3 if not.

    Races real writers under a prefix of its own and removes what it wrote.
    """
    report = _with_store(url, parse_options(options, endpoint_url), check_store)
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
def list_objects(
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

    prefixes, metas = _with_store(url, parse_options(options, endpoint_url), work)
    if as_json:
        print_json({"prefixes": prefixes, "objects": [_meta(meta) for meta in metas]})
        return
    rows = [("", "", prefix) for prefix in prefixes]
    rows += [(human_bytes(meta.size), _time(meta.modified_ms), meta.key) for meta in metas]
    print_table(("size", "modified", "key"), rows, right=("size",))


@app.command("stat")
def stat(
    url: ObjectUrl, options: Options = None, endpoint_url: Endpoint = None, as_json: Json = False
) -> None:
    """Show size, version and time of one object."""
    root, key = _split(url)
    meta = _with_store(root, parse_options(options, endpoint_url), lambda store: store.head(key))
    if as_json:
        print_json(_meta(meta))
    else:
        print_table(("field", "value"), [(name, value) for name, value in _meta(meta).items()])


@app.command("cat")
def cat(url: ObjectUrl, options: Options = None, endpoint_url: Endpoint = None) -> None:
    """Write an object's bytes to standard output."""
    root, key = _split(url)
    fetched = _with_store(root, parse_options(options, endpoint_url), lambda store: store.get(key))
    sys.stdout.buffer.write(fetched.data)
    sys.stdout.buffer.flush()


@app.command("tail")
def tail(
    url: ObjectUrl,
    length: Annotated[int, typer.Option("--bytes", "-n", help="How many bytes.", min=1)] = 1024,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Write the last bytes of an object to standard output, in one request."""
    root, key = _split(url)
    with measure() as cost:
        fetched = _with_store(
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
