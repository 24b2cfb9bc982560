"""Scan of an Iceberg table: planned once, and its rows given out in any form.

Invariant: one :class:`IcebergScan` reads one plan, made when it first reads anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from lakehouse.expr import Expr
from lakehouse.iceberg.planning import IcebergPlan
from lakehouse.iceberg.reading import Reading, task_scan
from lakehouse.iceberg.types import IcebergSchema
from lakehouse.storage.scan import RowForms, Scan, check_wanted

__all__ = ["IcebergScan"]


class IcebergScan(RowForms):
    """The rows of an Iceberg table that match a condition, as of one snapshot, deleted ones left out.

    Nothing is read before rows are asked for. Made by ``IcebergTable.scan``.

    Args:
        plan: plans the files.
        reading: what files of rows of a schema are read with.
        where: the condition.
        columns: names, in order; None = all.
        limit: maximum rows to return; None = all.
    """

    def __init__(
        self,
        plan: Callable[[], Awaitable[IcebergPlan]],
        reading: Callable[[IcebergSchema], Reading],
        *,
        where: Expr | None,
        columns: Sequence[str] | None,
        limit: int | None,
    ) -> None:
        super().__init__()
        check_wanted(columns, limit)
        self._make_plan, self._read_with = plan, reading
        self._where, self._limit = where, limit
        self._columns = None if columns is None else tuple(columns)
        self._planned: IcebergPlan | None = None

    async def plan(self) -> IcebergPlan:
        """The plan of the scan: the files that it reads."""
        if self._planned is None:
            self._planned = await self._make_plan()
        return self._planned

    @asynccontextmanager
    async def _reading(self, columns: Sequence[str] | None = None) -> AsyncGenerator[Scan, None]:
        is_planned = self._planned is not None
        plan = await self.plan()
        tasks = plan.tasks()
        scan = task_scan(
            tasks,
            self._read_with(plan.schema),
            columns=self._columns if columns is None else columns,
            # Where all rows of all files match, nobody need ask them.
            where=self._where if any(task.residual is not None for task in tasks) else None,
            limit=self._limit,
        )
        self.report = scan.report
        self.report.files += plan.files_pruned
        self.report.files_pruned = {**self.report.files_pruned, "plan": plan.files_pruned}
        if not is_planned:
            self.report.cost += plan.cost
        yield scan
