"""The graph as lakes have it: nodes, and on top of them pins, schemas at snapshots, queries and bundles.

Invariant: an open Iceberg table is handed out for the version that it was opened at, and to queries alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing
from typing import Any

from lakehouse.catalog.bundles.chunks import BundleChunk
from lakehouse.catalog.bundles.requests import RelationRequest, UserObjectsRequest
from lakehouse.catalog.bundles.stream import user_objects
from lakehouse.catalog.graph import MetadataGraph, Reference
from lakehouse.catalog.ids import DEFAULT_ACCOUNT, ResourceId
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.nodes import TableNode
from lakehouse.catalog.pins import Moment, OpenQueries, Queries, Query, SnapshotPin, snapshot_pin
from lakehouse.catalog.sources import SourceSet, TableFacts
from lakehouse.catalog.statistics import Constraint, constraints_of
from lakehouse.iceberg import IcebergTable
from lakehouse.storage.table import Table
from lakehouse.storage.tables import Environment, OpenTable

__all__ = ["PlannerGraph"]

_OPEN_MAX = 256
"""Maximum number of Iceberg tables that are kept open for the next query."""


class PlannerGraph(MetadataGraph):
    """Catalogs, namespaces, tables and views that one account sees, as planners use them; ``lake.graph``.

    Args:
        layers: caches of the lake.
        sources: catalogs of the account.
        env: the lake's.
        account: its name.
        open_queries: those of the lake, of all accounts; None = there are no others.
        more: further arguments of :class:`lakehouse.catalog.graph.MetadataGraph`.
    """

    def __init__(
        self,
        layers: Layers,
        sources: SourceSet,
        env: Environment,
        *,
        account: str = DEFAULT_ACCOUNT,
        open_queries: OpenQueries | None = None,
        **more: Any,
    ) -> None:
        super().__init__(layers, sources, account=account, **more)
        self.queries = Queries(
            self,
            env.store,
            clock=env.clock,
            now_ms=env.time.now_ms,
            settings=env.settings.catalog,
            account=account,
            open_queries=open_queries,
        )
        """Queries of the account."""
        self._chunk_max = env.settings.catalog.bundle_items_max
        self._open: OrderedDict[tuple[ResourceId, str], IcebergTable] = OrderedDict()

    async def snapshot_pin(
        self,
        ref: Reference,
        *,
        snapshot: int | None = None,
        as_of: Moment | None = None,
        as_of_default: Moment | None = None,
    ) -> SnapshotPin:
        """Resolves the snapshot of a table, once: by id, as of a moment, as of a default, or the newest.

        Args:
            ref: name or id of the table.
            snapshot: id; 0 is one.
            as_of: the last snapshot not after it: a datetime, ISO text, or milliseconds.
            as_of_default: moment that counts where neither is given.

        Raises:
            InvalidInputError: the reference is of a view, which has no snapshots of its own.
            NotFoundError: there is no such table, or it has no such snapshot.
        """
        return await snapshot_pin(self, ref, snapshot=snapshot, as_of=as_of, as_of_default=as_of_default)

    async def schema_at(self, ref: Reference, snapshot: int | None = None) -> TableFacts:
        """Returns the schema of a table at a snapshot, with keys and partitions; None = as it is now."""
        node = await self.table(ref)
        if snapshot is not None:
            return await self.facts_at(node, snapshot)
        known, pointer = await self._behind(node)
        return await self._hydration.facts(self.sources.get(known.catalog), pointer)

    async def constraints(self, ref: Reference) -> tuple[Constraint, ...]:
        """Returns what holds for every row of a table, as its newest snapshot has it.

        Example::

            for constraint in await lake.graph.constraints("sales.orders"):
                print(constraint.kind, constraint.columns, constraint.is_enforced)
        """
        return constraints_of(await self.table(ref))

    async def user_objects(
        self,
        request: UserObjectsRequest | Iterable[RelationRequest | str],
        *,
        query: Query | None = None,
    ) -> AsyncGenerator[BundleChunk, None]:
        """Streams what a planner asks of many relations: a header, resolutions by 25, and an end.

        Args:
            request: relations, and who asks; names alone are asked for by nobody in particular.
            query: pins what is resolved; None = a query that ends with the stream, so that rows of what was
                resolved are read elsewhere by the ids of the pins.

        Example::

            async with lake.query() as query:
                async for chunk in lake.graph.user_objects(["sales.orders", "sales.items"], query=query):
                    print(chunk.as_dict())
        """
        asked = request if isinstance(request, UserObjectsRequest) else UserObjectsRequest.of(request)
        async with AsyncExitStack() as stack:
            pinned = query if query is not None else await stack.enter_async_context(self.queries.begin())
            stream = user_objects(pinned, asked, hints=self.engines.hints, chunk_max=self._chunk_max)
            async with aclosing(stream) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def opened(self, node: TableNode, /) -> Table | IcebergTable:
        """Opens the table of a node for reads by a query; no request where it is open."""
        key = (node.id, node.version)
        kept = self._open.get(key)
        if kept is not None:
            self._open.move_to_end(key)
            return kept
        known, pointer = await self._behind(node)
        found = await self.sources.get(known.catalog).open(pointer)
        if isinstance(found, OpenTable):
            return Table(found)
        table: IcebergTable = found
        self._open[key] = table
        while len(self._open) > _OPEN_MAX:
            self._open.popitem(last=False)
        return table

    def detached(self, catalog: str) -> None:
        """Forgets all that is kept of a catalog that was detached."""
        super().detached(catalog)
        self._open.clear()
