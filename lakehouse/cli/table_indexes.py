"""``lakehouse table rebuild-indexes``: writes the index files that data files lack."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from lakehouse.cli.arguments import Endpoint, Json, Options, TableName, Warehouse, parse_options, with_table
from lakehouse.cli.output import console, error_console, human_bytes, print_json
from lakehouse.storage.index_rebuild import RebuildResult
from lakehouse.storage.maintenance import Progress
from lakehouse.storage.table import Table

__all__ = ["rebuild_indexes"]


def rebuild_indexes(
    warehouse: Warehouse,
    table: TableName,
    where: Annotated[
        str | None, typer.Option(help="Only these partitions, such as \"day = '2026-01-31'\".")
    ] = None,
    every: Annotated[
        bool, typer.Option("--every", help="Also files whose indexes are as they should be.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is to do.")] = False,
    options: Options = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Index the data files that are not indexed as the table says."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    terminal = error_console()
    with Bar(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        line = bar.add_task("files", total=None)

        def tell(progress: Progress) -> None:
            bar.update(line, completed=progress.done, total=progress.total)

        async def work(opened: Table) -> RebuildResult:
            return await opened.rebuild_indexes(where, every=every, dry_run=dry_run, progress=tell)

        done = with_table(warehouse, table, parse_options(options, endpoint_url), work)
    if as_json:
        print_json(done.as_dict())
    else:
        console().print(f"{table}: {_said(done)}", markup=False, soft_wrap=True)


def _said(done: RebuildResult) -> str:
    if not done.changed and not done.passed_over:
        return "every file is indexed as it should be"
    if done.dry_run:
        return f"{done.files} files ({done.rows:,} rows) to index, {done.dropped} index files to drop"
    said = f"{done.files} files ({done.rows:,} rows) indexed, {human_bytes(done.bytes)}"
    more = f", {done.dropped} index files dropped" if done.dropped else ""
    over = f", {done.passed_over} passed over: others took them away" if done.passed_over else ""
    return f"{said}{more}{over}; snapshot {done.snapshot}"
