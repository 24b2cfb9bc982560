"""``lakehouse sql``: statements of a text, of scripts, or of a person at a terminal."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import Endpoint, Options, parse_options, split_file, with_lake
from lakehouse.cli.sql.forms import Form, saved, shown
from lakehouse.cli.sql.scripts import statements_of
from lakehouse.cli.sql.shell import Shell
from lakehouse.errors import InvalidInputError
from lakehouse.io import open_store

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.sql.session import SqlSession

__all__ = ["sql"]

_NOWHERE = "memory://lakehouse-sql"
"""Warehouse of statements that need none."""
_INTERRUPTED = 130
"""Exit code of what was ended by Ctrl-C, as shells have it."""


def sql(
    warehouse: Annotated[
        str | None,
        typer.Argument(help="URL of a warehouse, or a path with a slash; else LAKEHOUSE_WAREHOUSE."),
    ] = None,
    commands: Annotated[
        list[str] | None, typer.Option("--command", "-c", help="Statements to run; may be repeated.")
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", help="Script to run, - is standard input; may be repeated."),
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="How rows are written.")] = Form.TABLE,
    output: Annotated[
        str | None, typer.Option("--output", help="Path or URL to write the last rows to.")
    ] = None,
    database: Annotated[
        str | None, typer.Option("--database", "-d", help="Where names without a database are looked for.")
    ] = None,
    options: Options = None,
    endpoint_url: Endpoint = None,
) -> None:
    """Run SQL: statements (-c), scripts (-f), or a shell when neither is given."""
    if form is Form.PARQUET and output is None:
        raise InvalidInputError("--format parquet needs --output: a path or URL to write to")
    parsed = parse_options(options, endpoint_url)
    is_shell = not commands and not files and sys.stdin.isatty()

    async def work(lake: Lake) -> None:
        async with lake.sql_session(database) as session:
            if is_shell:
                await Shell(lake, session, form=form).run()
                return
            texts = [*(commands or ())]
            scripts = files or ([] if texts else ["-"])
            texts += [await _script(one, parsed) for one in scripts]
            most = lake.settings.sql.text_max_bytes
            await _run(session, texts, form, output, parsed, most=most)

    try:
        with_lake(warehouse or _NOWHERE, parsed, work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(_INTERRUPTED) from None


async def _script(file: str, options: dict[str, Any]) -> str:
    if file == "-":
        return sys.stdin.read()
    root, key = split_file(file)
    async with open_store(root, storage_options=options if "://" in file else {}) as store:
        data = (await store.get(key)).data
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{file}: this is no UTF-8", file=file) from error


async def _run(
    session: SqlSession,
    texts: list[str],
    form: Form,
    output: str | None,
    options: dict[str, Any],
    *,
    most: int,
) -> None:
    """Runs statements one after another, and writes the rows of each as they come."""
    statements = [one for text in texts for one in await statements_of(text, most)]
    for number, statement in enumerate(statements, 1):
        async with await session.sql(statement) as result:
            if output is not None and number == len(statements):
                await saved(result, form, output, options if "://" in output else {})
            elif output is None:
                await shown(result, form)
