"""Published metadata as the store has them: what they refer to must be there, and be held."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.iceberg.publishing.documents import Published
from lakehouse.iceberg.publishing.holds import hold_name
from lakehouse.iceberg.publishing.store import PublishedStore
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.storage.metadata.paths import join, published_version
from lakehouse.storage.table import Table

__all__ = ["Placed", "Publication", "publications", "published_place"]


class Placed(StoreDecorator):
    """A store that is told by this URL wherever its objects are, so that copies of a world have one."""

    @property
    def url(self) -> str:  # type: ignore[override]
        return "memory://placed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One version of published metadata."""

    version: int
    rows: dict[int, int]
    """Rows that readers see by snapshot."""
    held: bool
    """Whether tags of ours hold all of its snapshots."""


def published_place(store: ObjectStore, table: Table) -> PublishedStore:
    """The published objects of a table."""
    return PublishedStore(store=store, root=table.core.root, table=str(table.uuid))


async def publications(store: ObjectStore, table: Table) -> list[Publication]:
    """All versions that there are, oldest first; fails where an object that one refers to is missing."""
    place = published_place(store, table)
    keys = {one.key async for one in store.list("")}
    tags = {one["name"] for one in (await table.tags()).to_pylist()}
    numbers = sorted(number for path in await place.listed() if (number := published_version(path)))
    return [await _read(place, await place.version(number), keys, tags) for number in numbers]


async def _read(place: PublishedStore, published: Published, keys: set[str], tags: set[str]) -> Publication:
    rows = {}
    for one in published.snapshots:
        rows[one["snapshot-id"]] = 0
        for listed in await place.manifests(one["manifest-list"]):
            for file in await place.entries(listed):
                assert join(place.root, place.path(file.data_file)) in keys, file
                if file.vector is not None:
                    assert join(place.root, place.path(file.vector.path)) in keys, file
                rows[one["snapshot-id"]] += -file.rows if file.vector is not None else file.rows
    for statistics in published.statistics:
        assert join(place.root, place.path(statistics["statistics-path"])) in keys, statistics
    held = all(hold_name(number) in tags for number in rows)
    return Publication(version=published.version, rows=rows, held=held)
