"""Places of the tables of one catalog: kept while they are in use, and for the tables used last.

Places hold credentials and connections, so they belong to the source that makes requests and to no cache. One
that has to go is closed when nobody uses it any more.

Invariant: what is in use is open, and no more than the limit is kept besides.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lakehouse.catalog.nodes import RelationPath
from lakehouse.iceberg.catalogs import Locations

__all__ = ["KeptPlaces", "PlaceShelf"]

_PLACES_MAX = 256
"""Tables of one catalog whose connections are kept."""


@dataclass(slots=True, eq=False)
class KeptPlaces:
    """Places of one table; None = not known yet."""

    locations: Locations | None = None
    users: int = 0
    is_kept: bool = True


class PlaceShelf:
    """Places by the name of a table."""

    def __init__(self) -> None:
        self._places: OrderedDict[RelationPath, KeptPlaces] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    @asynccontextmanager
    async def using(self, path: RelationPath) -> AsyncGenerator[KeptPlaces]:
        """Keeps the places of a table open for a block of work, which may fill in what is not known."""
        place = self._places.setdefault(path, KeptPlaces())
        self._places.move_to_end(path)
        place.users += 1
        try:
            yield place
        finally:
            place.users -= 1
            if place.is_kept and place.locations is None and not place.users:
                self._places.pop(path, None)  # nothing was found there
            await self._close_ended(place)
            while len(self._places) > _PLACES_MAX:
                await self._end(next(iter(self._places)))

    async def drop(self, path: RelationPath) -> None:
        """Gives up the places of a table: whoever uses them now is the last."""
        if path in self._places:
            await self._end(path)

    async def aclose(self) -> None:
        """Closes all places that nobody uses; the others are closed when they are left."""
        for path in list(self._places):
            await self._end(path)

    async def _end(self, path: RelationPath) -> None:
        place = self._places.pop(path)
        place.is_kept = False
        await self._close_ended(place)

    async def _close_ended(self, place: KeptPlaces) -> None:
        if not place.is_kept and not place.users and place.locations is not None:
            locations, place.locations = place.locations, None
            await locations.aclose()
