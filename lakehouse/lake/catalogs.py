"""Catalogs of a lake: attached under a name, and detached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.catalog.sources import CatalogReport, validate_source
from lakehouse.lake.state import LakeState, same_name_error
from lakehouse.storage.metadata import check_name, check_not_system

__all__ = ["LakeCatalogs"]


class LakeCatalogs:
    """Base of ``Lake`` with its methods for catalogs."""

    _state: LakeState

    async def attach_catalog(self, name: str, properties: Mapping[str, Any]) -> None:
        """Attaches a catalog of Iceberg tables under a name; the catalog itself is not contacted.

        Its tables are opened by ``table("name.namespace.table")`` and listed by ``tables("name.namespace")``.

        Args:
            name: one part, which no database of the lake has.
            properties: as pyiceberg takes them. ``type`` is ``rest``, ``sql``, ``hive``, ``glue``, or
                ``directory`` for a ``warehouse`` that nothing but its directory describes; ``uri`` says where
                the catalog is; ``storage_options`` how files are reached, as :func:`lakehouse.connect` takes
                them, where ``s3.…`` does not. ``lakehouse`` is a ``warehouse`` of ours. Of any type:
                ``include`` and ``exclude`` are patterns of namespaces that are seen, such as
                ``["sales", "web.*"]``; ``credentials`` is a function, async or quick, that returns
                properties with credentials, and is asked again when they are refused.

        Example::

            await lake.attach_catalog("ice", {"type": "directory", "warehouse": "s3://bucket/warehouse"})
            print(await lake.databases("ice"))
        """
        check_not_system(check_name(name, "catalog"))
        if await self._state.names.has_database(name):
            raise same_name_error(name)
        self._state.attach(name, properties)

    async def update_catalog(self, name: str, changes: Mapping[str, Any]) -> None:
        """Replaces credentials of an attached catalog, or which of its namespaces are seen.

        The next request uses the new credentials; tables stay open, and what is cached of them stays.

        Args:
            name: of the catalog.
            changes: properties in place of those of the same names; None takes one away. Type, ``uri`` and
                ``warehouse`` stay.

        Example::

            await lake.update_catalog("ice", {"token": fresh})
        """
        await self._state.update(name, changes)

    async def validate_catalog(self, name: str, *, timeout_s: float = 30.0) -> CatalogReport:
        """Checks an attached catalog: connection, credential, discovery and whether its files can be read.

        Args:
            name: of the catalog.
            timeout_s: seconds that each check may take.

        Example::

            report = await lake.validate_catalog("ice")
            print(report if not report.is_ok else "good")
        """
        self._state.use()
        return await validate_source(self._state.sources.get(name), timeout_s=timeout_s)

    async def detach_catalog(self, name: str) -> None:
        """Detaches a catalog, and closes its connections and those of its tables."""
        await self._state.detach(name)

    async def catalogs(self) -> list[str]:
        """Returns the names of the attached catalogs, in order."""
        return self._state.attached_names()
