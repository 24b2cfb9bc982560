"""Catalog: the calls that every type of catalog answers.

Names are tuples of parts, as dots may stand in a part. A catalog connects when it is first asked.

Invariant: what a catalog returns is as of the call; it keeps connections and no answers.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

from lakehouse.errors import LakehouseError, NotFoundError
from lakehouse.iceberg.catalogs.properties import CatalogProperties
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.opening import ReadMetadata
from lakehouse.suggest import suggestion

__all__ = ["Catalog", "FoundTable", "Name", "shown"]

Name = tuple[str, ...]
"""Parts of a name: namespaces from the outermost to the innermost, and the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A table as a catalog knows it now."""

    metadata: TableMetadata
    locations: Locations
    """Places of its files, reached with what the catalog and the caller say."""
    version: str | None = None
    """Version of the object that its metadata were read from, where the metadata's path may be used again."""

    @property
    def read(self) -> ReadMetadata:
        """The metadata, for the next call that finds the table."""
        return ReadMetadata(metadata=self.metadata, version=self.version)


def shown(name: Name) -> str:
    """Returns a name as text."""
    return ".".join(name)


class Catalog(abc.ABC):
    """A catalog of Iceberg tables.

    Args:
        properties: what it was attached with.
    """

    def __init__(self, properties: CatalogProperties) -> None:
        self.properties = properties

    @abc.abstractmethod
    async def find(
        self, name: Name, locations: Locations | None = None, *, known: ReadMetadata | None = None
    ) -> FoundTable:
        """Finds a table and loads its newest metadata.

        Args:
            name: namespaces and table.
            locations: places from an earlier call, to be used again.
            known: metadata from an earlier call; while they are the newest, they are not read again.

        Raises:
            NotFoundError: there is none; the fact ``missing`` says whether it is the table or its namespace.
        """

    @abc.abstractmethod
    async def tables(self, namespace: Name) -> list[str]:
        """Returns the names of the tables of a namespace, without the namespace, in order."""

    @abc.abstractmethod
    async def namespaces(self, inside: Name = ()) -> list[Name]:
        """Returns the namespaces inside another, or the outermost ones, in order."""

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Gives connections back. The catalog may be used again; it reconnects."""

    async def missing_error(self, name: Name) -> NotFoundError:
        """Returns the error for a table that is not there, with names that may have been meant."""
        catalog, namespace = self.properties.name, name[:-1]
        facts = {"catalog": catalog, "table": shown(name)}
        try:
            known = await self.tables(namespace)
        except NotFoundError:
            near = await self._near_namespaces(namespace)
            return NotFoundError(
                f"catalog {catalog!r} has no namespace {shown(namespace)!r}{near}",
                missing="namespace",
                **facts,
            )
        except LakehouseError:  # what was asked for is not there, whether others can be listed or not
            known = []
        return NotFoundError(
            f"catalog {catalog!r} has no table {shown(name)!r}; in {shown(namespace)!r} "
            f"{suggestion(name[-1], known)}",
            missing="table",
            **facts,
        )

    async def _near_namespaces(self, namespace: Name) -> str:
        try:
            known = await self.namespaces(namespace[:-1])
        except LakehouseError:
            return ""
        return f"; {suggestion(shown(namespace), map(shown, known))}"
