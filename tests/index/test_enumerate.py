"""Enumerating index metadata: one request per file, nothing fatal, nothing lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError
from lakehouse.format.puffin import PuffinFooter
from lakehouse.index.enumerate import IndexMetaScan, iterate_index_metas
from lakehouse.index.models import IndexEntry, IndexType
from lakehouse.index.rows import COMPACT, FLAT, GREPTIME
from lakehouse.index.sources import FileListSource, GreptimeListing, IndexFile, PrefixSource
from lakehouse.io import ObjectStore
from lakehouse.io.open import stacked
from lakehouse.testing import LatencyStore, RecordingStore, memory_store
from lakehouse.testing.index_files import all_kinds, puffin

FILE_ID = "0123abcd-0000-4000-8000-00000000000{}"
KINDS = [
    ("bloom_skipping", "1"),
    ("fulltext_bloom", "4"),
    ("fulltext_tantivy", "5"),
    ("inverted", "1"),
    ("inverted", "2"),
]


async def filled(files: int = 5, *, filler: int = 0) -> tuple[RecordingStore, list[tuple[str, int | None]]]:
    """A store with files of all four kinds, and their list."""
    store = RecordingStore(memory_store())
    data = all_kinds(filler=filler)
    keys = [f"idx/{number:03}.puffin" for number in range(files)]
    for key in keys:
        await store.put(key, data)
    store.clear()
    return store, [(key, len(data)) for key in keys]


async def entries(scan: IndexMetaScan) -> list[IndexEntry]:
    """Everything a scan yields."""
    return [entry async for entry in scan]


async def test_one_request_per_file() -> None:
    """With sizes known, a file costs exactly one GET, whatever indexes it holds."""
    store, files = await filled(7)
    scan = iterate_index_metas(FileListSource(store, files))
    found = await entries(scan)
    assert len(found) == 7 * len(KINDS)
    assert store.kinds() == {"get": 7}
    assert scan.stats.cost.requests == 0  # a bare store counts nothing; the recording store did


async def test_a_listing_gives_the_sizes() -> None:
    """A prefix costs its listing and one GET per file."""
    store, _ = await filled(7)
    assert len(await entries(iterate_index_metas(PrefixSource(store, "idx/")))) == 7 * len(KINDS)
    assert store.kinds() == {"list": 1, "get": 7}


async def test_unknown_sizes_cost_no_head() -> None:
    """Without sizes a file costs one suffix GET."""
    store, files = await filled(3)
    await entries(iterate_index_metas(FileListSource(store, [(key, None) for key, _ in files])))
    assert store.kinds() == {"get": 3}


async def test_far_tails_come_together_in_one_more_request() -> None:
    """Metadata that is not near the footer costs one more request for all blobs of the file."""
    store, files = await filled(4, filler=50_000)
    settings = IndexSettings(prefetch_bytes=4096, prefetch_max_bytes=4096)
    found = await entries(iterate_index_metas(FileListSource(store, files), settings=settings))
    assert len(found) == 4 * len(KINDS)
    assert store.kinds() == {"get": 8}


async def test_the_prefetch_learns() -> None:
    """When files need a longer tail than was fetched, the next ones are read with a longer one."""
    store, files = await filled(10, filler=50_000)
    settings = IndexSettings(prefetch_bytes=4096)
    await entries(iterate_index_metas(FileListSource(store, files), settings=settings, concurrency=1))
    assert store.kinds() == {"get": 11}


async def test_a_second_pass_with_a_cache_makes_no_request() -> None:
    """What was read once comes from the cache, and is the same."""
    store, files = await filled(6)
    cache = Held()
    first = await entries(iterate_index_metas(FileListSource(store, files), cache=cache, order="listing"))
    store.clear()
    scan = iterate_index_metas(FileListSource(store, files), cache=cache, order="listing")
    assert await entries(scan) == first
    assert store.calls == []
    assert scan.stats.cache_hits == 6


async def test_a_replaced_file_is_not_served_from_the_cache() -> None:
    """The cache knows a file by its version, where a listing tells it."""
    store, _ = await filled(1)
    cache = Held()
    await entries(iterate_index_metas(PrefixSource(store), cache=cache))
    await store.put("idx/000.puffin", puffin(("greptime-fulltext-index-v1-9", b'{"files":[]}', {})))
    found = await entries(iterate_index_metas(PrefixSource(store), cache=cache))
    assert [entry.target_key for entry in found] == ["9"]


async def test_tantivy_costs_nothing_extra() -> None:
    """Only the kinds asked for are read; tantivy's metadata is in the footer."""
    store, files = await filled(2, filler=50_000)
    settings = IndexSettings(prefetch_bytes=1024, prefetch_max_bytes=1024)
    scan = iterate_index_metas(
        FileListSource(store, files), kinds={IndexType.FULLTEXT_TANTIVY}, settings=settings
    )
    assert [entry.target_key for entry in await entries(scan)] == ["5", "5"]
    assert store.kinds() == {"get": 2}


async def test_order_within_and_across_files() -> None:
    """Targets come by type and key; files in the order of the list when that is asked for."""
    store, files = await filled(9)
    slow = LatencyStore(store, 0.002, jitter=0.9, seed=3)
    found = await entries(iterate_index_metas(FileListSource(slow, files), order="listing"))
    assert [entry.locator.index_file_path for entry in found[:: len(KINDS)]] == [key for key, _ in files]
    assert [(entry.index_type.value, entry.target_key) for entry in found[: len(KINDS)]] == KINDS


async def test_bad_files_are_problems_not_ends(caplog: pytest.LogCaptureFixture) -> None:
    """A bad file is one problem with its path and place; the others come out, and one summary is logged."""
    store, files = await filled(4)
    await store.put("idx/001.puffin", b"garbage" * 100)
    await store.delete("idx/002.puffin")
    with caplog.at_level(logging.INFO, logger="lakehouse.index"):
        scan = iterate_index_metas(FileListSource(store, files))
        found = await entries(scan)
    assert {entry.locator.index_file_path for entry in found} == {"idx/000.puffin", "idx/003.puffin"}
    assert {problem.path: problem.kind for problem in scan.problems} == {
        "idx/001.puffin": "corruption",
        "idx/002.puffin": "not-found",
    }
    assert (scan.stats.files, scan.stats.failed_files) == (2, 2)
    assert sum("cannot be read in full" in record.message for record in caplog.records) == 2
    assert sum("enumerated index metadata" in record.message for record in caplog.records) == 1


async def test_a_bad_blob_costs_only_its_own_target() -> None:
    """A broken blob leaves the file's other targets, and a row of GreptimeDB's shape without metadata."""
    store = memory_store()
    data = bytearray(all_kinds())
    bloom = PuffinFooter.parse(bytes(data), len(data))
    assert isinstance(bloom, PuffinFooter)
    blob = bloom.find("greptime-bloom-filter-v1-1")
    assert blob is not None
    data[blob.end - 4 : blob.end] = b"\xff\xff\xff\x7f"
    await store.put("x.puffin", bytes(data))
    scan = iterate_index_metas(PrefixSource(store))
    assert len(await scan.to_arrow(COMPACT)) == len(KINDS) - 1
    assert [(problem.blob, problem.offset) for problem in scan.problems] == [(blob.type, blob.offset)]
    assert scan.stats.broken_blobs == 1
    rows = (await iterate_index_metas(PrefixSource(store)).to_arrow(GREPTIME)).to_pylist()
    assert len(rows) == len(KINDS)
    assert [row["meta_json"] is None for row in rows] == [True, False, False, False, False]


async def test_errors_can_end_the_scan() -> None:
    """With ``errors="raise"`` the first problem is the error, and no task is left."""
    store, files = await filled(4)
    await store.put("idx/001.puffin", b"garbage" * 100)
    before = asyncio.all_tasks()
    with pytest.raises(CorruptionError, match="idx/001"):
        await entries(iterate_index_metas(FileListSource(store, files), errors="raise"))
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("wrong", [-7, +7, -10_000])
async def test_wrong_sizes_are_put_right(wrong: int) -> None:
    """A manifest with a wrong size costs requests, not entries."""
    store, files = await filled(2)
    sized = [(key, max(0, (size or 0) + wrong)) for key, size in files]
    assert len(await entries(iterate_index_metas(FileListSource(store, sized)))) == 2 * len(KINDS)


async def test_tables_can_be_withheld() -> None:
    """The authoriser is asked once per table, before anything of it is read."""
    store = RecordingStore(memory_store())
    for table in ("a", "b"):
        for number in range(3):
            await store.put(f"{table}/{number}.puffin", all_kinds())
    store.clear()
    asked: list[str] = []

    async def authorise(table_dir: str) -> bool:
        asked.append(table_dir)
        return table_dir == "a/"

    scan = iterate_index_metas(PrefixSource(store), authorise=authorise)
    assert {entry.locator.table_dir for entry in await entries(scan)} == {"a/"}
    assert asked == ["a/", "b/"]
    assert scan.stats.hidden_files == 3
    assert store.kinds() == {"list": 1, "get": 3}


async def test_locations_can_be_masked(caplog: pytest.LogCaptureFixture) -> None:
    """Masked, no entry, problem or log line holds a path, and equal places stay equal."""
    store, files = await filled(3)
    await store.put("idx/001.puffin", b"garbage" * 100)
    with caplog.at_level(logging.DEBUG, logger="lakehouse"):
        scan = iterate_index_metas(FileListSource(store, files), mask_locations=True)
        found = await entries(scan)
    shown = repr(found) + repr(scan.problems) + caplog.text
    assert "idx/" not in shown
    assert len({entry.locator.table_dir for entry in found}) == 1
    assert len({entry.locator.index_file_path for entry in found}) == 2


async def test_a_slow_consumer_stops_the_work() -> None:
    """No more files are read than the bound allows while the consumer does nothing."""
    store, files = await filled(100)
    before = asyncio.all_tasks()
    scan = iterate_index_metas(FileListSource(store, files), concurrency=4)
    async with aclosing(scan.batches(rows=1)) as batches:
        await anext(batches)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(store.calls) <= 4 * 3
    assert asyncio.all_tasks() == before


async def test_greptime_directories() -> None:
    """Paths of a GreptimeDB data directory give table, region and file; other names are problems."""
    store = memory_store()
    region = "data/greptime/public/1024/1024_0000000002"
    data = all_kinds()
    await store.put(f"{region}/index/{FILE_ID.format(1)}.puffin", data)
    await store.put(f"{region}/metadata/index/{FILE_ID.format(2)}.3.puffin", data)
    await store.put(f"{region}/index/strange.puffin", data)
    await store.put(f"{region}/{FILE_ID.format(1)}.parquet", b"")
    scan = iterate_index_metas(GreptimeListing(store), order="listing")
    rows = (await scan.to_arrow(GREPTIME)).to_pylist()
    assert {row["table_dir"] for row in rows} == {"data/greptime/public/1024/"}
    assert {(row["region_id"], row["region_group"], row["file_id"]) for row in rows} == {
        (1024 << 32 | 2, 0, FILE_ID.format(1)),
        (1024 << 32 | 1 << 24 | 2, 1, FILE_ID.format(2)),
    }
    assert [problem.path for problem in scan.problems] == [f"{region}/index/strange.puffin"]


@pytest.mark.parametrize("shape", [COMPACT, GREPTIME, FLAT], ids=lambda shape: shape.name)
async def test_rows_as_arrow(shape: Any) -> None:
    """Every shape comes as Arrow batches of its schema, in batches of the size asked for."""
    store, files = await filled(10)
    scan = iterate_index_metas(FileListSource(store, files))
    batches = [batch async for batch in scan.batches(shape, rows=20)]
    assert {batch.schema for batch in batches} == {shape.schema}
    assert sum(batch.num_rows for batch in batches) == 50
    assert all(batch.num_rows >= 20 for batch in batches[:-1])


async def test_statistics() -> None:
    """A scan counts files, entries by kind, requests and bytes."""
    inner, files = await filled(5)
    scan = iterate_index_metas(PrefixSource(stacked(inner), "idx/"))
    await entries(scan)
    told = scan.stats.as_dict()
    assert told["files"] == 5
    assert told["entries"] == {
        "bloom_skipping": 5,
        "fulltext_bloom": 5,
        "fulltext_tantivy": 5,
        "inverted": 10,
    }
    assert told["cost"]["requests"] == {"get": 5, "list": 1}
    assert told["cost"]["bytes_read"] == sum(size or 0 for _, size in files)


async def test_files_may_come_from_anywhere() -> None:
    """Any object with a store and files is a source."""
    store, files = await filled(2)

    class Mine:
        def __init__(self, store: ObjectStore) -> None:
            self.store = store

        async def files(self) -> AsyncIterator[IndexFile]:
            async for file in FileListSource(self.store, files[:1]).files():
                assert isinstance(file, IndexFile)
                yield file

    assert len(await entries(iterate_index_metas(Mine(store)))) == len(KINDS)


async def test_an_object_replaced_between_two_reads_is_a_problem() -> None:
    """Metadata of two versions of a file is never mixed."""
    store, files = await filled(1, filler=50_000)
    settings = IndexSettings(prefetch_bytes=2048, prefetch_max_bytes=2048)

    class Replacing(RecordingStore):
        async def call(self, verb: str, key: str, request: Any, size: int = 0) -> Any:
            result = await super().call(verb, key, request, size)
            if verb == "get_range" and len(self.calls) == 1:
                await store.inner.put(key, all_kinds(rows=30, filler=50_000))
            return result

    scan = iterate_index_metas(FileListSource(Replacing(store.inner), files), settings=settings)
    assert await entries(scan) == []
    assert [problem.kind for problem in scan.problems] == ["object-changed"]


class Held(dict[Any, Any]):
    """The simplest cache there is."""

    def get_if_present(self, key: Any) -> Any:
        """What is held."""
        return self.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Holds it."""
        self[key] = value
