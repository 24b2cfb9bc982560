"""Places of tables: kept for those used last, and closed when nobody uses them."""

from __future__ import annotations

from typing import Any

from lakehouse.catalog.sources import places
from lakehouse.catalog.sources.places import PlaceShelf


class _Locations:
    def __init__(self) -> None:
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1


def _made() -> Any:
    return _Locations()


async def test_what_is_in_use_stays_open(monkeypatch: Any) -> None:
    """Places that have to go while somebody uses them are closed when that ends, once."""
    monkeypatch.setattr(places, "_PLACES_MAX", 2)
    shelf, made = PlaceShelf(), {name: _made() for name in "abc"}
    async with shelf.using(("a",)) as held:
        held.locations = made["a"]
        for name in "bc":
            async with shelf.using((name,)) as place:
                place.locations = made[name]
        assert len(shelf) == 2
        assert [made[name].closed for name in "abc"] == [0, 0, 0]
    assert [made[name].closed for name in "abc"] == [1, 0, 0]
    await shelf.aclose()
    assert [made[name].closed for name in "abc"] == [1, 1, 1]
    assert len(shelf) == 0


async def test_nothing_is_kept_of_what_was_not_found() -> None:
    """A table that was not there leaves no place."""
    shelf = PlaceShelf()
    async with shelf.using(("a",)):
        pass
    assert len(shelf) == 0
    await shelf.drop(("a",))
