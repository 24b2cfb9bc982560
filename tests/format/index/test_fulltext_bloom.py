"""Fulltext bloom blobs: upstream's sizes, and every word found again."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.index.bloom import BloomMeta, segments_that_may_hold
from lakehouse.format.index.bloom_builder import build_bloom
from lakehouse.format.index.fulltext_bloom import FulltextBloomBuilder
from lakehouse.format.text.config import Analyzer, FulltextConfig
from lakehouse.format.text.tokens import query_tokens, tokenize
from tests.kit.sstable_samples import WAYS, looped

every_way = pytest.mark.parametrize("way", WAYS)

texts = st.lists(st.none() | st.text(alphabet="abAB_ é中", max_size=12), max_size=20)


def blob_of(rows: list[str | None], config: FulltextConfig) -> bytes:
    """The blob of some rows."""
    builder = FulltextBloomBuilder(config)
    builder.push(pa.array(rows, pa.string()))
    return builder.finish()


def test_sizes_are_those_of_upstreams_tests() -> None:
    """Twenty rows of one letter take 89 bytes, 64 of them the filter that five segments share."""
    blob = blob_of(["y"] * 20, FulltextConfig(granularity=4, false_positive_rate=0.001))
    meta = BloomMeta.from_tail(blob, len(blob))
    assert isinstance(meta, BloomMeta)
    assert len(blob) == 89
    assert (meta.bloom_filter_size, meta.row_count, meta.rows_per_segment, meta.segment_count) == (
        64,
        20,
        4,
        5,
    )


@every_way
@settings(deadline=None)
@given(rows=texts, size=st.integers(1, 5), case_sensitive=st.booleans())
def test_a_blob_is_the_bloom_of_its_tokens(
    way: str, rows: list[str | None], size: int, case_sensitive: bool
) -> None:
    """The filters hold the tokens of each segment; pieces make the same bytes."""
    config = FulltextConfig(case_sensitive=case_sensitive, granularity=size, false_positive_rate=0.01)
    column = pa.array(rows, pa.string())
    with looped("interpreted"):
        expected = build_bloom(tokenize(column, config), size, 0.01)
    with looped(way):
        assert blob_of(rows, config) == expected
        pieces = FulltextBloomBuilder(config)
        for start in range(0, len(rows), 3):
            pieces.push(column[start : start + 3])
        assert pieces.finish() == expected


@every_way
def test_many_texts_give_the_same_blob_as_their_tokens(way: str) -> None:
    """Segments larger than what is looked at together, and slices of other scripts, lose nothing."""
    choose = random.Random(7)
    words = [f"{'Word' * (at % 4)}{at}_" for at in range(30_000)]
    rows: list[str | None] = [" ".join(choose.choices(words, k=6)) + "." * (at % 3) for at in range(40_000)]
    rows[33_000], rows[33_001] = "Größe: 中文 word1_", None
    config = FulltextConfig(granularity=25_000)
    with looped("interpreted"):
        expected = build_bloom(tokenize(pa.array(rows), config), 25_000, 0.01)
    with looped(way):
        assert blob_of(rows, config) == expected


@settings(deadline=None)
@given(texts, st.integers(1, 5))
def test_whole_words_are_never_passed_over(rows: list[str | None], size: int) -> None:
    """A query made of a row's words may match that row's segment."""
    config = FulltextConfig(granularity=size)
    blob = blob_of(rows, config)
    meta = BloomMeta.from_tail(blob, len(blob))
    assert isinstance(meta, BloomMeta)
    for place, row in enumerate(rows):
        tokens = pa.array(query_tokens((row or "").upper(), config), pa.binary())
        assert segments_that_may_hold(meta, blob, tokens)[:, place // size].all()


def test_a_querys_tokens_are_distinct_and_in_order() -> None:
    """A word asked for twice is sought once, as the index has it."""
    assert query_tokens("Disk full: DISK sda_1", FulltextConfig()) == [b"disk", b"full", b"sda_1"]
    assert query_tokens("Disk disk", FulltextConfig(case_sensitive=True)) == [b"Disk", b"disk"]
    assert query_tokens("我喜欢", FulltextConfig(analyzer=Analyzer.CHINESE)) == [
        "我".encode(),
        "喜欢".encode(),
    ]
    assert query_tokens(" - ", FulltextConfig()) == []
