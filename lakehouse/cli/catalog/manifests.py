"""``lakehouse manifests``: manifests, or live files, of all tables of a warehouse and its catalogs."""

from __future__ import annotations

import functools
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.escapes import json_text
from lakehouse.cli.frame import Outcome, on_lake
from lakehouse.cli.output import complain, error_console, print_table

if TYPE_CHECKING:
    from lakehouse.catalog import InventoryScan
    from lakehouse.lake import Lake

__all__ = ["manifests"]

_ROWS_MAX = 1000
"""Rows of a table on the screen."""
_INCOMPLETE = 4
"""Exit code when something could not be read."""
_SHOWN = {
    False: ["table", "content", "files", "rows", "file_bytes", "bytes", "path"],
    True: ["table", "content", "file_format", "rows", "bytes", "path"],
}


@on_lake
async def manifests(
    lake: Lake,
    name: Annotated[
        str | None,
        typer.Argument(help="Only this database, table, catalog or namespace.", metavar="NAME"),
    ] = None,
    files: Annotated[bool, typer.Option("--files", help="List live files in place of manifests.")] = False,
    concurrency: Annotated[int, typer.Option(help="Manifests read at once.", min=1)] = 32,
    stats: Annotated[bool, typer.Option("--stats", help="Say at the end what it cost.")] = False,
    *,
    as_json: bool,
) -> Outcome:
    """List the manifests of all tables, with what is live by each: one request a manifest.

    Exit code 4 says that some could not be read; standard error names them.
    """
    listed = lake.data_files if files else lake.manifests
    scan = listed(name, concurrency=concurrency)
    rows: list[dict[str, Any]] = []
    count = 0
    async with aclosing(scan.batches()) as batches:
        async for batch in batches:
            count += batch.num_rows
            if as_json:
                for row in batch.to_pylist():
                    typer.echo(json_text(row))
            else:
                rows += batch.slice(0, _ROWS_MAX - len(rows)).to_pylist()
    tell = functools.partial(_tell, scan, stats=stats)
    failed = scan.stats.failed_tables or scan.stats.failed_manifests
    code = _INCOMPLETE if failed else 0
    return Outcome(functools.partial(_print, rows, count, _SHOWN[files], tell), tell, code)


def _print(rows: list[dict[str, Any]], count: int, columns: list[str], tell: functools.partial[None]) -> None:
    """Prints a table for people, and what could not be read."""
    print_table(
        columns,
        [[row[name] for name in columns] for row in rows],
        right=("files", "rows", "file_bytes", "bytes"),
        whole=("table",),
    )
    if count > len(rows):
        complain(f"… and {count - len(rows):,} more rows; --json has all of them")
    tell()


def _tell(scan: InventoryScan, *, stats: bool) -> None:
    """Names what could not be read, and says what it cost."""
    for problem in scan.problems:
        about = "" if (problem.path or problem.table) in problem.message else f"{problem.table}: "
        complain(f"{about}{problem.message}")
    if stats:
        error_console().print_json(json.dumps(scan.stats.as_dict()))
