"""``lakehouse table compact``: puts sorted runs together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from lakehouse.cli.arguments import (
    Endpoint,
    Json,
    Options,
    TableArgument,
    WarehouseArgument,
    parse_options,
    with_table,
)
from lakehouse.cli.output import error_console, human_bytes, print_json, say
from lakehouse.io.work import Progress

if TYPE_CHECKING:
    from lakehouse.storage.compact import CompactResult
    from lakehouse.storage.table import Table

__all__ = ["compact"]


def compact(
    warehouse: WarehouseArgument,
    table: TableArgument,
    where: Annotated[
        str | None, typer.Option(help="Only these partitions, such as \"day = '2026-01-31'\".")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Leave one run of every bucket.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is to do.")] = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Merge sorted runs, so that reads get faster; no snapshot reads differently."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    terminal = error_console()
    with Bar(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        line = bar.add_task("rows", total=None)

        def tell(progress: Progress) -> None:
            bar.update(line, completed=progress.done, total=progress.total)

        async def work(opened: Table) -> CompactResult:
            return await opened.compact(where, full=full, dry_run=dry_run, progress=tell)

        done = with_table(warehouse, table, parse_options(options, endpoint_url), work)
    if as_json:
        print_json(done.as_dict())
        return
    for line_text in _said(table, done):
        say(line_text)


def _said(table: str, done: CompactResult) -> list[str]:
    """Describes the result in sentences."""
    went_in = f"{_some(done.runs_in, 'run')}, {_some(done.rows_in, 'row')}, {human_bytes(done.bytes_in)}"
    if done.dry_run:
        return [
            f"{table}: {_some(done.units, 'merge unit')} to compact ({went_in})"
            if done.units
            else _nothing(table)
        ]
    said = []
    if done.units:
        files, rows = _some(done.files_out, "file"), _some(done.rows_out, "row")
        came_out = f"{files}, {rows}, {human_bytes(done.bytes_out)}"
        said.append(f"{table} is at snapshot {done.snapshot}: {went_in} became {came_out}")
    elif not done.gave_way:
        said.append(_nothing(table))
    if done.gave_way:
        said.append(f"{_some(done.gave_way, 'merge unit')} left as they were: others changed them meanwhile")
    return said


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _nothing(table: str) -> str:
    return f"{table}: nothing to compact"
