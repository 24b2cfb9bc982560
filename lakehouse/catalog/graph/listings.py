"""Listings of one account: namespaces, and pages of names, kept within the bound of their layer.

Nothing of a relation is read to list it. A page begins behind a name, so that inserts, drops and renames
between two pages neither lose nor repeat a name that was there all the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Hashable
from functools import partial

from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.nodes import RelationPath
from lakehouse.catalog.sources import ListedName, Page, SourceSet

__all__ = ["Listings"]

_COUNTED_AT_ONCE = 1_000


class Listings:
    """Listings of one account.

    Args:
        account: its name.
        layers: caches of the lake.
        sources: catalogs of the account.
    """

    def __init__(self, account: str, layers: Layers, sources: SourceSet) -> None:
        self._layers, self._sources = layers.account(account), sources

    async def namespaces(self, catalog: str, inside: RelationPath = ()) -> list[RelationPath]:
        """Returns the namespaces directly inside another, in order."""
        load = partial(self._load_namespaces, catalog, inside)
        found = await self._layers.names.get(self._layers.names_key(catalog, inside, "namespaces"), load)
        return list(found or ())

    async def namespaces_now(self, catalog: str, inside: RelationPath = ()) -> list[RelationPath]:
        """Lists the namespaces directly inside another anew."""
        load = partial(self._load_namespaces, catalog, inside)
        found = await self._layers.names.reload(self._layers.names_key(catalog, inside, "namespaces"), load)
        return list(found or ())

    async def _load_namespaces(
        self, catalog: str, inside: RelationPath, _: object
    ) -> tuple[RelationPath, ...]:
        return tuple(await self._sources.get(catalog).namespaces(inside))

    async def page(
        self, catalog: str, namespace: RelationPath, *, begins: str = "", after: str | None = None, limit: int
    ) -> Page:
        """Returns up to ``limit`` names behind one, in order.

        A page of fewer is no sign of the end: some names stand for nothing any more. The last has no
        ``after``.
        """
        # The first page of a catalog that lists all names at once answers for all pages.
        whole = self._layers.names.get_if_present(self._key(catalog, namespace, begins, None, limit))
        if whole is None or whole.after is not None:
            whole = await self._loaded(catalog, namespace, begins, after, limit)
        return _part(whole, after, limit)

    async def names(
        self, catalog: str, namespace: RelationPath, *, begins: str = ""
    ) -> AsyncGenerator[ListedName, None]:
        """Yields all names of a namespace, in order."""
        after: str | None = None
        while True:
            page = await self.page(catalog, namespace, begins=begins, after=after, limit=_COUNTED_AT_ONCE)
            for entry in page.entries:
                yield entry
            after = page.after
            if after is None:
                return

    async def count(
        self, catalog: str, namespace: RelationPath, *, kind: NodeKind | None = None, begins: str = ""
    ) -> int:
        """Returns how many names a namespace lists; those of unknown kind count as every kind."""
        names = self.names(catalog, namespace, begins=begins)
        return sum([kind is None or entry.kind in (None, kind) async for entry in names])

    async def _loaded(
        self, catalog: str, namespace: RelationPath, begins: str, after: str | None, limit: int
    ) -> Page:
        source = self._sources.get(catalog)

        async def load(_: object) -> Page:
            return await source.page(namespace, prefix=begins, after=after, limit=limit)

        key = self._key(catalog, namespace, begins, after, limit)
        page: Page | None = await self._layers.names.get(key, load)
        return page if page is not None else Page(entries=())

    def _key(
        self, catalog: str, namespace: RelationPath, begins: str, after: str | None, limit: int
    ) -> tuple[Hashable, ...]:
        return self._layers.names_key(catalog, namespace, "page", begins, after, limit)


def _part(page: Page, after: str | None, limit: int) -> Page:
    """Returns the entries behind a name, no more than asked for."""
    first = 0 if after is None else bisect_right(page.entries, after, key=_name)
    entries = page.entries[first : first + limit]
    is_cut = first + limit < len(page.entries)
    return Page(entries=entries, after=_name(entries[-1]) if is_cut else page.after)


def _name(entry: ListedName) -> str:
    return entry.path[-1]
