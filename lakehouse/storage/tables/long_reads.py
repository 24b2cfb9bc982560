"""Guard of long reads: explains an expired snapshot, and pins the snapshots of slow reads.

Objects of an expired snapshot stay for ``delete_grace_s``. A read that takes longer than half of that pins
its snapshot then, in time before anything can be deleted; a quicker one leaves nothing in the history.

Invariant: no deletion makes a read fail as long as its event loop runs, unless its snapshot had expired
before half of the grace was over. The pin is gone when the read ends, or a day later.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Sequence

import anyio

from lakehouse.errors import AlreadyExistsError, LakehouseError, NotFoundError, UnavailableError
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.log import get_logger
from lakehouse.storage.metadata.expiry_guard import explain_expiry
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.pins import drop_pin, make_pin
from lakehouse.storage.tables.view import View

__all__ = ["PIN_S", "grace_s_of", "holding", "reading", "until_pinned_s"]

_log = get_logger(__name__)

PIN_S = 24 * 3600.0
"""Seconds that the pin of a read holds when its process ends without removing it."""
_SHARE = 0.5
"""Share of the grace after which a read that still runs is pinned."""
_AGAIN_SHARE = 0.1
"""Share of the grace after which pinning is tried again when the store was unavailable."""
_END_S = 30.0
"""Seconds that the end of a read may take to remove its pins."""


def grace_s_of(schema: TableSchema) -> float:
    """Returns the table's option ``delete_grace_s``."""
    return TableOptions.parse(schema.options).delete_grace_s


def until_pinned_s(grace_s: float) -> float:
    """Returns the seconds that a read may take without a pin."""
    return grace_s * _SHARE


def reading(table: OpenTable, *views: View) -> contextlib.AbstractAsyncContextManager[None]:
    """Protects the states that are read while the block runs."""
    grace_s = min(view.options.delete_grace_s for view in views)
    numbers = [view.snapshot.id for view in views]
    segments = [view.first_segment for view in views if view.first_segment is not None]
    return holding(table, *numbers, grace_s=grace_s, segment=min(segments, default=None))


@contextlib.asynccontextmanager
async def holding(
    table: OpenTable,
    *snapshots: int,
    grace_s: float,
    segment: int | None = None,
    age_s: float = 0.0,
    pin: str | None = None,
) -> AsyncGenerator[None, None]:
    """Protects snapshots while the block runs, and reports which has expired when an object is missing.

    Args:
        table: the table.
        snapshots: ids.
        grace_s: the table's option ``delete_grace_s``.
        segment: the first segment of the write-ahead log that is read above the snapshots.
        age_s: seconds since the read began, elsewhere.
        pin: name of the pin when other processes read too: it is made once and ends by itself.
    """
    hold = _Hold(table, snapshots, grace_s, pin)
    hold.pin_after(max(0.0, until_pinned_s(grace_s) - age_s))
    try:
        async with explain_expiry(table.snapshots, *snapshots, segment=segment):
            yield
    finally:
        await hold.end()


class _Hold:
    """Pins snapshots once a read has taken long."""

    def __init__(self, table: OpenTable, snapshots: Sequence[int], grace_s: float, pin: str | None) -> None:
        self._table, self._snapshots, self._grace_s = table, snapshots, grace_s
        self._is_shared = pin is not None
        self._name = pin or f"pin-{uuid.uuid4().hex}"
        self._made = 0
        self._names: list[str] = []
        """Pins that were made, or may have been."""
        self._timer: asyncio.TimerHandle | None = None
        self._pinning: asyncio.Task[None] | None = None

    def pin_after(self, seconds: float) -> None:
        """Begins to pin when so many seconds have passed."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._pinning = asyncio.get_running_loop().create_task(self._pin())

    async def _pin(self) -> None:
        try:
            for snapshot in self._snapshots[self._made :]:
                name = f"{self._name}-{self._made}" if self._made else self._name
                # Noted before the commit, whose outcome may stay unknown.
                self._names.append(name)
                with contextlib.suppress(AlreadyExistsError):  # another task of the same read was first
                    await make_pin(self._table, snapshot, name=name, ttl_s=PIN_S)
                self._made += 1
        except UnavailableError as error:
            _log.warning("a long read is not pinned yet", table=self._table.root, error=error)
            self.pin_after(self._grace_s * _AGAIN_SHARE)
        except NotFoundError:
            _log.info("a long read cannot be pinned: its snapshot has expired", table=self._table.root)
        except LakehouseError as error:
            _log.warning("a long read cannot be pinned", table=self._table.root, error=error)

    async def end(self) -> None:
        """Takes the pins away that are this read's own."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pinning is None:
            return
        # Shielded: a cancelled read removes its pins too.
        with anyio.move_on_after(_END_S, shield=True):
            await asyncio.wait([self._pinning])
            if self._timer is not None:
                self._timer.cancel()
            for name in () if self._is_shared else dict.fromkeys(self._names):
                await drop_pin(self._table, name)
