"""The root of the command line: what every command shares, and how errors look.

Output is for people by default and JSON with ``--json``. Errors are one line on standard
error (an object on standard output with ``--json``); the exit code is 1 for an error of
the engine, 2 for wrong usage. A traceback means a bug.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Annotated

import typer

from lakehouse._version import __version__
from lakehouse.cli import database, demo, index_metas, puffin, store, table
from lakehouse.cli.output import error_console
from lakehouse.errors import LakehouseError

__all__ = ["app", "main"]

app = typer.Typer(
    name="lakehouse",
    help="An async, object-storage-first lakehouse engine: nothing but a bucket.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(table.app, name="table")
app.add_typer(database.app, name="db")
app.add_typer(store.app, name="store")
app.add_typer(puffin.app, name="puffin")
app.command("index-metas")(index_metas.index_metas)
app.command("check-store")(store.check_store_command)
app.command("demo")(demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lakehouse {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options that stand before the command."""


def main() -> None:
    """Runs the command line; the entry point of ``lakehouse``."""
    # Commands say on their own what went wrong; the same as a log line would be noise.
    logging.getLogger("lakehouse").addHandler(logging.NullHandler())
    try:
        app()
    except LakehouseError as error:
        if "--json" in sys.argv:
            typer.echo(json.dumps({"error": error.kind, "message": error.message}))
        else:
            error_console().print(
                f"[bold red]error:[/] {_plain(error.message)}", highlight=False, soft_wrap=True
            )
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error worth words.
        sys.stderr.close()
        sys.exit(0)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
