"""Catalog: the calls that every type of catalog answers.

Names are tuples of parts, as dots may stand in a part. A catalog connects when it is first asked.

Invariant: what a catalog returns is as of the call; it keeps connections and no answers.
"""

from __future__ import annotations

import abc
import uuid
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from lakehouse.errors import LakehouseError, NotFoundError, PermissionDeniedError
from lakehouse.iceberg.catalogs.properties import CatalogProperties
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.opening import ReadMetadata
from lakehouse.iceberg.scopes import Scope
from lakehouse.io.location import Location
from lakehouse.io.options import StorageOptions
from lakehouse.suggest import suggestion

__all__ = ["Catalog", "FoundTable", "FoundView", "Name", "shown"]

R = TypeVar("R")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundView:
    """A view as a catalog knows it now."""

    identity: uuid.UUID
    version: str
    """State of the view: equal ones say the same."""
    location: str
    texts: Mapping[str, str] = field(hash=False)
    """SQL by dialect."""
    columns: tuple[str, ...] = ()
    default_namespace: Name = ()
    """Namespace in which names without one are looked for."""
    owner: str | None = None
    updated_ms: int | None = None


def shown(name: Name) -> str:
    """Returns a name as text."""
    return ".".join(name)


class Catalog(abc.ABC):
    """A catalog of Iceberg tables.

    Args:
        properties: what it was attached with.
        scope: whose content its tables are given; None = they share none.
    """

    def __init__(self, properties: CatalogProperties, scope: Scope | None = None) -> None:
        self.properties = properties
        self.scope = scope or Scope()
        self._places: weakref.WeakSet[Locations] = weakref.WeakSet()
        self._asking = anyio.Lock()
        self._has_answered = False
        """Some call succeeded over the connection that there is."""

    # --- credentials --------------------------------------------------------------

    async def rotate(self, properties: CatalogProperties) -> None:
        """Uses other credentials from the next request on, here and in all tables that are open."""
        self.properties = properties
        await self.disconnect()
        for place in list(self._places):
            options = properties.options_at(place.opened)
            await place.rotate(options, is_handed_out=properties.type == "rest")

    async def close_places(self) -> None:
        """Closes the places of all tables."""
        for place in list(self._places):
            await place.aclose()
        self._places.clear()

    async def asked(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Asks the catalog, and once more where it refuses credentials that were good or can be replaced."""
        if self.properties.is_waiting:
            await self._freshened(self.properties)
        properties = self.properties
        try:
            answer = await ask()
        except PermissionDeniedError:
            if not await self._freshened(properties):
                raise
            answer = await ask()
        self._has_answered = True
        return answer

    async def _freshened(self, refused: CatalogProperties) -> bool:
        """Replaces what was refused; returns whether it is worth trying again."""
        async with self._asking:
            if self.properties is not refused:
                return True  # somebody else was first
            worth_it, self._has_answered = self._has_answered, False
            fresh = await refused.asked()
            if fresh is not None and (refused.is_waiting or not fresh.is_like(refused)):
                await self.rotate(fresh)
                return True
            # A connection has a token of its own, which may be what was refused.
            await self.disconnect()
            return worth_it

    async def _renewed(self, place: Location) -> StorageOptions:
        """Returns options of files after the store refused some."""
        await self._freshened(self.properties)
        return self.properties.options_at(place)

    # --- tables and namespaces ----------------------------------------------------

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

    async def views(self, namespace: Name) -> list[str]:
        """Returns the names of the views of a namespace, in order; none where the catalog has no views."""
        del namespace
        return []

    async def view(self, name: Name) -> FoundView | None:
        """Loads a view; None when there is none of that name."""
        del name
        return None

    @abc.abstractmethod
    async def namespaces(self, inside: Name = ()) -> list[Name]:
        """Returns the namespaces inside another, or the outermost ones, in order."""

    @abc.abstractmethod
    async def disconnect(self) -> None:
        """Gives the connection to the catalog back, if there is one; the next call connects again."""

    async def aclose(self) -> None:
        """Gives connections back. The catalog may be used again; it reconnects."""
        await self.disconnect()

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
