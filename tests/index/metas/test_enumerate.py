"""Enumerating index metadata: one request per file, nothing fatal, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config import IndexSettings
from lakehouse.errors import InvalidInputError
from lakehouse.index.greptime.layout import table_dir
from lakehouse.index.greptime.sources import GreptimeListing
from lakehouse.index.metas.enumerate import iterate_index_metas
from lakehouse.index.metas.rows import COMPACT, FLAT, GREPTIME
from lakehouse.index.metas.sources import FileListSource, FileProblem, IndexFile, PrefixSource
from lakehouse.index.models import IndexType
from lakehouse.io import ObjectStore
from lakehouse.io.open import stacked
from lakehouse.testing import LatencyStore, memory_store
from lakehouse.testing.index_files import all_kinds, puffin
from tests.kit.index_scans import KINDS, Held, entries, filled

FILE_ID = "0123abcd-0000-4000-8000-00000000000{}"


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


@pytest.mark.parametrize("wrong", [-7, +7, -10_000])
async def test_wrong_sizes_are_put_right(wrong: int) -> None:
    """A manifest with a wrong size costs requests, not entries."""
    store, files = await filled(2)
    sized = [(key, max(0, (size or 0) + wrong)) for key, size in files]
    assert len(await entries(iterate_index_metas(FileListSource(store, sized)))) == 2 * len(KINDS)


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


async def test_a_scan_is_iterated_once() -> None:
    """A scan that was iterated is used up, and says so."""
    store, files = await filled(1)
    scan = iterate_index_metas(FileListSource(store, files))
    await entries(scan)
    with pytest.raises(InvalidInputError, match="once"):
        await entries(scan)


async def test_kinds_may_be_words() -> None:
    """A kind and the word for it are the same."""
    store, files = await filled(1)
    found = [
        {
            entry.target_key
            for entry in await entries(iterate_index_metas(FileListSource(store, files), kinds=kinds))
        }
        for kinds in ([IndexType.INVERTED], ["inverted"])
    ]
    assert found == [{"1", "2"}, {"1", "2"}]


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"errors": "ignore"}, {"order": "size"}, {"kinds": ["btree"]}]
)
async def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    """An argument that means nothing is refused, and never taken for another."""
    with pytest.raises(InvalidInputError, match=next(iter(wrong)).removesuffix("s")):
        iterate_index_metas(PrefixSource(memory_store()), **wrong)


async def test_what_was_replaced_since_the_listing_is_not_kept() -> None:
    """Metadata of a newer object never stand in the cache under the listed one's version."""
    store, _ = await filled(1)
    cache = Held()

    class Late(PrefixSource):
        async def files(self) -> AsyncIterator[IndexFile | FileProblem]:
            async for file in super().files():
                await store.put("idx/000.puffin", all_kinds())
                yield file

    assert len(await entries(iterate_index_metas(Late(store), cache=cache))) == len(KINDS)
    assert cache == {}


async def test_rows_are_queried_by_duckdb() -> None:
    """DuckDB reads the table, and the stream of batches, as they are."""
    duckdb = pytest.importorskip("duckdb")
    store, files = await filled(4)
    indexes = await iterate_index_metas(FileListSource(store, files)).to_arrow(FLAT)
    batches = [batch async for batch in iterate_index_metas(FileListSource(store, files)).batches(COMPACT)]
    stream = pa.RecordBatchReader.from_batches(COMPACT.schema, batches)
    with duckdb.connect() as database:
        database.register("indexes", indexes)
        database.register("stream", stream)
        per_kind = "SELECT index_type, count(*), sum(bloom_row_count) FROM indexes GROUP BY 1 ORDER BY 1"
        assert database.execute(per_kind).fetchall() == [
            ("bloom_skipping", 4, 80),
            ("fulltext_bloom", 4, 80),
            ("fulltext_tantivy", 4, None),
            ("inverted", 8, None),
        ]
        total = "SELECT sum((meta_json->'inverted'->>'total_row_count')::INT) FROM stream"
        assert database.execute(total).fetchall() == [(160,)]


async def test_a_listing_reads_one_table_when_it_is_told_which() -> None:
    """The prefix of a source may be one table's directory."""
    store = memory_store()
    for table in (1024, 2048):
        path = f"{table_dir('greptime', 'public', table)}{table}_0000000000/index/{FILE_ID.format(1)}.puffin"
        await store.put(path, all_kinds())
    scan = iterate_index_metas(GreptimeListing(store, table_dir("greptime", "public", 2048)))
    assert {entry.locator.table_id for entry in await entries(scan)} == {2048}
