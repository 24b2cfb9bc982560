"""The sources that one account may ask: the warehouse, and the catalogs that are attached for it."""

from __future__ import annotations

from lakehouse.catalog.sources.source import CatalogSource
from lakehouse.errors import AlreadyExistsError, NotFoundError
from lakehouse.suggest import suggestion

__all__ = ["WAREHOUSE", "SourceSet"]

WAREHOUSE = ""
"""Name of our own warehouse among the catalogs."""


class SourceSet:
    """Sources by name; that of the warehouse, if there is one, is empty."""

    def __init__(self, *sources: CatalogSource) -> None:
        self._sources = {source.name: source for source in sources}

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    @property
    def names(self) -> list[str]:
        """Names of all sources, in order; the warehouse's is the first."""
        return sorted(self._sources)

    def get(self, name: str) -> CatalogSource:
        """Returns the source of a name.

        Raises:
            NotFoundError: nothing is attached under it.
        """
        found = self._sources.get(name)
        if found is None:
            attached = [known for known in self.names if known != WAREHOUSE]
            raise NotFoundError(
                f"no catalog {name!r} is attached; {suggestion(name, attached)} (lake.attach_catalog)",
                missing="catalog",
                catalog=name,
            )
        return found

    def attach(self, source: CatalogSource) -> None:
        """Adds a source."""
        self.expect_free(source.name)
        self._sources[source.name] = source

    def expect_free(self, name: str) -> None:
        """Raises AlreadyExistsError where a name is taken."""
        if name in self._sources:
            raise AlreadyExistsError(
                f"a catalog {name!r} is attached already: detach it first, or take another name",
                catalog=name,
            )

    def replace(self, source: CatalogSource) -> None:
        """Puts a source in the place of the one of its name."""
        self._sources[source.name] = source

    async def detach(self, name: str) -> None:
        """Removes a source and closes what it has open."""
        source = self.get(name)
        del self._sources[name]
        await source.aclose()

    async def aclose(self) -> None:
        """Closes what sources have open; they stay, and connect again when they are asked."""
        for source in list(self._sources.values()):
            await source.aclose()
