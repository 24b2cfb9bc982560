"""Queries of a lake: begun, joined, counted, and ended with it.

Invariant: no more are open than the setting allows, and none outlives the lake.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from lakehouse.catalog.ids import DEFAULT_ACCOUNT
from lakehouse.catalog.pins.choices import Moment
from lakehouse.catalog.pins.query import Query, QueryGraph, SqlValues
from lakehouse.catalog.pins.sharing import Sharing
from lakehouse.clock import Clock
from lakehouse.config import CatalogSettings
from lakehouse.errors import InvalidInputError, UnavailableError
from lakehouse.io import ObjectStore

__all__ = ["OpenQueries", "Queries", "RunsSql"]


RunsSql = Callable[[Query, str, SqlValues | None, str | None], Awaitable[Any]]
"""Runs a text with its parameters in a query, looking in a database for names without one."""


class OpenQueries:
    """Queries that are open in a lake.

    Args:
        most: number of queries that may be open at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Query, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __bool__(self) -> bool:
        return True

    async def admit(self, query: Query) -> None:
        """Counts a query that begins; those whose lifetime is over make room.

        Raises:
            UnavailableError: too many are open.
        """
        if len(self._open) >= self._most:
            for one in [one for one in self._open if one.is_over]:
                await one.aclose()
        if len(self._open) >= self._most:
            raise UnavailableError(
                f"{len(self._open):,} queries are open, and no more are allowed (catalog.queries_max): end "
                "some, by leaving their “async with” blocks"
            )
        self._open[query] = None

    def forget(self, query: Query) -> None:
        """Counts a query no more."""
        self._open.pop(query, None)

    async def aclose(self) -> None:
        """Ends all queries."""
        for query in list(self._open):
            await query.aclose()


class Queries:
    """Queries of one account of a lake.

    Args:
        graph: resolves names and snapshots.
        store: its root is the warehouse.
        clock: source of time.
        now_ms: the store's clock.
        settings: bounds.
        account: account that reads.
        open_queries: those of the lake, of all accounts; None = there are no others.
    """

    def __init__(
        self,
        graph: QueryGraph,
        store: ObjectStore,
        *,
        clock: Clock,
        now_ms: Callable[[], int],
        settings: CatalogSettings,
        account: str = DEFAULT_ACCOUNT,
        open_queries: OpenQueries | None = None,
    ) -> None:
        self.graph, self.clock, self.settings = graph, clock, settings
        self.sharing = Sharing(store, now_ms)
        self._account = account
        self.open = OpenQueries(settings.queries_max) if open_queries is None else open_queries
        """Open queries of the lake, whoever reads by them."""
        self.runs_sql: RunsSql | None = None
        """Engine of the lake's SQL; None = there is none."""

    def begin(self, *, as_of: Moment | None = None, lifetime_s: float | None = None) -> Query:
        """Returns a query that begins when it is entered."""
        return Query(self, as_of=as_of, lifetime_s=lifetime_s, account=self._account)

    def join(self, number: str) -> Query:
        """Returns a query that takes over what another process has shared, when it is entered."""
        try:
            parsed = uuid.UUID(number)
        except (ValueError, AttributeError, TypeError):
            raise InvalidInputError(
                f"a query is joined by the id that share() returned, not {number!r}"
            ) from None
        return Query(self, join=parsed, account=self._account)

    async def admit(self, query: Query) -> None:
        """Counts a query that begins; UnavailableError when too many are open."""
        await self.open.admit(query)

    def forget(self, query: Query) -> None:
        """Counts a query no more."""
        self.open.forget(query)

    async def sql(self, query: Query, text: str, parameters: SqlValues | None, database: str | None) -> Any:
        """Runs a text of SQL that reads what a query pins."""
        if self.runs_sql is None:
            raise InvalidInputError("these queries belong to no lake, so that there is no SQL: lake.query()")
        return await self.runs_sql(query, text, parameters, database)
