"""Limits of loads: how many run at once, how many may wait, and how long one may take.

Each sort of load has a limiter of its own, so that listings and statistics never keep a query waiting. Within
one sort, accounts take turns: whoever has a thousand loads waiting gets every other slot beside somebody who
has one.

Invariants: a slot is given back when its load has ended or was given up, whatever the load does; a load that
holds a slot asks nobody who needs a slot of the same limiter. Loads of one layer may ask another layer, such
as schemas that of tables, so each layer whose loads somebody waits for has a limiter of its own.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from lakehouse.cache import LoadGate
from lakehouse.catalog.ids import DEFAULT_ACCOUNT
from lakehouse.config import CatalogSettings
from lakehouse.errors import UnavailableError

__all__ = ["Limiter", "LoadLimits"]

T = TypeVar("T")

_GRACE_S = 1.0
"""Seconds that a load that was given up may take to notice before it is left to itself."""


class Limiter:
    """Slots for loads of one sort.

    Args:
        sort: names it in messages.
        concurrency: loads under way at once.
        queue_max: loads that may wait.
        deadline_s: seconds that a load may take, its wait included.
    """

    __slots__ = (
        "_free",
        "_loop",
        "_queues",
        "_waiting",
        "concurrency",
        "deadline_s",
        "queue_max",
        "sort",
    )

    def __init__(self, sort: str, *, concurrency: int, queue_max: int, deadline_s: float) -> None:
        self.sort = sort
        self.concurrency, self.queue_max, self.deadline_s = concurrency, queue_max, deadline_s
        self._free = concurrency
        self._waiting = 0
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Who waits, by account; the account whose turn is next comes first."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"Limiter({self.sort!r}, under_way={self.under_way}, waiting={self._waiting})"

    @property
    def under_way(self) -> int:
        """Loads that hold a slot."""
        return self.concurrency - self._free

    @property
    def waiting(self) -> int:
        """Loads that wait for a slot."""
        return self._waiting

    async def run(self, load: Callable[[], Awaitable[T]], *, account: str = DEFAULT_ACCOUNT) -> T:
        """Runs a load when it is its turn; gives it up at the deadline.

        Raises:
            UnavailableError: of kind ``overloaded`` when too many wait, ``timeout`` at the deadline.
        """
        time = asyncio.get_running_loop().time
        due = time() + self.deadline_s
        async with self.slot(account):
            work = asyncio.ensure_future(load())
            try:
                # Waited for, not awaited: a load that does not let itself be cancelled keeps no slot.
                await asyncio.wait((work,), timeout=max(0.0, due - time()))
                if not work.done():
                    raise self._late()
                return work.result()
            except asyncio.CancelledError:
                _forget(work)
                await asyncio.wait((work,), timeout=_GRACE_S)
                raise
            finally:
                _forget(work)

    @asynccontextmanager
    async def slot(self, account: str = DEFAULT_ACCOUNT) -> AsyncGenerator[None]:
        """Holds a slot for a block of work, which has no deadline of its own; the wait for it has."""
        self._come_home()
        if self._free:
            self._free -= 1
        else:
            await self._wait(account)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, account: str) -> None:
        if self._waiting >= self.queue_max:
            raise UnavailableError(
                f"{self._waiting} {self.sort} wait already for {self.concurrency} slots: try again later, or "
                "raise catalog.queue_max",
                kind="overloaded",
                sort=self.sort,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(account, deque()).append(turn)
        self._waiting += 1
        try:
            async with asyncio.timeout(self.deadline_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._leave()  # the slot was given to somebody who has gone meanwhile
            else:
                self._withdraw(account, turn)
            if isinstance(error, TimeoutError):
                raise self._late() from None
            raise

    def _leave(self) -> None:
        """Gives the slot to whoever is next, or back."""
        while self._queues:
            account, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            self._waiting -= 1
            if queue:
                self._queues[account] = queue  # behind the others
            if not turn.done():
                turn.set_result(None)
                return
        self._free = min(self._free + 1, self.concurrency)  # blocks of a loop that is gone count no more

    def _withdraw(self, account: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(account)
        if queue is not None and turn in queue:
            queue.remove(turn)
            self._waiting -= 1
            if not queue:
                del self._queues[account]

    def _come_home(self) -> None:
        """Forgets who held and awaited slots on a loop that is gone."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._free, self._waiting = loop, self.concurrency, 0
            self._queues.clear()

    def _late(self) -> UnavailableError:
        return UnavailableError(
            f"one of the {self.sort} took longer than {self.deadline_s:g} s and was given up: the catalog or "
            "the store hangs, or catalog.load_deadline_s is too short",
            kind="timeout",
            sort=self.sort,
        )


class LoadLimits:
    """A limiter for each sort of load."""

    __slots__ = ("_layers", "_make", "foreground", "listings", "refreshes", "statistics")

    def __init__(self, settings: CatalogSettings | None = None) -> None:
        bounds = settings or CatalogSettings()
        make = partial(Limiter, queue_max=bounds.queue_max, deadline_s=bounds.load_deadline_s)
        self._make = partial(make, concurrency=bounds.load_concurrency)
        self._layers: dict[str, Limiter] = {}
        self.foreground = self._make("loads")
        """Loads that somebody waits for and no layer keeps."""
        self.refreshes = make("refreshes", concurrency=bounds.refresh_concurrency)
        self.statistics = make("loads of statistics", concurrency=bounds.statistics_concurrency)
        self.listings = make("listings", concurrency=bounds.listing_concurrency)

    @property
    def by_sort(self) -> Mapping[str, Limiter]:
        """Every limiter by its name; those of layers by theirs."""
        sorts = ("foreground", "listings", "refreshes", "statistics")
        return {name: getattr(self, name) for name in sorts} | self._layers

    def of_layer(self, name: str) -> Limiter:
        """Returns the limiter of the loads of one layer that somebody waits for."""
        found = self._layers.get(name)
        if found is None:
            found = self._layers[name] = self._make(f"loads of the layer {name}")
        return found

    def gate(self, limiter: Limiter, *, account: str = DEFAULT_ACCOUNT) -> LoadGate:
        """Returns the gate of a cache: loads go through this limiter, those ahead of time through theirs."""

        async def gate(
            fetch: Callable[[], Awaitable[Mapping[Any, Any]]], *, background: bool
        ) -> Mapping[Any, Any]:
            return await (self.refreshes if background else limiter).run(fetch, account=account)

        return gate


def _forget(work: asyncio.Future[Any]) -> None:
    """Cancels work that is under way; nobody will ask what became of it."""
    if not work.done():
        work.cancel()
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
