"""The root of the command line: what every command shares, and how errors look.

Output is for people by default and JSON with ``--json``. Errors are one line on standard
error (an object on standard output with ``--json``); the exit code is 1 for an error of
the engine, 2 for wrong usage. A traceback means a bug.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lakehouse._version import __version__
from lakehouse.cli.default_place import give_default_place
from lakehouse.cli.output import print_error
from lakehouse.errors import LakehouseError

__all__ = ["app_for", "main"]

_COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "table": ("lakehouse.cli.tables.commands", "app", "Look into tables, and make, tag and drop them."),
    "sql": (
        "lakehouse.cli.sql.command",
        "sql",
        "Run SQL: statements (-c), scripts (-f), or a shell when neither is given.",
    ),
    "load": (
        "lakehouse.cli.tables.load",
        "load",
        "Load the rows of a CSV, JSON or Parquet file into a table, all of them or none.",
    ),
    "db": ("lakehouse.cli.database", "app", "List, make and drop databases."),
    "builtins": (
        "lakehouse.cli.catalog.builtins",
        "app",
        "Check files that say which types and functions an engine has.",
    ),
    "catalog": (
        "lakehouse.cli.catalog.commands",
        "app",
        "Look into catalogs: what they hold, and what names stand for.",
    ),
    "cache": (
        "lakehouse.cli.catalog.cache",
        "app",
        "See what tables take in the caches of a process, and what loading them costs.",
    ),
    "view": ("lakehouse.cli.catalog.view", "app", "Make, show and drop views: SQL under a name."),
    "store": ("lakehouse.cli.store", "app", "Look into an object store."),
    "iceberg": (
        "lakehouse.cli.iceberg.commands",
        "app",
        "Look into Iceberg tables, plan scans of them, and publish tables for their readers.",
    ),
    "puffin": ("lakehouse.cli.puffin", "app", "Look into puffin files."),
    "index-metas": (
        "lakehouse.cli.index_metas",
        "index_metas",
        "List the metadata of every index in a bucket or prefix: one request per file.",
    ),
    "manifests": (
        "lakehouse.cli.catalog.manifests",
        "manifests",
        "List the manifests or live files of all tables: one request a manifest.",
    ),
    "check-store": (
        "lakehouse.cli.store",
        "check_store_command",
        "Try out whether the engine may commit on a store; exit code 0 if so, 3 if not.",
    ),
    "doctor": (
        "lakehouse.cli.doctor",
        "doctor",
        "Say whether Python, packages, Java and a store are as they should be; exit code 3 if not.",
    ),
    "demo": (
        "lakehouse.cli.demo.run",
        "demo",
        "Show what lakehouse does, on the best object store that can be had here.",
    ),
    "spark": (
        "lakehouse.cli.spark",
        "spark",
        "Maintenance by Spark: compact, rewrite, rebuild-indexes, remove-orphans, verify, expire.",
    ),
}
"""Commands by name, each with its module, its name there, and its line in the overview.

Only the command that is called is loaded; most of them need Arrow, which takes a second.
"""
_ELSEWHERE: Mapping[str, Mapping[str, Any]] = {
    "spark": {
        "add_help_option": False,
        "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    }
}
"""Commands whose words are parsed by another program."""


class _Pipeable(TyperGroup):
    """Commands whose reader may go away, as that of ``| head`` does: they end quietly, with success."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command and writes out what it printed."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # What is left in the buffer would fail once more when the interpreter ends.
            sys.stdout = io.StringIO()
            raise typer.Exit(0) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lakehouse {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options that stand before the command."""


def _stand_in() -> None:
    """Stands in for a command that is not called, and so not loaded."""


def app_for(words: Sequence[str]) -> typer.Typer:
    """Makes the command line; only the command that these words call is loaded."""
    app = typer.Typer(
        name="lakehouse",
        cls=_Pipeable,
        help="An async, object-storage-first lakehouse engine: nothing but a bucket.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    called = next((word for word in words if not word.startswith("-")), None)
    for name, (module, attribute, text) in _COMMANDS.items():
        if name != called:
            app.command(name, help=text)(_stand_in)
            continue
        command = getattr(importlib.import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, **_ELSEWHERE.get(name, {}))(command)
    give_default_place(app)
    return app


def _words() -> list[str]:
    """Returns the words of the command line; where a shell asks for completions, those typed so far."""
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS")
    return sys.argv[1:] if "_LAKEHOUSE_COMPLETE" not in os.environ or not typed else typed.split()[1:]


def main() -> None:
    """Runs the command line; the entry point of ``lakehouse``."""
    # Commands say on their own what went wrong; the same as a log line would be noise.
    logging.getLogger("lakehouse").addHandler(logging.NullHandler())
    try:
        app_for(_words())()
    except LakehouseError as error:
        print_error(error.kind, error.message, as_json="--json" in sys.argv)
        sys.exit(1)
