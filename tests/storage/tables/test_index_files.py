"""Enumerating the indexes of a warehouse: one request per index file, rows that say where each is."""

from __future__ import annotations

from typing import Any

import google_crc32c
import pyarrow as pa
import pytest

from lakehouse.errors import NotFoundError
from lakehouse.index import COMPACT, FLAT, GREPTIME
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.testing import RecordingStore, memory_store

SCHEMA = pa.schema({"id": pa.int64(), "host": pa.string(), "message": pa.string()})
INDEXES: dict[Any, Any] = {
    "host": ["inverted", {"bloom": {"granularity": 64}}],
    "message": {"fulltext": {"granularity": 64}},
    "id,host": "bloom",
    "lower(host)": "bloom",
}
NAMES = ["a.one", "a.two", "b.one"]


async def warehouse(files: int = 3, rows: int = 2000) -> tuple[RecordingStore, Lake]:
    """Three tables of two buckets, each with some index files."""
    store = RecordingStore(memory_store())
    lake = Lake(stacked(store))
    for database in ("a", "b"):
        await lake.create_database(database)
    for name in NAMES:
        table = await lake.create_table(
            name, SCHEMA, primary_key="id", bucket=2, indexes=INDEXES, options={"index.min_rows": 1}
        )
        for number in range(files):
            await table.append(
                [
                    {"id": at, "host": f"host-{at}", "message": f"message {at} of {number}"}
                    for at in range(number * rows, (number + 1) * rows)
                ]
            )
    return store, Lake(stacked(store))


async def test_one_request_per_index_file() -> None:
    """However large the blobs are, the metadata of a file come with one GET, whatever order they are in."""
    store, lake = await warehouse()
    known = {name: await lake.table(name) for name in NAMES}
    expected = [one for table in known.values() for one in (await table.files()).to_pylist()]
    assert min(one["index_bytes"] for one in expected) > 16 * 1024
    store.clear()
    scan = lake.index_metas(concurrency=4)
    found = [entry async for entry in scan]
    gets = [call.key for call in store.calls if call.verb.startswith("get") and call.key.endswith(".puffin")]
    assert len(gets) == len(set(gets)) == len(expected) == 18
    assert len(found) == 18 * 5
    assert scan.problems == []
    assert {entry.locator.index_file_size for entry in found} == {one["index_bytes"] for one in expected}
    read = [call for call in store.calls if call.verb == "get_range" and call.key.endswith(".puffin")]
    assert len(read) == 18
    assert scan.stats.cost.bytes_read < sum(one["index_bytes"] for one in expected) / 2


async def test_a_second_enumeration_reads_no_index_file() -> None:
    """Metadata that were read are in the layer ``puffin`` of the lake, until it is cleared."""
    store, lake = await warehouse(files=1)
    first = [entry async for entry in lake.index_metas()]
    store.clear()
    assert [entry async for entry in lake.index_metas()] == first
    assert not [call for call in store.calls if call.key.endswith(".puffin")]
    assert await lake.cache.clear("puffin") > 0
    assert [entry async for entry in lake.index_metas()] == first
    assert [call for call in store.calls if call.key.endswith(".puffin")]


async def test_rows_tell_table_bucket_file_and_field() -> None:
    """Region ids hold table and bucket, file ids are those of data files, target keys are field ids."""
    _, lake = await warehouse(files=1)
    table = await lake.table("a.one")
    number = google_crc32c.value(table.uuid.bytes)
    files = {one["path"].rpartition("/")[2].split(".")[0]: one for one in (await table.files()).to_pylist()}
    found = [entry async for entry in lake.index_metas("a.one")]
    for entry in found:
        file = files[entry.locator.file_id]
        assert entry.locator.region_id == number << 32 | file["bucket"]
        assert (entry.locator.table_id, entry.locator.region_sequence) == (number, file["bucket"])
        assert entry.locator.index_file_path.endswith(file["index_path"])
        assert entry.locator.table_dir == entry.locator.index_file_path.removesuffix(file["index_path"])
        assert entry.error is None
    targets = {(entry.index_type.value, entry.target_key) for entry in found}
    assert targets >= {
        ("inverted", "2"), ("bloom_skipping", "2"), ("fulltext_bloom", "3"), ("bloom_skipping", "1,2"),
    }  # fmt: skip


@pytest.mark.parametrize("shape", [COMPACT, FLAT, GREPTIME], ids=["compact", "flat", "greptime"])
async def test_rows_are_complete_in_every_shape(shape: Any) -> None:
    """Every index has a row in each shape, and every row its place."""
    _, lake = await warehouse(files=1)
    rows = await lake.index_metas("a").to_arrow(shape)
    assert rows.num_rows == 2 * 2 * 5
    for name in ("region_id", "file_id"):
        assert rows.column(name).null_count == 0
    assert len(set(rows.column("file_id").to_pylist())) == 4


async def test_databases_and_tables_are_chosen_by_name() -> None:
    """A database's name gives its tables, a table's that table; one that is not there is an error."""
    _, lake = await warehouse(files=1)
    for name, count in ((None, 30), ("a", 20), ("b", 10), ("a.two", 10)):
        assert len([one async for one in lake.index_metas(name)]) == count
    with pytest.raises(NotFoundError):
        [one async for one in lake.index_metas("a.three")]


async def test_nothing_is_read_of_hidden_tables() -> None:
    """Of a table that may not be seen neither snapshot nor index file is read."""
    store, lake = await warehouse(files=1)
    hidden = (await lake.table("a.two")).location.removeprefix(store.url).strip("/")
    fresh = Lake(stacked(store))
    store.clear()
    scan = fresh.index_metas("a", authorise=lambda directory: directory != f"{hidden}/")
    assert len([one async for one in scan]) == 10
    assert not any(call.key.startswith(hidden) for call in store.calls)


async def test_a_broken_table_is_a_problem_of_its_own() -> None:
    """A table whose newest snapshot cannot be read is reported, and the others are enumerated."""
    store, lake = await warehouse(files=1)
    root = (await lake.table("a.one")).location.removeprefix(store.url).strip("/")
    await store.put(f"{root}/snapshot/snapshot-{2:020}", b"{}")
    scan = Lake(stacked(store)).index_metas("a")
    assert len([one async for one in scan]) == 10
    assert len(scan.problems) == 1
