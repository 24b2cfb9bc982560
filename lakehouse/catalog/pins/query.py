"""Query: an id, a lifetime, and one state of every table that is read in it.

Invariant: whatever is read through a query shows the snapshot that its first touch of the table found. A
query that has ended, or whose lifetime is over, reads nothing any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar

import pyarrow as pa

from lakehouse.catalog.graph.references import Reference
from lakehouse.catalog.ids import DEFAULT_ACCOUNT, ResourceId
from lakehouse.catalog.nodes import RelationNode, TableNode
from lakehouse.catalog.pins.choices import Moment, SnapshotChoice, SnapshotPin
from lakehouse.catalog.pins.holds import PinHolds
from lakehouse.catalog.pins.pin_set import PinnedNodes, PinSet, Resolve
from lakehouse.catalog.pins.query_scan import QueryScan
from lakehouse.catalog.pins.sharing import Sharing, shared_pins
from lakehouse.catalog.sources import TableFacts
from lakehouse.catalog.statistics import StatsTarget, TargetStats, target_stats
from lakehouse.clock import Clock
from lakehouse.config import CatalogSettings
from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.iceberg import IcebergPlan, IcebergScan, IcebergTable
from lakehouse.ids import new_token, new_uuid
from lakehouse.storage.scan import RowForms, TableScan
from lakehouse.storage.table import Table

__all__ = ["Query", "QueryGraph", "QueryHome", "SqlValues"]

SqlValues = Sequence[Any] | Mapping[str, Any]
"""Values of a statement's parameters: by place, or by name."""

_T = TypeVar("_T")
_NAME_DIGITS = 8


class QueryGraph(PinnedNodes, Protocol):
    """Part of the graph that queries read through."""

    async def facts_at(self, node: TableNode, snapshot: int, /) -> TableFacts:
        """Returns the schema of a table as it was at a snapshot."""
        ...

    async def opened(self, node: TableNode, /) -> Table | IcebergTable:
        """Opens the table of a node for reads of rows."""
        ...

    def user_objects(self, request: Any, *, query: Query) -> AsyncGenerator[Any, None]:
        """Streams what a planner asks of many relations, pinned in a query."""
        ...


class QueryHome(Protocol):
    """Lake that a query belongs to."""

    @property
    def graph(self) -> QueryGraph:
        """Graph that names and snapshots are resolved by."""
        ...

    @property
    def clock(self) -> Clock:
        """Source of time."""
        ...

    @property
    def settings(self) -> CatalogSettings:
        """Bounds."""
        ...

    @property
    def sharing(self) -> Sharing:
        """Objects of shared queries."""
        ...

    async def admit(self, query: Query) -> None:
        """Counts a query that begins; UnavailableError when there are too many."""
        ...

    def forget(self, query: Query) -> None:
        """Counts a query no more."""
        ...

    async def sql(self, query: Query, text: str, parameters: SqlValues | None, database: str | None) -> Any:
        """Runs a text of SQL that reads what the query pins."""
        ...


class Query:
    """A query, entered by ``async with``. Made by ``lake.query`` and ``lake.join_query``.

    Args:
        home: lake that it belongs to.
        as_of: moment that all tables are read as of, unless another is asked for.
        lifetime_s: seconds that it lives.
        join: id of a shared query whose pins it takes over.
        account: account that reads.

    Example::

        async with lake.query() as query:
            orders = await query.scan("sales.orders", "amount > 10").to_arrow()
            items = await query.scan("sales.items").to_arrow()  # of the same moment, whenever it is read
    """

    def __init__(
        self,
        home: QueryHome,
        *,
        as_of: Moment | None = None,
        lifetime_s: float | None = None,
        join: uuid.UUID | None = None,
        account: str = DEFAULT_ACCOUNT,
    ) -> None:
        self._home, self._clock, self._account = home, home.clock, account
        self._joins = join
        self._id = join or new_uuid()
        self._lifetime_s = self._checked_s(
            home.settings.query_lifetime_s if lifetime_s is None else lifetime_s
        )
        name = f"query-{self._id.hex}-{new_token()[:_NAME_DIGITS]}"
        self._holds = PinHolds(name, self._opened, self._clock)
        self._pins = PinSet(home.graph, as_of=as_of, agree=self._agreed, hold=self._holds.hold)
        self._began: float | None = None
        self._is_ended = self._is_shared = False
        self._tables: dict[ResourceId, Table | IcebergTable] = {}
        self._turns: defaultdict[ResourceId, asyncio.Lock] = defaultdict(asyncio.Lock)

    def __repr__(self) -> str:
        state = (
            "new" if self._began is None else "ended" if self._is_ended else f"{self.remaining_s:.0f} s left"
        )
        return f"<Query {self._id}, {len(self._pins.pins)} pins, {state}>"

    # --- lifetime -----------------------------------------------------------------

    @property
    def id(self) -> str:
        """Id of the query, by which other processes join it when it is shared."""
        return str(self._id)

    @property
    def account(self) -> str:
        """Account that reads."""
        return self._account

    @property
    def remaining_s(self) -> float:
        """Seconds until its lifetime is over; 0 when it has ended."""
        return 0.0 if self._is_ended else max(0.0, self._holds.until - self._clock.steady())

    @property
    def is_over(self) -> bool:
        """Whether it had begun, and its lifetime is over."""
        return self._began is not None and self.remaining_s <= 0

    async def __aenter__(self) -> Self:
        if self._began is not None:
            raise InvalidInputError(f"query {self._id} was entered already: begin another one")
        await self._home.admit(self)
        try:
            lifetime_s = self._lifetime_s
            if self._joins is not None:
                lifetime_s = await self._take_over()
            self._began = self._clock.steady()
            await self._holds.extend(self._began + lifetime_s)
        except BaseException:
            self._home.forget(self)
            raise
        return self

    async def _take_over(self) -> float:
        """Takes over what was shared; returns the seconds that it lives."""
        shared, lifetime_s = await self._home.sharing.read(self._id, self._account)
        pins = shared_pins(shared, self._account)
        self._pins = PinSet(
            self._home.graph, as_of=shared.as_of_ms, pins=pins, agree=self._agreed, hold=self._holds.hold
        )
        return lifetime_s

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the query; the snapshots of a shared one are held for those who joined."""
        self._is_ended = True
        self._home.forget(self)
        self._tables.clear()
        await self._holds.end(keep=self._is_common)

    @property
    def _is_common(self) -> bool:
        """Whether other processes read by the pins of this query."""
        return self._is_shared or self._joins is not None

    async def _agreed(self, node: TableNode, resolve: Resolve) -> SnapshotPin:
        """Returns the pin of a table: of a query that others read by, the one that all of them have."""
        if not self._is_common:
            return await resolve()
        return await self._home.sharing.agree(self._id, self._account, node.id, resolve, self.remaining_s)

    async def renew(self, lifetime_s: float | None = None) -> float:
        """Has the query live on from now; returns the seconds until it ends.

        A query that was joined lives as long as whoever shared it has renewed it to.

        Args:
            lifetime_s: seconds from now; None = as many as it began with.
        """
        began = self._check()
        if self._joins is not None:
            _, left_s = await self._home.sharing.read(self._id, self._account)
            await self._holds.extend(self._clock.steady() + left_s)
            return self.remaining_s
        wanted_s = self._lifetime_s if lifetime_s is None else self._checked_s(lifetime_s)
        until = self._clock.steady() + wanted_s
        if until - began > self._home.settings.query_age_max_s:
            raise InvalidInputError(
                f"query {self._id} would be older than {self._home.settings.query_age_max_s:,.0f} s "
                "(catalog.query_age_max_s): begin another one"
            )
        await self._holds.extend(until)
        if self._is_shared:
            await self._put()
        return self.remaining_s

    async def share(self) -> str:
        """Lets other processes of the account read by the pins of this query; returns the id to join by.

        Puts one object, which :meth:`renew` replaces; it stays behind until its lifetime is over. A table
        that is first touched later has the snapshot that the first process found, which creates one small
        object for it; the others pay one request to read that. :meth:`pin` before sharing saves both.

        Example::

            async with lake.query(lifetime_s=600) as query:
                await query.pin("sales.orders")
                number = await query.share()  # elsewhere: async with lake.join_query(number) as query
        """
        self._check()
        if self._joins is not None:
            raise InvalidInputError(f"query {self._id} was joined, and whoever began it shares it")
        # Before the put: from then on others rely on pins that are held, and touches ask for what is agreed.
        self._is_shared = True
        await self._pins.settled()  # of touches that had not asked
        await self._put()
        return self.id

    async def _put(self) -> None:
        await self._home.sharing.put(
            self._id, self._account, self._pins.as_of_ms, self._pins.pins, self.remaining_s
        )

    def _check(self) -> float:
        """Refuses a query that cannot be read through; returns when it began."""
        if self._began is None:
            raise InvalidInputError(f"query {self._id} has not begun: use it in “async with”", kind="closed")
        if self._is_ended:
            raise InvalidInputError(
                f"query {self._id} has ended: read in its “async with” block, or begin another one",
                kind="query-ended",
                query=self.id,
            )
        if self._clock.steady() >= self._holds.until:
            raise InvalidInputError(
                f"the lifetime of query {self._id} is over: renew it in time (query.renew()), give it a "
                "longer one (lifetime_s=), or begin another one",
                kind="query-ended",
                query=self.id,
            )
        return self._began

    def _checked_s(self, seconds: object) -> float:
        most = self._home.settings.query_age_max_s
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= most:
            raise InvalidInputError(
                f"lifetime_s is a number of seconds above 0, up to {most:,.0f} "
                f"(catalog.query_age_max_s), not {seconds!r}"
            )
        return float(seconds)

    # --- pins ---------------------------------------------------------------------

    @property
    def pins(self) -> tuple[SnapshotPin, ...]:
        """Pins, in the order in which the tables were first touched."""
        return self._pins.pins

    async def relation(self, ref: Reference) -> RelationNode:
        """Returns the node that a name means in this query."""
        return await self._guarded(self._pins.relation(ref))

    async def pin(
        self, ref: Reference, *, snapshot: int | None = None, as_of: Moment | None = None
    ) -> SnapshotPin:
        """Pins a table, and returns its pin; a table that is pinned already keeps its snapshot.

        Raises:
            InvalidInputError: it is pinned to another snapshot than is asked for (kind ``pin-conflict``).
        """
        return await self._guarded(self._pins.pin(ref, snapshot=snapshot, as_of=as_of))

    async def pin_all(
        self, ref: Reference, *, snapshot: int | None = None, as_of: Moment | None = None
    ) -> tuple[SnapshotPin, ...]:
        """Pins the tables that a relation reads, views all those below them, and returns their pins."""
        return await self._guarded(self._pins.pin_all(ref, snapshot=snapshot, as_of=as_of))

    async def tables_of(self, node: RelationNode) -> list[TableNode]:
        """Returns the tables that a relation reads, each once."""
        return await self._guarded(self._pins.tables_of(node))

    async def facts(self, ref: Reference) -> TableFacts | None:
        """Returns the schema of a table at its pin, with all that depends on it; None = its newest one."""
        node, pin = await self._pinned(ref, None, None)
        if pin.snapshot is None or pin.schema_id == node.schema_id:
            return None
        return await self._home.graph.facts_at(node, pin.snapshot)

    async def _guarded(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Awaits work of a query that may be read through before it and after it."""
        try:
            self._check()
        except InvalidInputError:
            work.close()
            raise
        found = await work
        self._check()
        return found

    async def _pinned(
        self, ref: Reference, snapshot: int | None, as_of: Moment | None
    ) -> tuple[TableNode, SnapshotPin]:
        pin = await self.pin(ref, snapshot=snapshot, as_of=as_of)
        node = await self.relation(ref)
        if not isinstance(node, TableNode):
            raise InvalidInputError(f"{node.display} is no table")
        return node, pin

    # --- reading ------------------------------------------------------------------

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
        """The rows of a table that match, at the snapshot of this query; read when they are asked for.

        Args:
            name: full name or id of a table.
            where: SQL text or an expression; None = all rows.
            columns: names, in order; None = all.
            limit: maximum rows to return.
            snapshot: id of the snapshot to pin, if the table is not pinned yet.
            as_of: moment to pin it to.
            runtime_filters: as for ``table.scan``.

        Example::

            rows = await query.scan("sales.orders", "amount > 10", columns=["id"]).to_arrow()
        """
        SnapshotChoice.of(snapshot=snapshot, as_of=as_of)  # refuses what can be nothing before it is read
        arguments = {"columns": columns, "limit": limit, "runtime_filters": runtime_filters}
        return QueryScan(functools.partial(self._scan, name, where, snapshot, as_of, arguments))

    async def _scan(
        self,
        name: Reference,
        where: Expr | str | None,
        snapshot: int | None,
        as_of: Moment | None,
        arguments: Mapping[str, Any],
    ) -> TableScan | IcebergScan:
        table, pin = await self._readable(name, snapshot, as_of)
        if isinstance(table, IcebergTable):
            return table.scan(where, **arguments)
        return table.scan(where, snapshot=pin.snapshot, **arguments)

    async def sql(
        self, text: str, parameters: SqlValues | None = None, *, database: str | None = None
    ) -> Any:
        """Runs statements of SQL over the tables as this query has them; returns the last one's rows.

        A table that no statement named before is pinned, as :meth:`scan` does it.

        Args:
            text: one or more statements, as for ``lake.sql``.
            parameters: values for ``?`` and ``$1`` as a list, for ``$name`` as a dict.
            database: where names without one are looked for.

        Example::

            async with lake.query() as query:
                rows = await query.sql("SELECT count(*) FROM sales.orders WHERE amount > ?", [10])
                print(await rows.to_pylist())
        """
        self._check()
        return await self._home.sql(self, text, parameters, database)

    async def tagged(self, ref: Reference, tag: str) -> int | None:
        """Returns the snapshot that a tag of a table names; of an Iceberg table a branch too.

        Raises:
            NotFoundError: the table has no such tag.
        """
        node = await self.relation(ref)
        if not isinstance(node, TableNode):
            raise InvalidInputError(f"{node.display} is no table, and only tables have tags")
        table = await self._opened(node)
        if isinstance(table, IcebergTable):
            found = table.metadata.snapshot_of_ref(tag)
            return None if found is None else found.id
        return (await table.core.read_view(tag=tag)).snapshot.id

    async def get(
        self, name: Reference, key: Mapping[str, object], *, columns: Sequence[str] | None = None
    ) -> dict[str, Any] | None:
        """The row of a key at the snapshot of this query, as a dict; None when there is none."""
        table, pin = await self._ours(name, "get")
        return await table.get(key, columns=columns, snapshot=pin.snapshot)

    async def get_many(
        self, name: Reference, keys: object, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows of many keys at the snapshot of this query, by key; keys without a row are left out."""
        table, pin = await self._ours(name, "get_many")
        return await table.get_many(keys, columns=columns, snapshot=pin.snapshot)

    async def plan(
        self,
        name: Reference,
        where: Expr | str | None = None,
        *,
        runtime_filters: Sequence[RuntimeFilter] | Literal["off"] = (),
        snapshot: int | None = None,
        as_of: Moment | None = None,
    ) -> IcebergPlan:
        """Plans a scan of an Iceberg table at the snapshot of this query.

        Args:
            name: full name or id of a table of an attached catalog.
            where: a condition, as SQL text or an expression.
            runtime_filters: values that the other side of a join has; files without any are left out.
            snapshot: id of the snapshot to pin, if the table is not pinned yet.
            as_of: moment to pin it to.
        """
        table, _ = await self._readable(name, snapshot, as_of)
        if not isinstance(table, IcebergTable):
            raise InvalidInputError(
                f"{table.name} is a table of the lake, and plans are of Iceberg tables: scan() it, whose "
                "explain() says which files it reads"
            )
        return await table.plan(where, runtime_filters=runtime_filters)

    def user_objects(self, request: Any) -> AsyncGenerator[Any, None]:
        """Streams what a planner asks of many relations, pinned in this query; see
        ``lake.graph.user_objects``.

        Args:
            request: a :class:`lakehouse.catalog.UserObjectsRequest`, or names.

        Example::

            async for chunk in query.user_objects(["sales.orders", "sales.items"]):
                print(chunk.as_dict())
        """
        return self._home.graph.user_objects(request, query=self)

    async def target_stats(
        self,
        requests: Sequence[tuple[Reference, Sequence[StatsTarget]]],
        *,
        budget_s: float | None = None,
        max_bytes: int = 8 * 1024 * 1024,
        stale_ok: bool = True,
    ) -> AsyncGenerator[TargetStats, None]:
        """Statistics for planners, of the snapshots of this query: what matters most first.

        Rows, bytes, nulls and bounds come from metadata that are mostly cached, numbers of distinct values
        from what ``table.analyze`` or an engine of Iceberg has counted. Every target has one answer, which
        says whether it is of the pinned snapshot; a table that cannot be read takes nothing from the others.

        Args:
            requests: tables by name or id, and what is asked of each.
            budget_s: seconds after which the rest is omitted; None = as long as it takes.
            max_bytes: estimated bytes of all answers.
            stale_ok: whether distinct values that were counted in another snapshot are answers.

        Example::

            rows, ids = StatsTarget(kind=StatsKind.ROWS), StatsTarget(kind=StatsKind.NDV, column="id")
            async for one in query.target_stats([("sales.orders", [rows, ids])], budget_s=0.02):
                print(one.outcome, one.count)
        """
        answers = target_stats(
            self,
            requests,
            budget_s=budget_s,
            max_bytes=max_bytes,
            stale_ok=stale_ok,
            clock=self._clock,
        )
        async with contextlib.aclosing(answers) as each:
            async for one in each:
                yield one

    async def pinned_table(self, name: Reference) -> tuple[Table | IcebergTable, SnapshotPin]:
        """Returns a table and its pin; an Iceberg table has the pinned snapshot as its current one."""
        return await self._readable(name, None, None)

    async def _ours(self, name: Reference, call: str) -> tuple[Table, SnapshotPin]:
        table, pin = await self._readable(name, None, None)
        if isinstance(table, IcebergTable):
            raise InvalidInputError(f"{table.name} is an Iceberg table, which has no {call}(): scan() it")
        return table, pin

    async def _readable(
        self, name: Reference, snapshot: int | None, as_of: Moment | None
    ) -> tuple[Table | IcebergTable, SnapshotPin]:
        node, pin = await self._pinned(name, snapshot, as_of)
        await self._holds.promise(node, pin)  # of one that was joined, nobody has yet
        table = await self._opened(node)
        self._check()
        if isinstance(table, IcebergTable):
            return table.pinned(pin.snapshot, pin.schema_id), pin
        return table, pin

    async def _opened(self, node: TableNode) -> Table | IcebergTable:
        """Opens a table once for this query."""
        async with self._turns[node.id]:
            table = self._tables.get(node.id)
            if table is None:
                table = self._tables[node.id] = await self._home.graph.opened(node)
            return table
