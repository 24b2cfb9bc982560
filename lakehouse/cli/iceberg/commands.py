"""``lakehouse iceberg …``: the commands about Iceberg tables."""

from __future__ import annotations

import typer

from lakehouse.cli.iceberg.plan import plan
from lakehouse.cli.iceberg.publish import publish
from lakehouse.cli.iceberg.relations import describe, files, snapshots

__all__ = ["app"]

_ABOUT = "Look into Iceberg tables, plan scans of them, and publish tables for their readers."

app = typer.Typer(help=_ABOUT, no_args_is_help=True)
app.command("plan")(plan)
app.command("describe")(describe)
app.command("files")(files)
app.command("snapshots")(snapshots)
app.command("publish")(publish)
