"""LakeCatalogs without await: the twin of :mod:`lakehouse.lake.catalogs`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/catalogs.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.catalog.sources import CatalogReport
from lakehouse.lake.catalogs import LakeCatalogs as AsyncLakeCatalogs
from lakehouse.sync.bridge import Bridge

__all__ = ["LakeCatalogs"]


class LakeCatalogs:
    """Base of ``Lake`` with its methods for catalogs."""

    def __init__(self, wrapped: AsyncLakeCatalogs, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def attach_catalog(self, name: str, properties: Mapping[str, Any]) -> None:
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

            lake.attach_catalog("ice", {"type": "directory", "warehouse": "s3://bucket/warehouse"})
            print(lake.databases("ice"))
        """
        return self._bridge.call(self._wrapped.attach_catalog, name, properties)

    def update_catalog(self, name: str, changes: Mapping[str, Any]) -> None:
        """Replaces credentials of an attached catalog, or which of its namespaces are seen.

        The next request uses the new credentials; tables stay open, and what is cached of them stays.

        Args:
            name: of the catalog.
            changes: properties in place of those of the same names; None takes one away. Type, ``uri`` and
                ``warehouse`` stay.

        Example::

            lake.update_catalog("ice", {"token": fresh})
        """
        return self._bridge.call(self._wrapped.update_catalog, name, changes)

    def validate_catalog(self, name: str, *, timeout_s: float = 30.0) -> CatalogReport:
        """Checks an attached catalog: connection, credential, discovery and whether its files can be read.

        Args:
            name: of the catalog.
            timeout_s: seconds that each check may take.

        Example::

            report = lake.validate_catalog("ice")
            print(report if not report.is_ok else "good")
        """
        return self._bridge.call(self._wrapped.validate_catalog, name, timeout_s=timeout_s)

    def detach_catalog(self, name: str) -> None:
        """Detaches a catalog, and closes its connections and those of its tables."""
        return self._bridge.call(self._wrapped.detach_catalog, name)

    def catalogs(self) -> list[str]:
        """Returns the names of the attached catalogs, in order."""
        return self._bridge.call(self._wrapped.catalogs)
