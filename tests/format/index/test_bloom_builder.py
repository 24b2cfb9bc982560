"""Building bloom blobs: upstream's bytes, however the rows come."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.index.bloom_builder import BloomBuilder, build_bloom
from lakehouse.format.index.greptime_value import encode_array
from tests.kit.blob_samples import bloom_meta, footer_of, manifest, sample, stored
from tests.kit.bloom_reference import bloom_filter, segment_sets
from tests.kit.sstable_samples import WAYS, looped

every_way = pytest.mark.parametrize("way", WAYS)


@every_way
def test_the_sample_is_built_byte_for_byte(way: str) -> None:
    """From the sample's rows comes the sample's blob: sizes, nulls, sharing and empty segment."""
    rows = manifest()["bloom-one.puffin"]["columns"]["3"]["rows"]
    data = sample("bloom-one")
    with looped(way):
        assert build_bloom(pa.array(rows), 128, 0.01) == stored(data, footer_of(data).blobs[0])


def test_blob_sizes_are_upstreams() -> None:
    """The blobs of upstream's own listing test have its sizes, from the rows alone."""
    field_0 = encode_array(pa.array([float(t) for t in range(20)]))
    assert len(build_bloom(field_0, 2, 0.01)) == 751
    tokens = pa.array([[b"y"]] * 20)
    assert len(build_bloom(tokens, 4, 0.001)) == 89


@pytest.mark.skipif(len(WAYS) < 2, reason="numba is not installed")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=20), max_size=60), st.integers(1, 40))
def test_both_ways_make_the_same_blob(values: list[bytes | None], size: int) -> None:
    """Values of any bytes, such as differ in zeros at their ends, are told apart either way."""
    column = pa.array([*values, b"", b"\0", b"\0\0", b"a", b"a\0"], pa.binary())
    blobs = set()
    for way in WAYS:
        with looped(way):
            blobs.add(build_bloom(column, size, 0.01))
    assert len(blobs) == 1


rows_of_one = st.lists(st.none() | st.integers(0, 9).map(lambda n: b"v%d" % n), max_size=60)
rows_of_many = st.lists(
    st.none() | st.lists(st.none() | st.integers(0, 9).map(lambda n: b"v%d" % n), max_size=4), max_size=40
)


@every_way
@settings(max_examples=80, deadline=None)
@given(
    rows=rows_of_one | rows_of_many,
    size=st.integers(1, 12),
    rate=st.sampled_from([0.3, 0.01, 1e-9, 1e-40]),
)
def test_blobs_follow_the_specification(
    way: str, rows: list[bytes | list[bytes] | None], size: int, rate: float
) -> None:
    """Filters, sharing and counts are those of a plain walk over the rows."""
    many = any(isinstance(row, list) for row in rows)
    with looped(way):
        blob = build_bloom(pa.array(rows, pa.list_(pa.binary()) if many else pa.binary()), size, rate)
    filters: list[tuple[int, bytes]] = []
    indices = []
    for values in segment_sets(rows, size):
        one = (len(values), bloom_filter(values, rate))
        if not filters or filters[-1] != one:
            filters.append(one)
        indices.append(len(filters) - 1)
    meta = bloom_meta(blob)
    assert (meta.rows_per_segment, meta.row_count) == (size, len(rows))
    assert meta.segment_loc_indices.tolist() == indices
    assert meta.element_counts.tolist() == [count for count, _ in filters]
    assert blob[: meta.bloom_filter_size] == b"".join(body for _, body in filters)


@every_way
@settings(max_examples=60, deadline=None)
@given(
    rows=rows_of_one | rows_of_many, size=st.integers(1, 12), cuts=st.lists(st.integers(0, 60), max_size=6)
)
def test_pieces_give_the_same_bytes(
    way: str, rows: list[bytes | list[bytes] | None], size: int, cuts: list[int]
) -> None:
    """However a column is cut into arrays, chunks and slices, the blob is the same."""
    many = any(isinstance(row, list) for row in rows)
    column = pa.array(rows, pa.list_(pa.binary()) if many else pa.binary())
    builder = BloomBuilder(size, 0.01)
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    with looped(way):
        for start, end in itertools.pairwise(bounds):
            builder.push(pa.chunked_array([column[start:end]]) if start % 2 else column[start:end])
        assert builder.finish() == build_bloom(column, size, 0.01)


@every_way
@pytest.mark.parametrize("size", [1000, 150_000, 10_000_000])
def test_columns_longer_than_a_batch_give_the_same_bytes(way: str, size: int) -> None:
    """Segments that span many batches, and batches that span many segments, lose nothing."""
    values = [b"%d" % (i * 7919 % 140_000) for i in range(300_000)]
    column = pa.array(values)
    builder = BloomBuilder(size, 0.1)
    with looped(way):
        blob = build_bloom(column, size, 0.1)
        for start in range(0, len(values), 39_997):
            builder.push(column[start : start + 39_997])
        assert builder.finish() == blob
    expected = [len(segment) for segment in segment_sets(values, size)]
    meta = bloom_meta(blob)
    assert meta.element_counts[meta.segment_loc_indices].tolist() == expected


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.large_binary()])
def test_strings_and_wide_binaries_are_values_too(type_: pa.DataType) -> None:
    """The Arrow type that holds the bytes does not matter."""
    column = pa.array([b"a", None, b"bc"])
    assert build_bloom(column.cast(type_), 2, 0.01) == build_bloom(column, 2, 0.01)


def test_lists_of_strings_are_tokens() -> None:
    """Rows may be lists of strings, as tokenizers give them, in either width."""
    plain = build_bloom(pa.array([[b"a", b"b"], None, [], [b"a"]]), 2, 0.01)
    for type_ in (pa.list_(pa.string()), pa.large_list(pa.large_string())):
        assert build_bloom(pa.array([["a", "b"], None, [], ["a"]], type_), 2, 0.01) == plain


def test_no_rows_give_a_blob_without_segments() -> None:
    """An empty column has metadata and nothing else."""
    meta = bloom_meta(BloomBuilder(7, 0.01).finish())
    assert (meta.rows_per_segment, meta.row_count, meta.segment_count) == (7, 0, 0)


def test_a_million_nulls_share_one_filter() -> None:
    """Equal neighbours are stored once, empty ones too."""
    meta = bloom_meta(build_bloom(pa.nulls(1_000_000, pa.binary()), 100, 0.01))
    assert meta.segment_count == 10_000
    assert meta.sizes.tolist() == [64]


def test_rows_may_come_one_by_one() -> None:
    """Nulls and values pushed singly give the blob of the whole column."""
    rows = [None, None, b"a", None, b"b", None, None, b"a"]
    builder = BloomBuilder(3, 0.01)
    for row in rows:
        builder.push(pa.array([row], pa.binary()))
    assert builder.finish() == build_bloom(pa.array(rows), 3, 0.01)


@pytest.mark.parametrize(("size", "rate"), [(0, 0.01), (-1, 0.01), (1, 0.0), (1, 1.5)])
def test_bad_parameters_are_refused(size: int, rate: float) -> None:
    """A segment has a row, and a rate is above 0 and at most 1."""
    with pytest.raises(InvalidInputError):
        BloomBuilder(size, rate)


def test_values_must_be_encoded() -> None:
    """Columns that were not encoded are refused by type."""
    with pytest.raises(InvalidInputError, match="int64"):
        build_bloom(pa.array([1]), 1, 0.01)


@pytest.mark.skipif(len(WAYS) < 2, reason="numba is not installed")
@settings(max_examples=60, deadline=None)
@given(rows=rows_of_one | rows_of_many, size=st.integers(1, 12), cut=st.integers(0, 60))
def test_the_way_may_change_between_rows(rows: list[bytes | list[bytes] | None], size: int, cut: int) -> None:
    """Loops that are worth compiling only after some rows go on where the others were."""
    many = any(isinstance(row, list) for row in rows)
    column = pa.array(rows, pa.list_(pa.binary()) if many else pa.binary())
    builder = BloomBuilder(size, 0.01)
    with looped("interpreted"):
        expected = build_bloom(column, size, 0.01)
        builder.push(column[:cut])
    with looped("compiled"):
        builder.push(column[cut:])
        assert builder.finish() == expected
