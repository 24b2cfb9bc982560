"""Listings: what is kept, for how long, and what catalogs without pages cost."""

from __future__ import annotations

from lakehouse.catalog.graph.listings import Listings
from lakehouse.catalog.nodes import RelationPath
from lakehouse.catalog.sources import ListedName, Page
from tests.kit.graphs import GraphWorld


class _Whole:
    """A catalog that lists all names at once."""

    name = "whole"

    def __init__(self, count: int) -> None:
        self.names = [f"t{number:04}" for number in range(count)]
        self.listed = 0

    async def page(
        self, namespace: RelationPath, *, prefix: str = "", after: str | None = None, limit: int
    ) -> Page:
        self.listed += 1
        left = [name for name in self.names if name.startswith(prefix) and (after is None or name > after)]
        return Page(entries=tuple(ListedName(path=(*namespace, name)) for name in left))


def _listings(world: GraphWorld, source: _Whole) -> Listings:
    world.sources._sources["whole"] = source  # type: ignore[assignment]
    return Listings("default", world.layers, world.sources)


async def test_a_catalog_without_pages_is_listed_once_for_all_pages() -> None:
    """What it listed for the first page answers for the others."""
    source = _Whole(1_000)
    listings = _listings(GraphWorld(), source)
    names, after = list[str](), None
    while True:
        page = await listings.page("whole", ("ns",), after=after, limit=100)
        names += [entry.path[-1] for entry in page.entries]
        after = page.after
        if after is None:
            break
    assert names == source.names
    assert source.listed == 1


async def test_a_listing_is_kept_within_its_bound() -> None:
    """For 60 seconds a listing costs nothing; then it is read anew."""
    world = GraphWorld()
    listings = Listings("default", world.layers, world.sources)
    assert await listings.namespaces("mem") == [("sales",)]
    world.catalog.add_namespace("new")
    assert await listings.namespaces("mem") == [("sales",)]
    await world.clock.advance(61)
    assert await listings.namespaces("mem") == [("new",), ("sales",)]


async def test_a_count_lists_every_name_once() -> None:
    """Counting goes through the pages, which then serve the listing too."""
    source = _Whole(2_500)
    listings = _listings(GraphWorld(), source)
    assert await listings.count("whole", ("ns",)) == 2_500
    assert source.listed == 1
