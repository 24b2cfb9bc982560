"""``lakehouse table compact``: puts sorted runs together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import Partitions, PlanOnly
from lakehouse.cli.frame import Outcome, on_table
from lakehouse.cli.output import human_bytes

if TYPE_CHECKING:
    from lakehouse.io.work import ProgressCallback
    from lakehouse.storage.compact import CompactResult
    from lakehouse.storage.table import Table

__all__ = ["compact"]


@on_table
async def compact(
    table: Table,
    where: Partitions = None,
    full: Annotated[bool, typer.Option("--full", help="Leave one run of every bucket.")] = False,
    dry_run: PlanOnly = False,
    *,
    tell: ProgressCallback,
) -> Outcome:
    """Merge sorted runs, so that reads get faster; no snapshot reads differently."""
    done = await table.compact(where, full=full, dry_run=dry_run, progress=tell)
    return Outcome("\n".join(_said(table.name, done)), done.as_dict())


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
