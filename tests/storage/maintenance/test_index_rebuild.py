"""Index files written anew, and index files that are missing or damaged."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.format.puffin.footer import PuffinFooter
from lakehouse.testing import memory_store
from tests.kit.indexed_tables import NAME, lake_on, rows, table_with, value

# --- rebuilding -----------------------------------------------------------------------


async def test_rebuilding_indexes_old_files() -> None:
    """Files written before an index was added get it, by one read each, and no row changes."""
    table = await table_with({}, files=3)
    expected = await table.scan().to_pylist()
    await table.add_index("host", "bloom")
    await table.add_index("place.city", "inverted")
    told: list[Any] = []
    planned = await table.rebuild_indexes(dry_run=True)
    assert (planned.files, planned.rows, planned.dry_run) == (3, 1500, True)
    done = await table.rebuild_indexes(progress=told.append)
    assert (done.files, done.rows, done.dropped) == (3, 1500, 0)
    assert told
    assert not (await table.rebuild_indexes()).changed
    assert await table.scan().to_pylist() == expected
    for where in (f"host = 'Host-{value(1234)}'", f"place.city = 'city-{value(1234)}'"):
        scan = table.scan(where)
        assert await scan.count() == 1
        assert scan.report.files_pruned["index"] == 2
    assert (await table.indexes()).column("files").to_pylist() == [3, 3]
    assert (await table.snapshots()).column("kind").to_pylist()[-1] == "index"


async def test_files_of_no_index_lose_their_index_files() -> None:
    """When the last index is gone, a rebuild takes the references away and reads nothing."""
    table = await table_with({"host": "bloom"}, files=2)
    await table.drop_index("host")
    done = await table.rebuild_indexes()
    assert (done.files, done.dropped) == (0, 2)
    assert (await table.files()).column("index_path").to_pylist() == [None, None]
    assert await table.scan().count() == 1000


async def test_many_entries_survive_rebuilding_and_folding() -> None:
    """Entries that are replaced, folded into manifests and replaced again list every file once."""
    table = await table_with({}, files=0)
    for number in range(140):
        await table.append(rows(2, first=2 * number))
    assert (await table.manifests()).num_rows >= 1
    count = 140
    for column in ("host", "n"):
        await table.add_index(column, "bloom")
        assert (await table.rebuild_indexes()).files == count
        for _ in range(3):
            await table.append(rows(2, first=2 * count))
            count += 1
        files = (await table.files()).column("path").to_pylist()
        assert len(set(files)) == len(files) == count
        fresh = await lake_on(table._table.env.store).table(NAME)
        assert await fresh.scan().count() == 2 * count
    await table.compact(full=True)
    assert await table.scan().count() == 2 * count
    assert await table.scan(f"n = {value(7)}").count() == 1


async def test_files_that_go_meanwhile_are_passed_over() -> None:
    """A data file that an overwrite takes away while it is indexed stays away; others are indexed."""
    store = memory_store()
    table = await table_with({}, store=store, files=2)
    await table.add_index("host", "bloom")
    other = await lake_on(store).table(NAME)
    raced = False

    async def overwrite() -> None:
        nonlocal raced
        raced = True
        await other.overwrite(rows(10))

    commit = table._table.commit

    async def late(change: Any, **more: Any) -> Any:
        if not raced:
            await overwrite()
        return await commit(change, **more)

    table._table.commit = late  # type: ignore[method-assign]
    done = await table.rebuild_indexes()
    assert (done.files, done.passed_over) == (0, 2)
    assert await table.scan().count() == 10
    live = {one["index_path"] for one in (await table.files()).to_pylist()}
    there = {one.key.split("/", 2)[2] async for one in store.list("") if "/index/" in one.key}
    assert there == live


async def test_compaction_indexes_what_it_writes() -> None:
    """Files that compaction writes are indexed as the table says then."""
    table = await table_with({"host": "bloom"}, files=3)
    await table.upsert([{**one, "host": "x"} for one in rows(10)])
    await table.add_index("n", "inverted")
    await table.compact(full=True)
    files = (await table.files()).to_pylist()
    assert [one["indexes"] for one in files] == [[1, 2]] * len(files)
    assert await table.scan("host = 'x'").count() == 10


# --- damage ---------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "flipped", "footer"])
async def test_a_damaged_index_changes_no_answer(damage: str) -> None:
    """Whatever became of an index file, the rows are right; the report counts it, a rebuild mends it."""
    store = memory_store()
    table = await table_with({"host": {"bloom": {"granularity": 100}}}, store=store, files=3)
    first, second, *_ = (await table.files()).column("index_path").to_pylist()
    root = table.location.removeprefix(store.url).strip("/")
    data = (await store.get(f"{root}/{first}")).data
    if damage == "missing":
        await store.delete(f"{root}/{first}")
    elif damage == "other":
        await store.put(f"{root}/{first}", (await store.get(f"{root}/{second}")).data)
    else:
        at = len(data) - 100 if damage == "footer" else 0
        changed = bytes(data[:at]) + b"\0" * (len(data) - at) if damage == "footer" else b"\0" * len(data)
        if damage == "flipped":  # filters that have nothing in them are sound, and say that nothing is there
            footer = PuffinFooter.parse(data, len(data))
            assert isinstance(footer, PuffinFooter)
            blob = footer.blobs[0]
            half = blob.offset + blob.length // 2
            changed = data[: blob.offset] + b"\0" * (half - blob.offset) + data[half:]
        if damage == "cut":
            changed = data[: len(data) // 2]
        await store.put(f"{root}/{first}", changed)
    fresh = await lake_on(store).table(NAME)
    for number in (1, 700, 1234):
        scan = fresh.scan(f"host = 'Host-{value(number)}'")
        assert [one["id"] for one in await scan.to_pylist()] == [number]
        assert scan.report.indexes_failed == 1
    await fresh.rebuild_indexes(every=True)
    scan = fresh.scan(f"host = 'Host-{value(700)}'")
    assert await scan.count() == 1
    assert scan.report.indexes_failed == 0
