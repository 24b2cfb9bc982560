"""Bad files in an enumeration: one record each, nothing fatal unless asked for, never wrong metadata."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError, FormatError, LakehouseError, NotFoundError
from lakehouse.format.index.bloom_builder import build_bloom
from lakehouse.format.index.greptime_value import encode_array
from lakehouse.format.index.inverted_build import InvertedBuilder
from lakehouse.index import (
    COMPACT,
    GREPTIME,
    ExpressionTarget,
    FileListSource,
    FileProblem,
    FulltextInfo,
    GreptimeListing,
    IndexFile,
    PrefixSource,
    iterate_index_metas,
)
from lakehouse.io import ObjectStore
from lakehouse.testing import Fault, FaultKind, FaultyStore, RecordingStore, memory_store
from lakehouse.testing.index_files import all_kinds, puffin
from tests.kit.blob_samples import GREPTIME as SAMPLES
from tests.kit.blob_samples import flipped, sample
from tests.kit.index_scans import KINDS, blob_of, entries, filled, with_broken_blob

BLOOM, INVERTED = "greptime-bloom-filter-v1-1", "greptime-inverted-index-v1"


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
    data = with_broken_blob(BLOOM)
    await store.put("x.puffin", data)
    scan = iterate_index_metas(PrefixSource(store))
    assert len(await scan.to_arrow(COMPACT)) == len(KINDS) - 1
    blob = blob_of(data, BLOOM)
    assert [(problem.blob, problem.offset) for problem in scan.problems] == [(blob.type, blob.offset)]
    assert f"x.puffin, blob '{BLOOM}' at byte {blob.offset}: " in scan.problems[0].message
    assert scan.stats.broken_blobs == 1
    rows = (await iterate_index_metas(PrefixSource(store)).to_arrow(GREPTIME)).to_pylist()
    assert len(rows) == len(KINDS)
    assert [row["meta_json"] is None for row in rows] == [True, False, False, False, False]


async def test_a_file_with_many_bad_blobs_is_one_record_and_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However many blobs of a file are broken, it is noted and logged once, with their number."""
    store = memory_store()
    await store.put("x.puffin", with_broken_blob(BLOOM, INVERTED, "greptime-fulltext-index-bloom-4"))
    with caplog.at_level(logging.WARNING, logger="lakehouse"):
        scan = iterate_index_metas(PrefixSource(store))
        rows = (await scan.to_arrow(GREPTIME)).to_pylist()
    assert [(row["index_type"], row["target_key"]) for row in rows] == [
        ("bloom_filter", "1"),
        ("fulltext_bloom", "4"),
        ("fulltext_tantivy", "5"),
    ]
    assert [(problem.blob, problem.further) for problem in scan.problems] == [(INVERTED, 2)]
    assert len(caplog.records) == 1
    assert scan.stats.broken_blobs == 3


async def test_many_bad_files_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A thousand bad files are a thousand records, and a handful of lines."""
    store = memory_store()
    await store.put("bad.puffin", b"garbage" * 10)
    with caplog.at_level(logging.WARNING, logger="lakehouse.index"):
        scan = iterate_index_metas(FileListSource(store, [("bad.puffin", 70)] * 1000))
        assert await entries(scan) == []
    assert len(scan.problems) == scan.stats.failed_files == 1000
    assert len(caplog.records) <= 5


async def test_a_blob_without_bytes_costs_only_its_own_target() -> None:
    """An empty blob begins where its neighbour does, and the two are not mixed up."""
    store = memory_store()
    data = all_kinds()
    blob = blob_of(data, BLOOM)
    filters = data[blob.offset : blob.end]
    await store.put("x.puffin", puffin(("greptime-bloom-filter-v1-9", b"", {}), (BLOOM, filters, {})))
    scan = iterate_index_metas(PrefixSource(store))
    found = {entry.target_key: (entry.meta is not None, entry.error is None) for entry in await entries(scan)}
    assert found == {"1": (True, True), "9": (False, False)}


async def test_a_type_that_occurs_twice_gives_a_row_each() -> None:
    """Of a blob type that a file has twice, both blobs are enumerated, as both are there."""
    store = memory_store()
    data = all_kinds()
    blob = blob_of(data, BLOOM)
    twice = (BLOOM, data[blob.offset : blob.end], {})
    await store.put("x.puffin", puffin(twice, twice))
    found = await entries(iterate_index_metas(PrefixSource(store)))
    assert [(entry.target_key, entry.error) for entry in found] == [("1", None), ("1", None)]


async def test_a_key_of_another_expression_costs_its_target() -> None:
    """Where a blob says another expression than its key, that target is broken, and the others are not."""
    wrong, right = (ExpressionTarget.of(text) for text in ("lower(a)", "length(a)"))
    numbers = encode_array(pa.array([1, 2]))
    inverted = InvertedBuilder([wrong.key, right.key], segment_row_count=10)
    inverted.push({wrong.key: numbers, right.key: numbers})
    texts = {f"target_expr.{wrong.key}": "lower(b)", f"target_expr.{right.key}": "length(a)"}
    bloom = build_bloom(numbers, 10, 0.01)
    store = memory_store()
    await store.put(
        "x.puffin",
        puffin(
            (INVERTED, inverted.finish(), texts),
            (f"greptime-bloom-filter-v1-{wrong.key}", bloom, {"target_expr": "lower(b)"}),
            (f"greptime-bloom-filter-v1-{right.key}", bloom, {"target_expr": "length(a)"}),
        ),
    )
    scan = iterate_index_metas(PrefixSource(store))
    found = {(entry.index_type.value, entry.target_key): entry for entry in await entries(scan)}
    for kind in ("inverted", "bloom_skipping"):
        assert found[kind, right.key].target == right
        assert found[kind, right.key].error is None
        assert found[kind, wrong.key].target is None
        assert "lower(b)" in (found[kind, wrong.key].error or "")
    assert scan.stats.broken_blobs == 2


@pytest.mark.parametrize(
    ("config", "granularity", "rate"),
    [
        ('{"analyzer":"English","case_sensitive":false}', 4, None),
        ('{"analyzer":"English","case_sensitive":false,"granularity":9,"false_positive_rate":0.5}', 9, 0.5),
        (None, 4, None),
        ("broken", 4, None),
    ],
)
async def test_a_configuration_that_says_little(
    config: str | None, granularity: int, rate: float | None
) -> None:
    """Without granularity that of the filters counts and the rate is null; a broken text is English."""
    words = pa.array([[b"y"]] * 20, pa.list_(pa.binary()))
    blob = ("greptime-fulltext-index-bloom-4", build_bloom(words, 4, 0.001))
    store = memory_store()
    await store.put("x.puffin", puffin((*blob, {} if config is None else {"fulltext_config": config})))
    scan = iterate_index_metas(PrefixSource(store))
    (entry,) = await entries(scan)
    assert entry.meta is not None
    assert entry.meta.fulltext == FulltextInfo(
        analyzer="english",
        case_sensitive=False,
        granularity=granularity,
        false_positive_rate=rate,
        raw_config=config,
    )
    assert scan.problems == []


async def test_metadata_too_long_to_be_true_is_not_fetched() -> None:
    """A blob that claims metadata beyond the limit costs its target, and no bytes."""
    store = RecordingStore(memory_store())
    huge = bytes(300_000) + (250_000).to_bytes(4, "little")
    data = puffin((BLOOM, huge, {}), ("greptime-fulltext-index-v1-5", b'{"files":[]}', {}))
    await store.put("x.puffin", data)
    store.clear()
    settings = IndexSettings(footer_max_bytes=100_000)
    scan = iterate_index_metas(FileListSource(store, [("x.puffin", len(data))]), settings=settings)
    assert [(entry.target_key, entry.error is None) for entry in await entries(scan)] == [
        ("1", False),
        ("5", True),
    ]
    assert "index.footer_max_bytes" in scan.problems[0].message
    assert store.kinds() == {"get": 1}


async def test_errors_can_end_the_scan() -> None:
    """With ``errors="raise"`` the first problem is the error, and no task is left."""
    store, files = await filled(4)
    await store.put("idx/001.puffin", b"garbage" * 100)
    before = asyncio.all_tasks()
    with pytest.raises(CorruptionError, match="idx/001"):
        await entries(iterate_index_metas(FileListSource(store, files), errors="raise"))
    assert asyncio.all_tasks() == before


async def test_a_bad_blob_can_end_the_scan() -> None:
    """With ``errors="raise"`` a broken blob is an error of its own class that names file, blob and place."""
    store = memory_store()
    data = with_broken_blob(BLOOM)
    await store.put("x.puffin", data)
    with pytest.raises(CorruptionError) as broken:
        await entries(iterate_index_metas(PrefixSource(store), errors="raise"))
    facts = {name: broken.value.context[name] for name in ("key", "blob", "offset")}
    assert facts == {"key": "x.puffin", "blob": BLOOM, "offset": blob_of(data, BLOOM).offset}


async def test_a_problem_of_the_source_can_end_the_scan() -> None:
    """With ``errors="raise"`` a file whose name is none is an error, as is a problem without one."""
    store = memory_store()
    await store.put("data/greptime/public/1024/1024_0000000001/index/strange.puffin", b"")
    with pytest.raises(FormatError, match=r"strange\.puffin"):
        await entries(iterate_index_metas(GreptimeListing(store), errors="raise"))

    class Bare:
        def __init__(self, store: ObjectStore) -> None:
            self.store = store

        async def files(self) -> AsyncIterator[IndexFile | FileProblem]:
            yield FileProblem(path="a/b", kind="not-found", message="it is gone")

    with pytest.raises(LakehouseError, match="it is gone") as gone:
        await entries(iterate_index_metas(Bare(store), errors="raise"))
    assert gone.value.kind == "not-found"


async def test_a_missing_file_ends_the_scan_as_what_it_is() -> None:
    """With ``errors="raise"`` an error of the store arrives as the store raised it."""
    source = FileListSource(memory_store(), [("gone.puffin", 100)])
    with pytest.raises(NotFoundError, match="gone"):
        await entries(iterate_index_metas(source, errors="raise"))


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


@pytest.mark.parametrize("cuts", [1, 2], ids=["once", "again and again"])
async def test_a_store_that_sends_too_little_is_noticed(cuts: int) -> None:
    """A read cut short is made up for; a store that goes on so gives a problem, no loop."""
    store, files = await filled(1)
    faults = [Fault(kind=FaultKind.TRUNCATE, key="idx") for _ in range(cuts)]
    scan = iterate_index_metas(FileListSource(FaultyStore(store.inner, faults), files))
    found = await entries(scan)
    assert (len(found), len(scan.problems)) == ((len(KINDS), 0) if cuts == 1 else (0, 1))


@pytest.mark.parametrize("name", SAMPLES)
async def test_damaged_samples_give_metadata_that_fit_or_problems(name: str) -> None:
    """With any one bit turned over, or cut anywhere, a file is read within its bounds or named as bad."""
    data = sample(name)
    variants = [flipped(data, bit) for bit in range(8 * len(data))] + [data[:cut] for cut in range(len(data))]
    store = memory_store()
    files: list[tuple[str, int | None]] = []
    for number, variant in enumerate(variants):
        files.append((f"{number}.puffin", len(variant)))
        await store.put(f"{number}.puffin", variant)
    scan = iterate_index_metas(FileListSource(store, files), order="listing")
    for entry in await entries(scan):
        size = entry.locator.index_file_size
        assert size is not None
        assert entry.blob_size is not None
        assert entry.blob_size <= size - 20
        if entry.meta is None:
            assert entry.error is not None
            assert entry.locator.index_file_path in entry.error
        elif (inverted := entry.meta.inverted) is not None:
            assert (inverted.base_offset or 0) + (inverted.inverted_index_size or 0) <= entry.blob_size
        elif (bloom := entry.meta.bloom) is not None:
            assert (bloom.bloom_filter_size or 0) < entry.blob_size
    assert scan.stats.files + scan.stats.failed_files == len(variants)
    # Whatever lost its end is no puffin file any more.
    assert scan.stats.failed_files >= len(data)
    assert all(problem.path in problem.message for problem in scan.problems)
