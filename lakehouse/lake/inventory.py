"""Inventory of a lake: the manifests and the live files of all tables, its own and those of its catalogs."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal, NoReturn

from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.inventory import InventoryScan, InventoryShape, ListedTable
from lakehouse.errors import LakehouseError
from lakehouse.iceberg import IcebergTable
from lakehouse.lake.state import LakeState
from lakehouse.storage.metadata import TableName
from lakehouse.storage.table import Table
from lakehouse.storage.tables import OpenTable

__all__ = ["LakeInventory"]

_CATALOG_PARTS = 3
"""Least number of parts in the name of a catalog's table: catalog, namespace, table."""


class LakeInventory:
    """Base of ``Lake`` with its methods for manifests and files of all tables."""

    _state: LakeState

    def manifests(
        self,
        name: str | None = None,
        *,
        concurrency: int | None = None,
        errors: Literal["collect", "raise"] = "collect",
    ) -> InventoryScan:
        """Streams a row for each manifest of the tables' newest snapshots: one request each, none if cached.

        The files that a row counts are those that are live by the manifest itself. Tables of ours have
        manifests only when they have many files: fewer stand in the snapshot.

        Args:
            name: only this database or table, catalog, or namespace or table of a catalog; None = all.
            concurrency: manifests read at once, and tables opened; None = the setting
                ``iceberg.manifest_concurrency``.
            errors: ``raise`` ends with the first problem; ``collect`` continues and reports problems.

        Example::

            scan = lake.manifests(concurrency=64)
            async for batch in scan:
                print(batch.num_rows)
            print(scan.stats, scan.problems)
        """
        return self._inventory(InventoryShape.MANIFESTS, name, concurrency, errors)

    def data_files(
        self,
        name: str | None = None,
        *,
        concurrency: int | None = None,
        errors: Literal["collect", "raise"] = "collect",
    ) -> InventoryScan:
        """Streams a row for each live file of the tables' newest snapshots, delete files of Iceberg's too.

        Args:
            name: only this database or table, catalog, or namespace or table of a catalog; None = all.
            concurrency: as for :meth:`manifests`.
            errors: as for :meth:`manifests`.

        Example::

            files = await lake.data_files("sales").to_arrow()
        """
        return self._inventory(InventoryShape.FILES, name, concurrency, errors)

    def _inventory(
        self,
        shape: InventoryShape,
        name: str | None,
        concurrency: int | None,
        errors: Literal["collect", "raise"],
    ) -> InventoryScan:
        at_once = self._state.settings.iceberg.manifest_concurrency if concurrency is None else concurrency
        return InventoryScan(_listed(self._state, name), shape, concurrency=at_once, errors=errors)


async def _listed(state: LakeState, name: str | None) -> AsyncGenerator[ListedTable, None]:
    """Lists what a name means: our databases and tables, and all that catalogs have; None = everything."""
    parts = tuple(name.split(".")) if name is not None else ()
    if parts and state.is_catalog(parts[0]):
        async for table in _of_catalog(state, parts):
            yield table
    elif len(parts) > 1:
        wanted = TableName.parse(".".join(parts))
        yield _table(state, "", (wanted.database, wanted.table), is_wanted=True)
    else:
        databases = list(parts) or [database async for database in state.names.databases()]
        for database in databases:
            async with aclosing(_of_database(state, database)) as tables:
                async for table in tables:
                    yield table
    if name is None:
        for catalog in state.attached_names():
            async for table in _of_catalog(state, (catalog,)):
                yield table


async def _of_database(state: LakeState, database: str) -> AsyncGenerator[ListedTable, None]:
    await state.names.expect_database(database)
    async with aclosing(state.names.tables(database)) as names:
        async for found in names:
            yield _table(state, "", (found.database, found.table))


async def _of_catalog(state: LakeState, parts: tuple[str, ...]) -> AsyncGenerator[ListedTable, None]:
    """Lists what is below a catalog, a namespace or a table; a listing that fails is a table that raises."""
    source, inside, shown = state.sources.get(parts[0]), parts[1:], ".".join(parts)
    try:
        if len(parts) >= _CATALOG_PARTS and await state.graph.exists(parts, NodeKind.TABLE):
            yield _table(state, parts[0], parts, is_wanted=True)
            return
        names = [] if not inside else [path async for path in source.names(inside)]
        inner = await source.namespaces(inside)
    except LakehouseError as error:
        yield ListedTable(
            catalog=parts[0], name=shown, open=functools.partial(_raised, error), is_wanted=True
        )
        return
    for found in names:
        yield _table(state, parts[0], (parts[0], *found))
    for namespace in inner:
        async for table in _of_catalog(state, (parts[0], *namespace)):
            yield table


def _table(state: LakeState, catalog: str, parts: tuple[str, ...], *, is_wanted: bool = False) -> ListedTable:
    async def opened() -> Table | IcebergTable:
        found = await state.graph.open(parts)
        return state.handle(found) if isinstance(found, OpenTable) else found

    return ListedTable(catalog=catalog, name=".".join(parts), open=opened, is_wanted=is_wanted)


async def _raised(error: LakehouseError) -> NoReturn:
    raise error
