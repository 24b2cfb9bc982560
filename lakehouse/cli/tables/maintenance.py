"""``lakehouse table expire|orphans|verify|…``: what keeps a table small and sound.

Invariant: what deletes or rewrites asks first (``asking.py``); ``verify`` and ``repair`` end with exit code
4 when there is damage or loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import DryRun, Grace, moment
from lakehouse.cli.asking import asks
from lakehouse.cli.frame import Outcome, on_lake, on_table, told

if TYPE_CHECKING:
    from lakehouse.io.work import ProgressCallback
    from lakehouse.lake import Lake
    from lakehouse.storage.table import Table

__all__ = ["expire", "expire_partitions", "orphans", "purge", "repair", "rescale", "verify"]

_DAMAGED = 4


@asks("Let snapshots of {table} expire?".format_map)
@on_table
async def expire(
    table: Table,
    retain: Annotated[int | None, typer.Option(help="So many of the newest snapshots stay.", min=1)] = None,
    older_than: Annotated[
        str | None,
        typer.Option(help="Snapshots from then on stay: '2026-01-31 12:00' (UTC), or milliseconds."),
    ] = None,
    grace: Grace = None,
    dry_run: DryRun = False,
    *,
    tell: ProgressCallback,
) -> Outcome:
    """Let old snapshots expire, and delete objects of those that expired long enough ago."""
    return told(
        await table.expire_snapshots(
            retain=retain, older_than=moment(older_than), grace_s=grace, dry_run=dry_run, progress=tell
        )
    )


@asks("Delete orphans of {table}?".format_map)
@on_table
async def orphans(
    table: Table,
    older_than: Annotated[
        str | None,
        typer.Option(help="Uploads before then; else those older than the table's orphan.min_age_s."),
    ] = None,
    dry_run: DryRun = False,
    *,
    tell: ProgressCallback,
) -> Outcome:
    """Delete objects that were uploaded for commits which never came."""
    return told(await table.remove_orphans(older_than=moment(older_than), dry_run=dry_run, progress=tell))


@asks("Delete rows of {table} from before {older_than}?".format_map)
@on_table
async def expire_partitions(
    table: Table,
    older_than: Annotated[str, typer.Argument(help="The first moment that stays, such as 2026-01-31.")],
    column: Annotated[str | None, typer.Option(help="The partition column that tells.")] = None,
    dry_run: DryRun = False,
) -> Outcome:
    """Delete the rows of partitions before a moment, in one commit."""
    return told(await table.expire_partitions(older_than, column=column, dry_run=dry_run))


@on_table
async def verify(
    table: Table,
    deep: Annotated[bool, typer.Option("--deep", help="Read every data file too.")] = False,
    snapshot: Annotated[int | None, typer.Option(help="Only this snapshot; else all.")] = None,
    *,
    tell: ProgressCallback,
) -> Outcome:
    """Look for damage: missing objects, wrong checksums, counts, keys; exit code 4 when there is some."""
    report = await table.verify(deep=deep, snapshot=snapshot, progress=tell)
    return told(report, 0 if report.ok else _DAMAGED)


@asks("Repair {table}? What cannot be read is left out.".format_map)
@on_table
async def repair(
    table: Table,
    shallow: Annotated[
        bool, typer.Option("--shallow", help="Only look which files are there, do not read them.")
    ] = False,
    dry_run: DryRun = False,
    *,
    tell: ProgressCallback,
) -> Outcome:
    """Make a new snapshot of what can be read, and name what cannot; exit code 4 when something is lost."""
    report = await table.repair(deep=not shallow, dry_run=dry_run, progress=tell)
    return told(report, 0 if report.ok else _DAMAGED)


@asks("Rewrite {table} with {buckets} buckets?".format_map)
@on_table
async def rescale(
    table: Table,
    buckets: Annotated[int, typer.Argument(help="How many there are to be.", min=1)],
    dry_run: DryRun = False,
    *,
    tell: ProgressCallback,
) -> Outcome:
    """Give a table another number of buckets; every file is read and written once."""
    return told(await table.rescale(buckets, dry_run=dry_run, progress=tell))


@asks(lambda given: f"Delete objects of dropped tables in {given['database'] or 'all databases'}?")
@on_lake
async def purge(
    lake: Lake,
    database: Annotated[str | None, typer.Argument(help="Only tables of this database.")] = None,
    grace: Grace = None,
    dry_run: DryRun = False,
    *,
    tell: ProgressCallback,
) -> Outcome:
    """Delete the objects of tables that were dropped long enough ago."""
    return told(await lake.purge_dropped(database, grace_s=grace, dry_run=dry_run, progress=tell))
