"""``lakehouse table expire|orphans|verify|…``: what keeps a table small and sound.

Invariant: what deletes or rewrites asks first (``asking.py``); ``verify`` and ``repair`` end with exit code
4 when there is damage or loss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from lakehouse.cli.arguments import (
    Endpoint,
    Json,
    Options,
    TableArgument,
    WarehouseArgument,
    moment,
    parse_options,
    with_lake,
    with_table,
)
from lakehouse.cli.asking import asks
from lakehouse.cli.output import print_json, say
from lakehouse.cli.progress import progress_bar

if TYPE_CHECKING:
    from lakehouse.io.cost import Cost
    from lakehouse.io.work import ProgressCallback
    from lakehouse.lake import Lake
    from lakehouse.storage.table import Table

__all__ = ["expire", "expire_partitions", "orphans", "purge", "repair", "rescale", "verify"]

_DAMAGED = 4

_DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, say what would be done now.")]
_Grace = Annotated[
    float | None,
    typer.Option(
        "--grace",
        help="Seconds instead of the table's delete_grace_s; less is for tables nobody uses meanwhile.",
        min=0,
    ),
]


class _Report(Protocol):
    @property
    def cost(self) -> Cost: ...


R = TypeVar("R", bound=_Report)


@asks("Let snapshots of {table} expire?".format_map)
def expire(
    warehouse: WarehouseArgument,
    table: TableArgument,
    retain: Annotated[int | None, typer.Option(help="So many of the newest snapshots stay.", min=1)] = None,
    older_than: Annotated[
        str | None,
        typer.Option(help="Snapshots from then on stay: '2026-01-31 12:00' (UTC), or milliseconds."),
    ] = None,
    grace: _Grace = None,
    dry_run: _DryRun = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Let old snapshots expire, and delete objects of those that expired long enough ago."""
    _on_table(
        warehouse,
        table,
        parse_options(options, endpoint_url),
        lambda opened, tell: opened.expire_snapshots(
            retain=retain, older_than=moment(older_than), grace_s=grace, dry_run=dry_run, progress=tell
        ),
        as_json,
    )


@asks("Delete orphans of {table}?".format_map)
def orphans(
    warehouse: WarehouseArgument,
    table: TableArgument,
    older_than: Annotated[
        str | None,
        typer.Option(help="Uploads before then; else those older than the table's orphan.min_age_s."),
    ] = None,
    dry_run: _DryRun = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Delete objects that were uploaded for commits which never came."""
    _on_table(
        warehouse,
        table,
        parse_options(options, endpoint_url),
        lambda opened, tell: opened.remove_orphans(
            older_than=moment(older_than), dry_run=dry_run, progress=tell
        ),
        as_json,
    )


@asks("Delete rows of {table} from before {older_than}?".format_map)
def expire_partitions(
    warehouse: WarehouseArgument,
    table: TableArgument,
    older_than: Annotated[str, typer.Argument(help="The first moment that stays, such as 2026-01-31.")],
    column: Annotated[str | None, typer.Option(help="The partition column that tells.")] = None,
    dry_run: _DryRun = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Delete the rows of partitions before a moment, in one commit."""
    _on_table(
        warehouse,
        table,
        parse_options(options, endpoint_url),
        lambda opened, _: opened.expire_partitions(older_than, column=column, dry_run=dry_run),
        as_json,
    )


def verify(
    warehouse: WarehouseArgument,
    table: TableArgument,
    deep: Annotated[bool, typer.Option("--deep", help="Read every data file too.")] = False,
    snapshot: Annotated[int | None, typer.Option(help="Only this snapshot; else all.")] = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Look for damage: missing objects, wrong checksums, counts, keys; exit code 4 when there is some."""
    report = _on_table(
        warehouse,
        table,
        parse_options(options, endpoint_url),
        lambda opened, tell: opened.verify(deep=deep, snapshot=snapshot, progress=tell),
        as_json,
    )
    if not report.ok:
        raise typer.Exit(_DAMAGED)


@asks("Repair {table}? What cannot be read is left out.".format_map)
def repair(
    warehouse: WarehouseArgument,
    table: TableArgument,
    shallow: Annotated[
        bool, typer.Option("--shallow", help="Only look which files are there, do not read them.")
    ] = False,
    dry_run: _DryRun = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Make a new snapshot of what can be read, and name what cannot; exit code 4 when something is lost."""
    report = _on_table(
        warehouse,
        table,
        parse_options(options, endpoint_url),
        lambda opened, tell: opened.repair(deep=not shallow, dry_run=dry_run, progress=tell),
        as_json,
    )
    if not report.ok:
        raise typer.Exit(_DAMAGED)


@asks("Rewrite {table} with {buckets} buckets?".format_map)
def rescale(
    warehouse: WarehouseArgument,
    table: TableArgument,
    buckets: Annotated[int, typer.Argument(help="How many there are to be.", min=1)],
    dry_run: _DryRun = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Give a table another number of buckets; every file is read and written once."""
    _on_table(
        warehouse,
        table,
        parse_options(options, endpoint_url),
        lambda opened, tell: opened.rescale(buckets, dry_run=dry_run, progress=tell),
        as_json,
    )


@asks(lambda given: f"Delete objects of dropped tables in {given['database'] or 'all databases'}?")
def purge(
    warehouse: WarehouseArgument,
    database: Annotated[str | None, typer.Argument(help="Only tables of this database.")] = None,
    grace: _Grace = None,
    dry_run: _DryRun = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Delete the objects of tables that were dropped long enough ago."""
    with progress_bar() as tell:

        async def work(lake: Lake) -> Any:
            return await lake.purge_dropped(database, grace_s=grace, dry_run=dry_run, progress=tell)

        report = with_lake(warehouse, parse_options(options, endpoint_url), work)
    _say(report, as_json)


def _on_table(
    warehouse: str,
    name: str,
    options: dict[str, Any],
    work: Callable[[Table, ProgressCallback], Awaitable[R]],
    as_json: bool,
) -> R:
    """Does the work with a progress bar on a terminal, and says what came of it."""
    with progress_bar() as tell:
        report = with_table(warehouse, name, options, lambda opened: work(opened, tell))
    _say(report, as_json)
    return report


def _say(report: _Report, as_json: bool) -> None:
    if not as_json:
        say(str(report))
        return
    members = {
        field.name: _plain(getattr(report, field.name))
        for field in dataclasses.fields(report)  # type: ignore[arg-type]
        if field.name != "cost"
    }
    print_json({**members, **report.cost.as_dict()})


def _plain(value: object) -> object:
    """Returns the value as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
