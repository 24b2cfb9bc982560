"""``lakehouse iceberg publish``: a table of ours as an Iceberg table over the same files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import PlanOnly
from lakehouse.cli.frame import Outcome, on_table

if TYPE_CHECKING:
    from lakehouse.storage.table import Table

__all__ = ["publish"]


@on_table
async def publish(
    table: Table,
    format_version: Annotated[
        int | None,
        typer.Option(help="Version of the format, 2 or 3; else the table's option.", min=2, max=3),
    ] = None,
    dry_run: PlanOnly = False,
) -> Outcome:
    """Publish a table for readers of Iceberg's format, over the same files."""
    report = await table.publish_iceberg(format_version=format_version, dry_run=dry_run)
    opened = f"\nopen {report.metadata}" if report.metadata else ""
    return Outcome(f"{table.name}: {report}{opened}", report.as_dict())
