"""Building index files from rows: GreptimeDB's bytes and numbers, however the rows are cut."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.puffin import PuffinFile

from lakehouse.config import IndexSettings
from lakehouse.errors import InvalidInputError
from lakehouse.format.puffin.footer import PuffinFooter
from lakehouse.format.schema.target_key import (
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    JsonPathTarget,
)
from lakehouse.format.text.config import Analyzer
from lakehouse.index.building.builder import IndexSpec, PuffinIndexBuilder
from lakehouse.index.metas.file_metas import FileMetas, read_file_metas
from lakehouse.index.models import IndexType, InvertedInfo
from lakehouse.index.puffin.reader import PuffinReader
from lakehouse.index.puffin.writer import PuffinWriter
from lakehouse.io.scratch import ScratchSpace
from lakehouse.testing import RecordingStore, memory_store

BLOOM, INVERTED = IndexType.BLOOM_SKIPPING, IndexType.INVERTED
FULLTEXT, TANTIVY = IndexType.FULLTEXT_BLOOM, IndexType.FULLTEXT_TANTIVY


def spec(kind: IndexType, target: IndexTarget | int, **how: Any) -> IndexSpec:
    """A specification; a number is a column."""
    if isinstance(target, int):
        target = ColumnTarget(column_id=target)
    return IndexSpec(kind=kind, target=target, **how)


def footer_of(data: bytes) -> PuffinFooter:
    """The footer of a whole file."""
    footer = PuffinFooter.parse(data, len(data))
    assert isinstance(footer, PuffinFooter)
    return footer


async def metas_of(data: bytes) -> FileMetas:
    """What an enumeration says of a whole file."""
    store = memory_store()
    await store.put("x.puffin", data)
    return await read_file_metas(PuffinReader(store, "x.puffin"), settings=IndexSettings())


def built(specs: Sequence[IndexSpec], names: dict[int, str], *batches: pa.RecordBatch, **how: Any) -> bytes:
    """The file over some batches."""
    builder = PuffinIndexBuilder(specs, names, **how)
    for batch in batches:
        builder.push(batch)
    return builder.finish_bytes()


async def test_the_numbers_of_greptimedb() -> None:
    """Upstream's example of all index types has upstream's sizes, one request for its metadata included."""
    rows = pa.record_batch(
        {
            "field_0": np.arange(20.0),
            "field_1": 20 - np.arange(20.0),
            "field_2": pa.array(["y"] * 20),
            "field_3": pa.array(["z"] * 20),
        }
    )
    specs = [
        spec(BLOOM, 1, granularity=2, false_positive_rate=0.01),
        spec(INVERTED, 1),
        spec(INVERTED, 2),
        spec(FULLTEXT, 4, granularity=4, false_positive_rate=0.001),
        spec(TANTIVY, 5, analyzer=Analyzer.CHINESE, case_sensitive=True),
    ]
    names = {1: "field_0", 2: "field_1", 4: "field_2", 5: "field_3"}
    store = RecordingStore(memory_store())
    async with ScratchSpace() as scratch, scratch.workspace() as workspace:
        builder = PuffinIndexBuilder(specs, names, workspace=workspace)
        builder.push(rows)
        async with PuffinWriter(store, "x.puffin") as writer:
            await builder.finish(writer)
    assert writer.stored.size // 1000 == 6
    store.clear()
    reader = PuffinReader(store, "x.puffin", size=writer.stored.size)
    targets = {
        (target.index_type, target.target_key): target
        for target in (await read_file_metas(reader, settings=IndexSettings())).targets
    }
    assert store.kinds() == {"get": 1}
    bloom, words, tantivy = targets[BLOOM, "1"], targets[FULLTEXT, "4"], targets[TANTIVY, "5"]
    assert (bloom.blob_size, words.blob_size, tantivy.blob_size) == (751, 89, 1109)
    assert bloom.meta is not None
    assert bloom.meta.bloom is not None
    assert (bloom.meta.bloom.bloom_filter_size, bloom.meta.bloom.segment_count) == (640, 10)
    for key, size, fst_size in (("1", 518, 150), ("2", 515, 147)):
        meta = targets[INVERTED, key].meta
        assert meta is not None
        assert isinstance(meta.inverted, InvertedInfo)
        assert (meta.inverted.inverted_index_size, meta.inverted.fst_size) == (size, fst_size)
        assert (meta.inverted.relative_fst_offset, meta.inverted.null_bitmap_size) == (368, 8)
    configs = [blob.properties for blob in writer.footer.blobs if blob.properties]
    assert configs == [
        {"fulltext_config": '{"analyzer":"English","case_sensitive":false}'},
        {"fulltext_config": '{"analyzer":"Chinese","case_sensitive":true}'},
    ]


def test_the_file_of_250_bytes() -> None:
    """Upstream's file of one inverted string column of ten equal rows is 250 bytes long."""
    assert len(built([spec(INVERTED, 0)], {0: "tag"}, pa.record_batch({"tag": ["x"] * 10}))) == 250


def test_blobs_come_in_upstreams_order() -> None:
    """Inverted indexes first and in one blob, then fulltext, then bloom, each by target key."""
    rows = pa.record_batch({"a": ["x"], "b": ["y"]})
    specs = [spec(BLOOM, 2), spec(FULLTEXT, 2), spec(INVERTED, 2), spec(BLOOM, 1), spec(INVERTED, 1)]
    blobs = footer_of(built(specs, {1: "a", 2: "b"}, rows)).blobs
    assert [blob.type for blob in blobs] == [
        "greptime-inverted-index-v1",
        "greptime-fulltext-index-bloom-2",
        "greptime-bloom-filter-v1-1",
        "greptime-bloom-filter-v1-2",
    ]


def test_tables_say_how_filters_were_built() -> None:
    """In table style a fulltext configuration also has granularity and false positive rate."""
    words = [spec(FULLTEXT, 1, granularity=7, false_positive_rate=0.5, case_sensitive=True)]
    rows = pa.record_batch({"a": ["x"]})
    plain, table = (
        footer_of(built(words, {1: "a"}, rows, table_style=style)).blobs[0].properties["fulltext_config"]
        for style in (False, True)
    )
    assert plain == '{"analyzer":"English","case_sensitive":true}'
    assert table == plain[:-1] + ',"granularity":7,"false_positive_rate":0.5}'


EVERY_KIND = [
    spec(BLOOM, 1, granularity=3),
    spec(INVERTED, 1, segment_row_count=4),
    spec(INVERTED, 2, segment_row_count=4),
    spec(FULLTEXT, 2, granularity=5),
    spec(BLOOM, ColumnSetTarget(column_ids=(1, 2)), granularity=2),
    spec(INVERTED, JsonPathTarget(column_id=3, pointer="/a"), segment_row_count=4),
    spec(BLOOM, ExpressionTarget.of("lower(word)"), granularity=4),
    spec(INVERTED, ExpressionTarget.of("length(word)"), segment_row_count=4),
]
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 9),
        st.none() | st.sampled_from(["A", "b", "A b", "", "ü_Ü"]),
        st.none() | st.sampled_from(['{"a":1}', '{"a":"x"}', "{}", "no"]),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=60)
@given(ROWS, st.lists(st.integers(0, 30), max_size=4))
def test_bytes_do_not_depend_on_batches(rows: list[tuple[Any, ...]], cuts: list[int]) -> None:
    """The same rows give the same file, however they are cut into batches."""
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    batch = pa.record_batch(
        {
            "number": pa.array(columns[0], pa.int16()),
            "word": pa.array(columns[1], pa.string()),
            "doc": pa.array(columns[2], pa.string()),
        }
    )
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [batch[start:end] for start, end in itertools.pairwise(edges)]
    names = {1: "number", 2: "word", 3: "doc"}
    whole = built(EVERY_KIND, names, batch)
    assert built(EVERY_KIND, names, *parts) == whole
    assert built(EVERY_KIND, names, pa.Table.from_batches(parts, batch.schema)) == whole


async def test_every_target_is_enumerated() -> None:
    """Sets, JSON paths and expressions come back from the file as the targets they were built for."""
    rows = pa.record_batch(
        {"number": pa.array([1, 2], pa.int16()), "word": ["A", "b"], "doc": ['{"a":1}', None]}
    )
    metas = await metas_of(built(EVERY_KIND, {1: "number", 2: "word", 3: "doc"}, rows))
    assert metas.broken == ()
    found = {(target.index_type, target.target) for target in metas.targets}
    assert found == {(one.kind, one.target) for one in EVERY_KIND}


def test_pyiceberg_reads_index_files() -> None:
    """pyiceberg's puffin reader finds every blob of an index file, byte for byte."""
    rows = pa.record_batch(
        {"number": pa.array([1, 2], pa.int16()), "word": ["A", "b"], "doc": ['{"a":1}', None]}
    )
    data = built(EVERY_KIND, {1: "number", 2: "word", 3: "doc"}, rows)
    theirs = PuffinFile(data)
    ours = footer_of(data).blobs
    assert [(blob.type, blob.properties) for blob in theirs.footer.blobs] == [
        (blob.type, blob.properties) for blob in ours
    ]
    assert [theirs.get_blob_payload(blob) for blob in theirs.footer.blobs] == [
        data[blob.offset : blob.end] for blob in ours
    ]


def test_expressions_say_what_they_are() -> None:
    """A blob has the text of its expression and which columns it names; the inverted one for each target."""
    targets = [ExpressionTarget.of(text) for text in ("lower(word)", "length(word)")]
    specs = [spec(BLOOM, targets[0]), *(spec(INVERTED, target) for target in targets)]
    inverted, bloom = footer_of(built(specs, {2: "word"}, pa.record_batch({"word": ["A"]}))).blobs
    assert bloom.properties == {"target_expr": "lower(word)", "target_columns": '{"word":2}'}
    assert inverted.properties == {
        f"target_expr.{targets[0].key}": "lower(word)",
        f"target_columns.{targets[0].key}": '{"word":2}',
        f"target_expr.{targets[1].key}": "length(word)",
        f"target_columns.{targets[1].key}": '{"word":2}',
    }


def test_values_that_are_no_text_are_cast() -> None:
    """A fulltext index over numbers or a dictionary has the words of their texts."""
    one = [spec(FULLTEXT, 1)]
    texts = built(one, {1: "a"}, pa.record_batch({"a": ["12", None, "7"]}))
    assert built(one, {1: "a"}, pa.record_batch({"a": pa.array([12, None, 7])})) == texts
    encoded = pa.array(["12", None, "7"]).dictionary_encode()
    assert built(one, {1: "a"}, pa.record_batch({"a": encoded})) == texts


def test_columns_may_lie_in_structs() -> None:
    """A dotted name reads the field of a struct."""
    rows = pa.record_batch({"s": pa.array([{"a": 1}, {"a": 2}, None], pa.struct([("a", pa.int64())]))})
    flat = pa.record_batch({"a": pa.array([1, 2, None], pa.int64())})
    assert built([spec(BLOOM, 1)], {1: "s.a"}, rows) == built([spec(BLOOM, 1)], {1: "a"}, flat)


def test_an_expression_may_be_the_same_for_all_rows() -> None:
    """An expression without a column has its one value in every row."""
    rows = pa.record_batch({"a": ["x", "y"]})
    data = built([spec(BLOOM, ExpressionTarget.of("lower('Q')"))], {}, rows)
    assert json.loads(footer_of(data).blobs[0].properties["target_columns"]) == {}


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        ([spec(BLOOM, 1), spec(BLOOM, 1)], "target 1 has two bloom_skipping indexes"),
        ([spec(BLOOM, 9)], "about column 9, which has no name here"),
        ([spec(BLOOM, ExpressionTarget.of("lower(b)"))], "reads column 'b', which has no id here"),
        ([spec(BLOOM, ExpressionTarget(expr_hash=1))], "only the hash is known"),
        ([spec(FULLTEXT, ColumnSetTarget(column_ids=(1, 2)))], "has no text"),
        ([spec(INVERTED, 1, segment_row_count=1), spec(INVERTED, 2)], "share one segment size"),
        ([spec(BLOOM, 1, granularity=0)], "at least one row"),
        ([spec(BLOOM, 1, false_positive_rate=0)], "false positive rate"),
        ([spec(TANTIVY, 1)], "pass workspace="),
        ([spec(BLOOM, JsonPathTarget(column_id=1, pointer="a"))], "no JSON pointer"),
    ],
)
def test_specifications_that_cannot_be(specs: list[IndexSpec], said: str) -> None:
    """A specification that cannot be built is refused before any row is taken."""
    with pytest.raises(InvalidInputError, match=said):
        PuffinIndexBuilder(specs, {1: "a", 2: "c"})


async def test_a_builder_is_used_once() -> None:
    """A finished builder takes no rows and makes no second file."""
    builder = PuffinIndexBuilder([spec(BLOOM, 1)], {1: "a"})
    builder.push(pa.record_batch({"a": ["x"]}))
    assert builder.row_count == 1
    builder.finish_bytes()
    with pytest.raises(InvalidInputError, match="is finished"):
        builder.push(pa.record_batch({"a": ["x"]}))
    with pytest.raises(InvalidInputError, match="is finished"):
        builder.finish_bytes()


async def test_tantivy_needs_a_writer() -> None:
    """An index of files cannot be made into bytes at once."""
    async with ScratchSpace() as scratch, scratch.workspace() as workspace:
        builder = PuffinIndexBuilder([spec(TANTIVY, 1)], {1: "a"}, workspace=workspace)
        with pytest.raises(InvalidInputError, match="finish it with a PuffinWriter"):
            builder.finish_bytes()
