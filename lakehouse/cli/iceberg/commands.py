"""``lakehouse iceberg …``: the commands about Iceberg tables."""

from __future__ import annotations

import typer

from lakehouse.cli.iceberg.publish import publish

__all__ = ["app"]

app = typer.Typer(help="Publish tables for readers of Iceberg's format.", no_args_is_help=True)
app.command("publish")(publish)


@app.callback()
def _group() -> None:
    """Publish tables for readers of Iceberg's format."""
