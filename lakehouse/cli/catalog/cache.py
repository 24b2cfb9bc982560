"""``lakehouse cache stats|prewarm|refresh|clear``: what tables take in memory, and what loading them costs.

Caches belong to a process, and a command is one of its own: it warms its own caches, shows what comes of it,
and takes nothing from other processes. Those have ``lake.cache``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.frame import Outcome, on_lake
from lakehouse.cli.output import human_bytes, print_table, say
from lakehouse.io import measure

if TYPE_CHECKING:
    from lakehouse.catalog.control import PrewarmReport
    from lakehouse.lake import Lake

__all__ = ["app"]

app = typer.Typer(
    help="See what tables take in the caches of a process, and what loading them costs. Caches belong to a "
    "process: these commands warm, refresh and clear their own, and reach no running service (lake.cache is "
    "for use inside one).",
    no_args_is_help=True,
)

_Tables = Annotated[
    list[str] | None,
    typer.Argument(help="Full names; none = all tables of the warehouse.", metavar="[TABLE…]"),
]
_SOME_FAILED = 3
"""Exit code when a table cannot be loaded."""
_SHOWN = (
    "entry",
    "account",
    "enabled",
    "ttl_s",
    "entries",
    "bytes",
    "hits",
    "misses",
    "loads",
    "load_failures",
)


@app.command("stats")
@on_lake
async def _stats(lake: Lake, tables: _Tables = None) -> Outcome:
    """Load the metadata of tables, and show what each cache holds of them: to choose cache.max_bytes by."""
    report = await lake.cache.prewarm(await _named(lake, tables))
    rows = lake.cache.stats().to_pylist()
    return Outcome(partial(_print_stats, rows, report), [_plain(row) for row in rows], _code(report))


@app.command("prewarm")
@on_lake
async def _prewarm(lake: Lake, tables: _Tables = None) -> Outcome:
    """Load the metadata of tables and say what it took; exit code 3 when one cannot be loaded."""
    with measure() as cost:
        report = await lake.cache.prewarm(await _named(lake, tables))
    document = _cost(lake, report, cost.requests)
    return Outcome(partial(_print_prewarm, document), document, _code(report))


@app.command("refresh")
@on_lake
async def _refresh(
    lake: Lake,
    target: Annotated[str, typer.Argument(help="Catalog, namespace or table to refresh.", metavar="TARGET")],
    tables: _Tables = None,
    deep: Annotated[bool, typer.Option("--deep", help="Drop snapshots, schemas and manifests too.")] = False,
) -> Outcome:
    """Load tables, refresh a target, load them again: shows what a refresh drops and what it costs."""
    names = await _named(lake, tables)
    with measure() as cold:
        await lake.cache.prewarm(names)
    dropped = await lake.cache.refresh(target, deep=deep)
    with measure() as again:
        report = await lake.cache.prewarm(names)
    document = {
        "target": target, "deep": deep, "dropped": dropped, "requests_cold": cold.requests,
        **_cost(lake, report, again.requests),
    }  # fmt: skip
    text = (
        f"A refresh of {target} drops {dropped:,} entries; loading {report.warmed:,} tables takes "
        f"{again.requests:,} requests after it, and {cold.requests:,} from nothing."
    )
    return Outcome(text, document, _code(report))


@app.command("clear")
@on_lake
async def _clear(
    lake: Lake,
    tables: _Tables = None,
    entry: Annotated[str | None, typer.Option(help="Only this cache, such as table-manifests.")] = None,
) -> Outcome:
    """Load tables and clear a cache, or all: shows how much memory that gives back."""
    report = await lake.cache.prewarm(await _named(lake, tables))
    before = lake.caches.weight
    dropped = await lake.cache.clear(entry)
    freed = before - lake.caches.weight
    text = f"{dropped:,} entries of {report.warmed:,} tables were dropped, {human_bytes(freed)}."
    return Outcome(text, {"dropped": dropped, "bytes": freed}, _code(report))


async def _named(lake: Lake, tables: Sequence[str] | None) -> list[str]:
    if tables:
        return list(tables)
    return [name for database in await lake.databases() async for name in lake.tables(database)]


def _cost(lake: Lake, report: PrewarmReport, requests: int) -> dict[str, Any]:
    errors = {name: error.message for name, error in report.errors.items()}
    return {"tables": report.warmed, "requests": requests, "bytes": lake.caches.weight, "errors": errors}


def _code(report: PrewarmReport) -> int:
    return _SOME_FAILED if report.errors else 0


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}


def _print_stats(rows: Sequence[dict[str, Any]], report: PrewarmReport) -> None:
    shown = [
        [
            human_bytes(row[name]) if name == "bytes" else "" if row[name] is None else row[name]
            for name in _SHOWN
        ]
        for row in rows
    ]
    print_table(_SHOWN, shown, right=_SHOWN[3:], whole=("entry",))
    held = sum(row["bytes"] for row in rows)
    say(f"{report.warmed:,} tables take {human_bytes(held)} of {human_bytes(_budget(rows))}.")
    _print_errors({name: error.message for name, error in report.errors.items()})


def _budget(rows: Sequence[dict[str, Any]]) -> int:
    return max((row["max_bytes"] for row in rows), default=0)


def _print_prewarm(document: dict[str, Any]) -> None:
    say(
        f"{document['tables']:,} tables are loaded for {document['requests']:,} requests and take "
        f"{human_bytes(document['bytes'])}."
    )
    _print_errors(document["errors"])


def _print_errors(errors: dict[str, str]) -> None:
    for name, error in errors.items():
        say(f"{name}: {error}", style="red")
