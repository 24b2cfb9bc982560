"""A graph without a cache: every call opens the table and looks at it, so what a query keeps is its own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable
from typing import Any

from lakehouse.catalog.bundles import user_objects
from lakehouse.catalog.ids import DEFAULT_ACCOUNT, NodeKind, ResourceId
from lakehouse.catalog.nodes import RelationNode, TableNode
from lakehouse.catalog.pins import Queries, Query
from lakehouse.catalog.sources import SnapshotFacts, TableFacts
from lakehouse.config import CatalogSettings
from lakehouse.errors import NotFoundError
from lakehouse.iceberg import IcebergTable
from lakehouse.lake import Lake
from lakehouse.storage.table import Table

__all__ = ["OpenNodes", "queries_of"]

_CATALOG = ResourceId.named(DEFAULT_ACCOUNT, NodeKind.CATALOG, "")


class OpenNodes:
    """Tables of a lake; implements what queries need of the graph."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._names: dict[ResourceId, str] = {}
        self.opened_names: list[str] = []
        """Names of tables that were opened for queries."""

    async def relation(self, ref: str | tuple[str, ...] | ResourceId, /) -> RelationNode:
        """Opens a table, and says what it is now."""
        if isinstance(ref, ResourceId):
            if ref not in self._names:
                raise NotFoundError(f"no table {ref}")
            ref = self._names[ref]
        name = ref if isinstance(ref, str) else ".".join(ref)
        table = await self._lake.table(name)
        node = (
            self._iceberg(name, table) if isinstance(table, IcebergTable) else await self._ours(name, table)
        )
        self._names[node.id] = name
        return node

    async def _ours(self, name: str, table: Table) -> TableNode:
        view = await table.core.newest()
        return _node(
            name,
            table.uuid,
            version=f"{view.snapshot.id}-{view.snapshot.token}",
            format="lakehouse",
            schema_id=view.schema.id,
            current_snapshot=view.snapshot.id,
        )

    def _iceberg(self, name: str, table: IcebergTable) -> TableNode:
        metadata = table.metadata
        return _node(
            name,
            uuid.UUID(str(metadata.uuid)),
            version=metadata.path,
            format="iceberg",
            schema_id=metadata.current_schema_id,
            current_snapshot=metadata.current_snapshot_id,
        )

    async def snapshot(
        self, node: TableNode, /, *, number: int | None = None, as_of_ms: int | None = None
    ) -> SnapshotFacts:
        """Reads a snapshot of the table."""
        table = await self._lake.table(node.display)
        if isinstance(table, IcebergTable):
            metadata = table.metadata
            found = metadata.snapshot_at(as_of_ms or 0) if number is None else metadata.snapshot_by_id(number)
            schema_id = metadata.current_schema_id if found.schema_id is None else found.schema_id
            return _facts(found.id, found.timestamp_ms, schema_id)
        view = await table.core.view(snapshot=number, timestamp=as_of_ms)
        return _facts(view.snapshot.id, view.snapshot.time_ms, view.schema.id)

    async def facts_at(self, node: TableNode, snapshot: int, /) -> TableFacts:
        """Reads the schema of our table at a snapshot."""
        schema = (await (await self._lake.table(node.display)).core.view(snapshot=snapshot)).schema
        ids = {field.name: field.id for field in schema.fields}
        return TableFacts(format="lakehouse", schema_id=schema.id, schema_json="{}", field_ids=ids)

    def user_objects(self, request: Any, *, query: Query) -> AsyncGenerator[Any, None]:
        """Streams a bundle."""
        return user_objects(query, request)

    def opened(self, node: TableNode, /) -> Awaitable[Table | IcebergTable]:
        """Opens the table."""
        self.opened_names.append(node.display)
        return self._lake.table(node.display)


def _node(name: str, number: uuid.UUID, **facts: object) -> TableNode:
    path = tuple(name.split("."))
    return TableNode(
        id=ResourceId(DEFAULT_ACCOUNT, NodeKind.TABLE, number),
        catalog=_CATALOG,
        namespace=ResourceId.named(DEFAULT_ACCOUNT, NodeKind.NAMESPACE, *path[:-1]),
        path=path,
        display=name,
        location="",
        schema_json="{}",
        field_ids={},
        **facts,  # type: ignore[arg-type]
    )


def _facts(number: int, time_ms: int, schema_id: int) -> SnapshotFacts:
    return SnapshotFacts(id=number, parent=None, time_ms=time_ms, schema_id=schema_id, operation="append")


def queries_of(
    lake: Lake, settings: CatalogSettings | None = None, account: str = DEFAULT_ACCOUNT
) -> Queries:
    """Returns queries over the tables of a lake."""
    env = lake._state.env
    return Queries(
        OpenNodes(lake),
        lake.store,
        clock=env.clock,
        now_ms=env.time.now_ms,
        settings=settings or CatalogSettings(),
        account=account,
    )
