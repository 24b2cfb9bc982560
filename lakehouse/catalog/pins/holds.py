"""Holds: commits that keep the snapshots of long queries, where the grace of deletions does not.

Objects of an expired snapshot stay for ``delete_grace_s``. What a query pinned is readable for half of that:
the table, as this process has it open, is told to read on. A query that lives longer commits one pin for each
table, before anybody relies on it.

Invariant: when a hold was ended, no pin that it made is left, or it ends by itself a day later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.nodes import TableNode
from lakehouse.catalog.pins.choices import SnapshotPin
from lakehouse.clock import Clock
from lakehouse.errors import AlreadyExistsError
from lakehouse.iceberg import IcebergTable
from lakehouse.storage.table import Table
from lakehouse.storage.tables import PIN_S, OpenTable, drop_pin, make_pin, until_pinned_s

__all__ = ["PinHolds"]

_FREE_S = until_pinned_s(1800.0)
"""Seconds that any table's grace covers: half of the least one that a table may have."""
_END_S = 30.0
"""Seconds that the end of a query may take to remove its pins."""


@dataclass(slots=True, eq=False)
class _Touch:
    """A pin, when it was taken, and the commit that holds it."""

    node: TableNode
    pin: SnapshotPin
    at: float
    commit: asyncio.Task[None] | None = None


class PinHolds:
    """Holds of one query.

    Args:
        name: name of the pins that are made in tables; no other query, and no other process, has it.
        opened: opens a table of the query.
        clock: for tests.
    """

    def __init__(
        self, name: str, opened: Callable[[TableNode], Awaitable[Table | IcebergTable]], clock: Clock
    ) -> None:
        self._name, self._opened, self._clock = name, opened, clock
        self._touched: dict[ResourceId, _Touch] = {}
        self._made: list[OpenTable] = []
        """Tables in which a pin was made, or may have been."""
        self._promises: dict[ResourceId, tuple[OpenTable, int]] = {}
        self._until = 0.0
        self._is_ended = False

    @property
    def until(self) -> float:
        """Moment up to which snapshots are held, by the steady clock."""
        return self._until

    async def hold(self, node: TableNode, pin: SnapshotPin) -> None:
        """Holds the snapshot of a table from now on."""
        touch = self._touched[pin.table] = _Touch(node, pin, self._clock.steady())
        try:
            await self.promise(node, pin)
            await self._cover(touch)
        except BaseException:
            if touch.commit is None:
                self._touched.pop(pin.table, None)
            raise

    async def promise(self, node: TableNode, pin: SnapshotPin) -> None:
        """Has the table read on at the pin after an expiry, until the query ends; once for each table."""
        if pin.snapshot is None or node.format != "lakehouse" or node.id in self._promises:
            return
        table = await self._opened(node)
        if isinstance(table, Table) and node.id not in self._promises and not self._is_ended:
            self._promises[node.id] = (table.core, pin.snapshot)
            table.core.promise(pin.snapshot)

    async def extend(self, until: float) -> None:
        """Holds all snapshots up to a moment; what a later touch holds is held up to it too."""
        before, self._until = self._until, max(until, self._until)
        try:
            async with asyncio.TaskGroup() as tasks:
                for touch in list(self._touched.values()):
                    tasks.create_task(self._cover(touch))
        except BaseExceptionGroup as failed:
            self._until = before
            raise failed.exceptions[0] from None

    async def _cover(self, touch: _Touch) -> None:
        """Commits a pin if the query may outlive the grace."""
        life_s = self._until - touch.at
        number = touch.pin.snapshot
        if life_s <= _FREE_S or number is None or touch.node.format != "lakehouse":
            return
        commit = touch.commit or await self._begun(touch, number, life_s)
        if commit is not None:
            await self._committed(touch, commit)

    async def _begun(self, touch: _Touch, number: int, life_s: float) -> asyncio.Task[None] | None:
        """Begins the commit of a pin, unless the grace suffices or the query has ended meanwhile."""
        table = await self._opened(touch.node)
        if not isinstance(table, Table):
            return None
        grace_s = (await table.core.read_view(snapshot=number)).options.delete_grace_s
        if touch.commit is None and life_s > until_pinned_s(grace_s) and not self._is_ended:
            # Noted before the commit, whose outcome may stay unknown.
            self._made.append(table.core)
            touch.commit = asyncio.ensure_future(self._make(table.core, number))
        return touch.commit

    async def _committed(self, touch: _Touch, commit: asyncio.Task[None]) -> None:
        try:
            # Goes on when the caller is cancelled: others may wait for it, and the end has to know of it.
            await asyncio.shield(commit)
        except Exception:
            if touch.commit is commit:
                touch.commit = None
            raise

    async def _make(self, table: OpenTable, snapshot: int) -> None:
        with contextlib.suppress(AlreadyExistsError):  # made by a try whose outcome was unknown
            await make_pin(table, snapshot, name=self._name, ttl_s=PIN_S)

    async def end(self, *, keep: bool = False) -> None:
        """Waits for commits that are under way, and takes the pins away unless others still need them."""
        self._is_ended = True
        for table, number in self._promises.values():
            table.release(number)
        self._promises.clear()
        commits = [one.commit for one in self._touched.values() if one.commit is not None]
        self._touched.clear()
        # Shielded: a cancelled query removes its pins too.
        with anyio.move_on_after(_END_S, shield=True):
            if commits:
                await asyncio.wait(commits)
            for table in () if keep else dict.fromkeys(self._made):
                await drop_pin(table, self._name)
