"""Reachability: what snapshots need is known, and nothing that one of them needs is left out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.cache import CacheBudget
from lakehouse.errors import CorruptionError
from lakehouse.format.metadata import (
    CommitKind,
    FileEntry,
    IndexRef,
    SchemaRef,
    SegmentRange,
    Snapshot,
)
from lakehouse.format.schema import schema_from_arrow
from lakehouse.io import ObjectStore
from lakehouse.storage.commit.spilled_manifest import write_manifest
from lakehouse.storage.maintenance.reachable import PathSet, Reachable, paths_of
from lakehouse.storage.metadata.caches import TableCaches
from lakehouse.storage.metadata.manifests import Manifests
from lakehouse.storage.metadata.schemas import Schemas
from lakehouse.testing import memory_store
from tests.kit.committers import ROOT, entry
from tests.kit.table_samples import TABLE, TOKEN

SCHEMA = schema_from_arrow(pa.schema({"id": pa.int64()}))


def schemas_of(store: ObjectStore) -> Schemas:
    """The schema objects of the table."""
    return Schemas(store, ROOT, TABLE, TableCaches(CacheBudget()).schemas)


def reachable(store: ObjectStore) -> Reachable:
    """Nothing yet."""
    return Reachable(Manifests(store, ROOT, TABLE, TableCaches(CacheBudget()).manifests), schemas_of(store))


async def snapshot(store: ObjectStore, **about: Any) -> Snapshot:
    """A snapshot whose schema is there."""
    schema = about.pop("schema", None) or await schemas_of(store).write(SCHEMA, time_ms=1)
    return Snapshot(
        **{
            "id": 2,
            "token": TOKEN,
            "parent": None,
            "kind": CommitKind.APPEND,
            "time_ms": 1_000,
            "table": TABLE,
            "schema": schema,
            **about,
        }
    )


async def damaged(sort: str) -> tuple[ObjectStore, Snapshot]:
    """A snapshot of one file that refers to a manifest or a schema that is gone."""
    store = memory_store()
    if sort == "schema":
        return store, await snapshot(store, added=(entry("a"),), schema=SchemaRef(id=0, path="schema/gone"))
    base = await snapshot(store, added=(entry("a"),))
    ref = await write_manifest(store, ROOT, base, (entry("b"),))
    await store.delete(f"{ROOT}/{ref.path}")
    return store, dataclasses.replace(base, manifests=(ref,))


async def test_every_object_of_a_snapshot_is_reachable() -> None:
    """Its files and their indexes, its manifests and the files they list, its schema and those before."""
    store = memory_store()
    schemas = schemas_of(store)
    first = await schemas.write(SCHEMA, time_ms=1)
    second = await schemas.write(
        dataclasses.replace(SCHEMA, id=1), time_ms=2, before=(await schemas.read(first), first)
    )
    carried = dataclasses.replace(entry("a"), index=IndexRef(path="a-index", size=1))
    base = await snapshot(store, schema=second, added=(carried,))
    listed = dataclasses.replace(entry("b"), index=IndexRef(path="b-index", size=1))
    ref = await write_manifest(store, ROOT, base, (listed, entry("c")))
    found = reachable(store)
    found.add(dataclasses.replace(base, manifests=(ref,)))
    needed = ["a", "a-index", "b", "b-index", "c", ref.path, first.path, second.path]
    assert (await found.paths()).others([*needed, "orphan"]) == ["orphan"]


async def test_a_file_is_dead_when_every_snapshot_has_removed_it() -> None:
    """Of the files of a manifest those stay that one of the snapshots which list it still has."""
    store = memory_store()
    base = await snapshot(store)
    ref = await write_manifest(store, ROOT, base, (entry("a"), entry("b")))
    first = dataclasses.replace(base, manifests=(ref,), removed=("a",))
    second = dataclasses.replace(first, id=3, removed=("a", "b"))
    for snapshots in ((first, second), (second, first)):
        found = reachable(store)
        for one in snapshots:
            found.add(one)
        assert (await found.paths()).others(["a", "b"]) == ["a"]


@pytest.mark.parametrize("sort", ["manifest", "schema"])
async def test_metadata_that_cannot_be_read_is_an_error(sort: str) -> None:
    """What it needs is not known, so nothing may be deleted."""
    store, one = await damaged(sort)
    found = reachable(store)
    found.add(one)
    with pytest.raises(CorruptionError):
        await found.paths()


@pytest.mark.parametrize("sort", ["manifest", "schema"])
async def test_metadata_of_expired_snapshots_may_be_gone(sort: str) -> None:
    """A deletion that ended half way is no obstacle, unless a snapshot that is not expired needs it, too."""
    store, one = await damaged(sort)
    found = reachable(store)
    found.add(one, expired=True)
    assert (await found.paths()).others(["a"]) == []
    for is_expired in ((True, False), (False, True)):
        found = reachable(store)
        for expired in is_expired:
            found.add(one, expired=expired)
        with pytest.raises(CorruptionError):
            await found.paths()


async def test_covered_segments_are_reachable() -> None:
    """Segments whose rows are in no file yet are known by their numbers."""
    store = memory_store()
    found = reachable(store)
    for first, last in ((1, 2), (2, 4)):
        found.add(await snapshot(store, segments=(SegmentRange(first=first, last=last, size=1),)))
    assert found.segments == {1, 2, 3, 4}


def test_a_path_set_knows_what_was_put_in() -> None:
    """Every path that was put in is known, however many and in however many turns; others are not."""
    found, every = PathSet(), [f"data/{number}" for number in range(200_000)]
    assert found.others(["a"]) == ["a"]
    for begin in range(0, 200_000, 1_000):
        found.add(every[begin : begin + 1_000])
    found.add(every[:10])
    assert found.others(every) == []
    assert found.others(["x", *every[:3], "y"]) == ["x", "y"]
    assert found.others([]) == []


def test_an_index_is_an_object_of_its_file() -> None:
    """An entry stands for its data file and the index of it."""
    entry = FileEntry(path="a", size=1, rows=1)
    how: dict[str, Any] = {"path": "a", "size": 1, "rows": 1}
    assert list(paths_of(entry)) == [("a", 1)]
    assert list(paths_of(FileEntry(**how, index=IndexRef(path="b", size=2)))) == [("a", 1), ("b", 2)]
