"""Stream of statistics for planners: what matters most first, until time or bytes are over.

Invariant: every target has one answer, in the order of priority and then of the request; nothing is answered
from another snapshot than the pinned one without saying so. A table that cannot be read has no answers, and
takes nothing from the others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lakehouse.catalog.graph.references import Reference
from lakehouse.catalog.statistics.iceberg_tables import iceberg_facts_of
from lakehouse.catalog.statistics.own_tables import own_facts
from lakehouse.catalog.statistics.values import (
    COUNTS,
    ColumnFacts,
    StatsKind,
    StatsOutcome,
    StatsTarget,
    TableStats,
    TargetStats,
)
from lakehouse.clock import Clock
from lakehouse.errors import InvalidInputError, LakehouseError
from lakehouse.iceberg import IcebergTable
from lakehouse.storage.table import Table

__all__ = ["PinnedTables", "target_stats"]

_Request: TypeAlias = tuple[Reference, Sequence[StatsTarget]]
"""A table, and what is asked of it."""


class _Pin(Protocol):
    @property
    def snapshot(self) -> int | None:
        """Id of the pinned snapshot; None = the table had none."""
        ...


class PinnedTables(Protocol):
    """Query that pins tables."""

    async def pinned_table(self, name: Reference, /) -> tuple[Table | IcebergTable, _Pin]:
        """Returns a table and its pin; an Iceberg table has the pinned snapshot as its current one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A target, and the table that it is asked of."""

    place: int
    """Number of the request."""
    name: Reference
    target: StatsTarget


async def target_stats(
    query: PinnedTables,
    requests: Sequence[_Request],
    *,
    budget_s: float | None = None,
    max_bytes: int = 8 * 1024 * 1024,
    stale_ok: bool = True,
    at_once: int = 16,
    clock: Clock | None = None,
) -> AsyncGenerator[TargetStats, None]:
    """Yields an answer to every target, as soon as it is known.

    Tables are read at once, each once, whatever is asked of it. When the time is over, what is not known yet
    is omitted, and nothing more is read.

    Args:
        query: query whose pins say which snapshots are asked.
        requests: tables by name or id, with targets.
        budget_s: seconds; None = as long as it takes.
        max_bytes: estimated bytes of all answers.
        stale_ok: whether distinct values of another snapshot are answers.
        at_once: maximum number of tables that are read at once.
        clock: measures the time; None = the event loop's.

    Raises:
        InvalidInputError: a target names no column where it needs one, or one where it must not.
    """
    asked = _in_order(requests)
    now = asyncio.get_running_loop().time if clock is None else clock.steady
    ends = None if budget_s is None else now() + budget_s
    turn = asyncio.Semaphore(at_once)
    loads = {
        place: asyncio.ensure_future(_facts(query, name, targets, turn))
        for place, (name, targets) in enumerate(requests)
    }
    left = max_bytes
    try:
        for one in asked:
            load = loads[one.place]
            if not load.done():
                await asyncio.wait([load], timeout=None if ends is None else max(0.0, ends - now()))
            if load.done():
                answer = _answer(one, load.result(), stale_ok=stale_ok)
            else:
                answer = _omitted(one, "the time was over")
            if answer.weight > left:
                answer = _omitted(one, "the bytes were over")
            left -= answer.weight if answer.outcome is not StatsOutcome.OMITTED else 0
            yield answer
    finally:
        for load in loads.values():
            load.cancel()
        for load in loads.values():
            with contextlib.suppress(asyncio.CancelledError):
                await load


def _in_order(requests: Sequence[_Request]) -> list[_Asked]:
    """Returns the targets by priority; those of one priority in the order of the request."""
    asked = [
        _Asked(place=place, name=name, target=target)
        for place, (name, targets) in enumerate(requests)
        for target in targets
    ]
    for one in asked:
        if (one.target.column is None) != (one.target.kind in COUNTS):
            what = "is of the whole table" if one.target.kind in COUNTS else "needs a column"
            raise InvalidInputError(f"{one.name}: the target {one.target.kind.value} {what}")
    return sorted(asked, key=lambda one: -one.target.priority)


_Loaded: TypeAlias = "tuple[_Pin, TableStats] | LakehouseError"


async def _facts(
    query: PinnedTables, name: Reference, targets: Sequence[StatsTarget], turn: asyncio.Semaphore
) -> _Loaded:
    columns = list(dict.fromkeys(target.column for target in targets if target.column is not None))
    async with turn:
        try:
            table, pin = await query.pinned_table(name)
            if isinstance(table, IcebergTable):
                return pin, await iceberg_facts_of(table, columns)
            if pin.snapshot is None:
                return pin, TableStats(snapshot=None, rows=0, rows_are_exact=True, bytes=0, columns={})
            return pin, await own_facts(table.core, pin.snapshot, columns)
        except LakehouseError as error:
            # Its own answers say so; those of other tables are not its victims.
            return error


def _omitted(one: _Asked, why: str) -> TargetStats:
    return TargetStats(table=str(one.name), target=one.target, outcome=StatsOutcome.OMITTED, problem=why)


def _answer(one: _Asked, loaded: _Loaded, *, stale_ok: bool) -> TargetStats:
    if isinstance(loaded, LakehouseError):
        return TargetStats(
            table=str(one.name), target=one.target, outcome=StatsOutcome.MISSING, problem=loaded.message
        )
    pin, stats = loaded
    kind, column = one.target.kind, None
    if one.target.column is not None:
        column = stats.columns.get(one.target.column, ColumnFacts())
    found = _fact(kind, stats, column)
    if found is None or (found.outcome is StatsOutcome.STALE and not stale_ok):
        return TargetStats(
            table=str(one.name), target=one.target, outcome=StatsOutcome.MISSING, snapshot=pin.snapshot
        )
    return TargetStats(
        table=str(one.name),
        target=one.target,
        outcome=found.outcome,
        snapshot=pin.snapshot,
        of_snapshot=found.of_snapshot if found.outcome is StatsOutcome.STALE else pin.snapshot,
        count=found.count,
        low=found.low,
        high=found.high,
        is_exact=found.is_exact,
        is_sampled=found.is_sampled,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """Fact that was found for one target."""

    outcome: StatsOutcome = StatsOutcome.HIT
    of_snapshot: int | None = None
    count: int | None = None
    low: object = None
    high: object = None
    is_exact: bool = True
    is_sampled: bool = False


def _fact(kind: StatsKind, stats: TableStats, column: ColumnFacts | None) -> _Fact | None:
    """Returns what is known; None = nothing."""
    if column is None:
        count = stats.rows if kind is StatsKind.ROWS else stats.bytes
        exact = stats.rows_are_exact or kind is StatsKind.BYTES
        return None if count is None else _Fact(count=count, is_exact=exact)
    if kind is StatsKind.NULLS:
        return None if column.nulls is None else _Fact(count=column.nulls, is_exact=column.is_exact)
    if kind is StatsKind.BOUNDS:
        if not column.has_bounds:
            return None
        return _Fact(low=column.low, high=column.high, is_exact=column.is_exact)
    if column.ndv is None:
        return None
    return _Fact(
        outcome=StatsOutcome.HIT if column.ndv_is_current else StatsOutcome.STALE,
        of_snapshot=column.ndv_snapshot,
        count=column.ndv,
        is_exact=column.is_counted,
        is_sampled=column.is_sampled,
    )
