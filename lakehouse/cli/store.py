"""``lakehouse check-store`` and ``lakehouse store ls|stat|cat|tail``."""

from __future__ import annotations

import contextlib
import datetime as dt
from functools import partial
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from lakehouse.cli.arguments import Json, Options, Url, parse_options
from lakehouse.cli.frame import Outcome, finish, on_object, on_store
from lakehouse.cli.output import human_bytes, print_table, say, write_bytes
from lakehouse.cli.progress import progress_bar
from lakehouse.errors import InvalidInputError
from lakehouse.io import ObjectMeta, ObjectStore, load_settings, measure, open_store
from lakehouse.io.proofs import StoreReport, check_store
from lakehouse.io.work import ProgressCallback

__all__ = ["app", "check_store_command", "print_report"]

app = typer.Typer(help="Look into an object store.", no_args_is_help=True)


def check_store_command(
    url: Url,
    options: Options = None,
    endpoint_urls: Annotated[
        list[str] | None,
        typer.Option(
            "--endpoint-url",
            help="Endpoint of an S3-compatible store; may be repeated: writers are spread over all of them, "
            "so that gateways to the same storage meet.",
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds of each race; else io.check_rounds.", min=1)
    ] = None,
    writers: Annotated[
        int | None,
        typer.Option(
            help="Writers in each round, each with its own connections; else io.check_writers.", min=2
        ),
    ] = None,
    large_bytes: Annotated[
        int | None,
        typer.Option(help="Bytes of the large bodies, 0 leaves them out; else io.check_large_bytes.", min=0),
    ] = None,
    as_json: Json = False,
) -> None:
    """Try out whether the engine may commit on a store; exit code 0 if so, 3 if not.

    Races real writers under a prefix of its own and removes what it wrote. A store that fails once in
    a hundred rounds is found by more rounds: --rounds 1000.
    """
    settings = load_settings()
    count = writers or settings.io.check_writers
    endpoints: list[str | None] = [*endpoint_urls] if endpoint_urls else [None]
    if len(endpoints) > count:
        raise InvalidInputError(
            f"{len(endpoints)} endpoints need as many writers: --writers {len(endpoints)}"
        )
    ways = [parse_options(options, endpoints[number % len(endpoints)]) for number in range(count)]

    async def work(tell: ProgressCallback) -> StoreReport:
        async with contextlib.AsyncExitStack() as stack:
            stores = [
                await stack.enter_async_context(open_store(url, storage_options=way, settings=settings))
                for way in ways
            ]
            return await check_store(
                stores[0],
                others=stores[1:],
                rounds=rounds,
                writers=count,
                large_bytes=large_bytes,
                progress=tell,
            )

    with progress_bar() as tell:
        report = anyio.run(work, tell)
    outcome = Outcome(partial(print_report, report), report.as_dict(), 0 if report.may_commit else 3)
    finish(outcome, as_json=as_json)


def print_report(report: StoreReport) -> None:
    """Prints the table of what a store does right, and the verdict."""
    marks = {True: Text("yes", style="green"), False: Text("no", style="red")}
    rows = [
        (
            result.name,
            marks[result.holds] if result.required or result.holds else Text("no", style="yellow"),
            "required" if result.required else "optional",
            result.detail,
            f"{result.seconds * 1000:.0f}",
        )
        for result in report.results
    ]
    print_table(
        ("property", "holds", "need", "what was seen", "ms"),
        rows,
        title=f"{report.url} through {report.backend}",
        right=("ms",),
        whole=("property",),
    )
    if report.may_commit:
        say(f"The store passed {report.rounds} rounds: the engine may commit on it.", style="green")
    else:
        say("The engine must not commit on this store; it can be read.", style="red")


@app.command("ls")
@on_store()
async def _ls(
    store: ObjectStore,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Go into every prefix.")] = False,
    limit: Annotated[int, typer.Option(help="Print at most this many.", min=1)] = 1000,
) -> Outcome:
    """List objects under a URL."""
    prefixes: list[str] = []
    metas: list[ObjectMeta] = []
    page: str | None = None
    if recursive:
        metas = [meta async for meta in store.list(limit=limit)]
    while not recursive and len(prefixes) + len(metas) < limit:
        listed = await store.list_page(delimiter="/", page=page)
        prefixes += listed.prefixes
        metas += listed.objects
        page = listed.next_page
        if page is None:
            break
    prefixes, metas = prefixes[:limit], metas[:limit]
    rows = [("", "", prefix) for prefix in prefixes]
    rows += [(human_bytes(meta.size), _time(meta.modified_ms), meta.key) for meta in metas]
    return Outcome(
        lambda: print_table(("size", "modified", "key"), rows, right=("size",), whole=("modified", "key")),
        {"prefixes": prefixes, "objects": [_meta(meta) for meta in metas]},
    )


@app.command("stat")
@on_object()
async def _stat(store: ObjectStore, key: str) -> Outcome:
    """Show size, version and time of one object."""
    about = _meta(await store.head(key))
    return Outcome(lambda: print_table(("field", "value"), about.items()), about)


@app.command("cat")
@on_object(json=False)
async def _cat(store: ObjectStore, key: str) -> Outcome:
    """Write an object's bytes to standard output."""
    return Outcome(partial(write_bytes, (await store.get(key)).data))


@app.command("tail")
@on_object()
async def _tail(
    store: ObjectStore,
    key: str,
    length: Annotated[int, typer.Option("--bytes", "-n", help="How many bytes.", min=1)] = 1024,
) -> Outcome:
    """Write the last bytes of an object to standard output, in one request."""
    with measure() as cost:
        fetched = await store.get_tail(key, length)
    document = {"key": key, "start": fetched.start, "size": fetched.size, "hex": fetched.data.hex()}
    return Outcome(partial(write_bytes, fetched.data), {**document, "cost": cost.as_dict()})


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
