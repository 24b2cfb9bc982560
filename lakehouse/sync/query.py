"""Query without await: the twin of :mod:`lakehouse.catalog.pins`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from lakehouse.catalog import (
    BundleChunk,
    RelationRequest,
    SnapshotPin,
    StatsTarget,
    TargetStats,
    UserObjectsRequest,
)
from lakehouse.catalog import Query as AsyncQuery
from lakehouse.catalog.graph import Reference
from lakehouse.catalog.pins import Moment, SqlValues
from lakehouse.expr import Expr
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.iceberg import IcebergPlan
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.row_forms import RowForms
from lakehouse.sync.sql import SqlResult

__all__ = ["Query"]


class Query:
    """A query, entered by ``with``. Made by ``lake.query`` and ``lake.join_query``.

    Example::

        with lake.query() as query:
            orders = query.scan("sales.orders", "amount > 10").to_arrow()
            items = query.scan("sales.items").to_arrow()  # of the same moment, whenever it is read
    """

    def __init__(self, wrapped: AsyncQuery, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __enter__(self) -> Self:
        self._bridge.call(self._wrapped.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bridge.call(self._wrapped.__aexit__, kind, error, trace)

    def close(self) -> None:
        """Ends the query; the snapshots of a shared one are held for those who joined."""
        self._bridge.call(self._wrapped.aclose)

    @property
    def id(self) -> str:
        """Id of the query, by which other processes join it when it is shared."""
        return self._wrapped.id

    @property
    def remaining_s(self) -> float:
        """Seconds until its lifetime is over; 0 when it has ended."""
        return self._wrapped.remaining_s

    @property
    def pins(self) -> tuple[SnapshotPin, ...]:
        """Pins, in the order in which the tables were first touched."""
        return self._wrapped.pins

    def renew(self, lifetime_s: float | None = None) -> float:
        """Has the query live on from now; returns the seconds until it ends."""
        return self._bridge.call(self._wrapped.renew, lifetime_s)

    def share(self) -> str:
        """Lets other processes of the account read what is pinned so far; returns the id to join by."""
        return self._bridge.call(self._wrapped.share)

    def pin(self, ref: Reference, *, snapshot: int | None = None, as_of: Moment | None = None) -> SnapshotPin:
        """Pins a table, and returns its pin; a table that is pinned already keeps its snapshot."""
        return self._bridge.call(self._wrapped.pin, ref, snapshot=snapshot, as_of=as_of)

    def pin_all(
        self, ref: Reference, *, snapshot: int | None = None, as_of: Moment | None = None
    ) -> tuple[SnapshotPin, ...]:
        """Pins the tables that a relation reads, views all those below them, and returns their pins."""
        return self._bridge.call(self._wrapped.pin_all, ref, snapshot=snapshot, as_of=as_of)

    def scan(
        self,
        name: Reference,
        where: Expr | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        snapshot: int | None = None,
        as_of: Moment | None = None,
        runtime_filters: Sequence[RuntimeFilter] = (),
    ) -> RowForms:
        """The rows of a table that match, at the snapshot of this query; read when they are asked for."""
        found = self._wrapped.scan(
            name,
            where,
            columns=columns,
            limit=limit,
            snapshot=snapshot,
            as_of=as_of,
            runtime_filters=runtime_filters,
        )
        return RowForms(found, self._bridge)

    def sql(
        self, text: str, parameters: SqlValues | None = None, *, database: str | None = None
    ) -> SqlResult:
        """Runs statements of SQL over the tables as this query has them; returns the last one's rows."""
        found = self._bridge.call(self._wrapped.sql, text, parameters, database=database)
        return SqlResult(found, self._bridge)

    def get(
        self, name: Reference, key: Mapping[str, object], *, columns: Sequence[str] | None = None
    ) -> dict[str, Any] | None:
        """The row of a key at the snapshot of this query, as a dict; None when there is none."""
        return self._bridge.call(self._wrapped.get, name, key, columns=columns)

    def get_many(self, name: Reference, keys: object, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of many keys at the snapshot of this query, by key; keys without a row are left out."""
        return self._bridge.call(self._wrapped.get_many, name, keys, columns=columns)

    def plan(
        self,
        name: Reference,
        where: Expr | str | None = None,
        *,
        runtime_filters: Sequence[RuntimeFilter] | Literal["off"] = (),
        snapshot: int | None = None,
        as_of: Moment | None = None,
    ) -> IcebergPlan:
        """Plans a scan of an Iceberg table at the snapshot of this query."""
        return self._bridge.call(
            self._wrapped.plan, name, where, runtime_filters=runtime_filters, snapshot=snapshot, as_of=as_of
        )

    def target_stats(
        self,
        requests: Sequence[tuple[Reference, Sequence[StatsTarget]]],
        *,
        budget_s: float | None = None,
        max_bytes: int = 8 * 1024 * 1024,
        stale_ok: bool = True,
    ) -> Generator[TargetStats, None, None]:
        """Streams statistics for planners, of the snapshots of this query: what matters most first."""
        return self._bridge.iterate(
            self._wrapped.target_stats, requests, budget_s=budget_s, max_bytes=max_bytes, stale_ok=stale_ok
        )

    def user_objects(
        self, request: UserObjectsRequest | Iterable[RelationRequest | str]
    ) -> Generator[BundleChunk, None, None]:
        """Streams what a planner asks of many relations, pinned in this query: header, resolutions, end."""
        return self._bridge.iterate(self._wrapped.user_objects, request)
