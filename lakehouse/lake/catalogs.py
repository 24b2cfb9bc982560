"""Catalogs of a lake: attached under a name, and detached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
                them, where ``s3.…`` does not.

        Example::

            await lake.attach_catalog("ice", {"type": "directory", "warehouse": "s3://bucket/warehouse"})
            print(await lake.databases("ice"))
        """
        check_not_system(check_name(name, "catalog"))
        if await self._state.names.has_database(name):
            raise same_name_error(name)
        self._state.attach(name, properties)

    async def detach_catalog(self, name: str) -> None:
        """Detaches a catalog, and closes its connections and those of its tables."""
        await self._state.detach(name)

    async def catalogs(self) -> list[str]:
        """Returns the names of the attached catalogs, in order."""
        return [name for name in self._state.sources.names if name]
