"""What GreptimeDB's manifests name is what is enumerated; the rest is reported."""

from __future__ import annotations

from lakehouse.index.greptime.sources import GreptimeManifests
from lakehouse.index.metas.enumerate import iterate_index_metas
from lakehouse.index.metas.rows import GREPTIME
from lakehouse.testing import RecordingStore, memory_store
from lakehouse.testing.index_files import all_kinds
from tests.kit.region_manifests import REGION, change, checkpoint, delta, edit, file, file_id, pointer

TABLE = "data/greptime/public/1024/"
REGION_DIR = f"{TABLE}1024_0000000001/"
OTHER_DIR = f"{TABLE}1024_0000000002/"
DATA = all_kinds()


async def database() -> RecordingStore:
    """A region with three files (one removed, one of a newer index version) and one it took from another."""
    store = RecordingStore(memory_store())
    size = len(DATA)
    first = [file(1, size=size), file(2, size=size), file(3, size=size, version=4), file(4, size=0)]
    taken = edit(add=[file(9, size=size, region=REGION + 1)], remove=[file(2, size=size)])
    for objects in (delta(0, change()), delta(1, edit(add=first)), delta(2, taken, gz=True)):
        for name, data in objects.items():
            await store.put(REGION_DIR + name, data)
    for name, data in delta(0, change(REGION + 1)).items():
        await store.put(OTHER_DIR + name, data)
    for number, suffix in ((1, ""), (2, ""), (3, ""), (3, ".4")):
        await store.put(f"{REGION_DIR}index/{file_id(number)}{suffix}.puffin", DATA)
    await store.put(f"{OTHER_DIR}index/{file_id(9)}.puffin", DATA)
    store.clear()
    return store


async def test_the_manifest_says_which_files_count() -> None:
    """Removed files and old index versions are left out; a file of another region is under its own path."""
    store = await database()
    source = GreptimeManifests(store)
    rows = (await iterate_index_metas(source, order="listing").to_arrow(GREPTIME)).to_pylist()
    assert list(dict.fromkeys(row["index_file_path"] for row in rows)) == [
        f"{REGION_DIR}index/{file_id(1)}.puffin",
        f"{REGION_DIR}index/{file_id(3)}.4.puffin",
        f"{OTHER_DIR}index/{file_id(9)}.puffin",
    ]
    assert {row["region_id"] for row in rows} == {REGION}
    assert {row["table_dir"] for row in rows} == {TABLE}


async def test_files_no_manifest_names_are_reported() -> None:
    """What lies there and counts for no region is in the source's report."""
    source = GreptimeManifests(await database())
    assert len([entry async for entry in iterate_index_metas(source)]) == 15
    assert sorted(source.unreferenced) == sorted(
        f"{REGION_DIR}index/{name}.puffin" for name in (file_id(2), file_id(3))
    )
    assert source.unreferenced_count == 2


async def test_requests() -> None:
    """A region costs its manifest objects, a file one GET; the sizes are the manifest's."""
    store = await database()
    async for _ in iterate_index_metas(GreptimeManifests(store)):
        pass
    assert store.kinds() == {"list": 1, "get": 4 + 3}


async def test_a_checkpoint_replaces_the_deltas_before_it() -> None:
    """With a checkpoint only it and the deltas behind it are read."""
    store = await database()
    ((name, state),) = checkpoint(2, file(1, size=len(DATA))).items()
    await store.put(REGION_DIR + name, state)
    await store.put(f"{REGION_DIR}manifest/_last_checkpoint", pointer(2, state))
    store.clear()
    source = GreptimeManifests(store)
    paths = {entry.locator.index_file_path async for entry in iterate_index_metas(source)}
    assert paths == {f"{REGION_DIR}index/{file_id(1)}.puffin"}
    assert store.kinds() == {"list": 1, "get": 2 + 1 + 1}


async def test_a_broken_manifest_falls_back_to_the_listing() -> None:
    """A region whose manifest cannot be read is a problem, and its files come from the listing."""
    store = await database()
    await store.put(f"{REGION_DIR}manifest/00000000000000000001.json", b"not json")
    scan = iterate_index_metas(GreptimeManifests(store))
    paths = {entry.locator.index_file_path async for entry in scan}
    assert len(paths) == 4
    assert [problem.path for problem in scan.problems] == [f"{REGION_DIR}manifest/"]


async def test_a_file_the_manifest_names_and_nobody_has() -> None:
    """A missing index file is a problem of that file alone."""
    store = await database()
    await store.delete(f"{REGION_DIR}index/{file_id(1)}.puffin")
    scan = iterate_index_metas(GreptimeManifests(store))
    assert len([entry async for entry in scan]) == 10
    assert [problem.kind for problem in scan.problems] == ["not-found"]


async def test_a_region_that_is_being_dropped_has_no_files() -> None:
    """GreptimeDB deletes such a region when it opens it, so its files count for nobody."""
    store = await database()
    await store.put(f"{REGION_DIR}.dropping", b"")
    source = GreptimeManifests(store)
    assert [entry async for entry in iterate_index_metas(source)] == []
    assert source.unreferenced_count == 5
