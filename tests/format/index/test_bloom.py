"""Bloom blobs: metadata read, checked and written, filters searched."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.index.bloom import BloomMeta, hashes_of, looks, probe, segments_that_may_hold
from lakehouse.format.index.bloom_builder import build_bloom
from lakehouse.format.index.protobuf import Message, MessageField
from lakehouse.kernels.need_more import NeedMore
from lakehouse.kernels.varint import encode_varint
from tests.kit.blob_samples import bloom_meta, footer_of, manifest, sample, spec_bytes, stored
from tests.kit.bloom_reference import segment_sets

SAMPLE = stored(sample("bloom-one"), footer_of(sample("bloom-one")).blobs[0])


def as_upstream(meta: BloomMeta) -> dict[str, object]:
    """The metadata as the manifest writes it down."""
    locs = zip(meta.offsets.tolist(), meta.sizes.tolist(), meta.element_counts.tolist(), strict=True)
    return {
        "rows_per_segment": meta.rows_per_segment,
        "segment_count": meta.segment_count,
        "row_count": meta.row_count,
        "bloom_filter_size": meta.bloom_filter_size,
        "segment_loc_indices": meta.segment_loc_indices.tolist(),
        "bloom_filter_locs": [
            {"offset": offset, "size": size, "element_count": count} for offset, size, count in locs
        ],
    }


def test_metadata_is_read_as_upstream_reads_it() -> None:
    """The sample's metadata is what GreptimeDB's own reader finds."""
    (expected,) = manifest()["bloom-one.puffin"]["upstream_read_back"]["blobs"]
    assert as_upstream(bloom_meta(SAMPLE)) == expected["bloom_filter_meta"]


def test_metadata_is_written_as_it_was() -> None:
    """Encoding the sample's metadata gives its bytes."""
    assert bloom_meta(SAMPLE).encode() == SAMPLE[448:-4]


def test_the_example_of_the_specification_is_true() -> None:
    """The blob drawn in the specification is built from its rows, read, and written again."""
    blob = spec_bytes("index-bloom.md", "blob")
    assert build_bloom(pa.array([b"a", b"b", b"c"]), 2, 0.01) == blob
    meta = bloom_meta(blob)
    assert meta.encode() == blob[128:-4]
    held = segments_that_may_hold(meta, blob, pa.array([b"a", b"b", b"c", b"d"]))
    assert held.tolist() == [[True, False], [True, False], [False, True], [False, False]]


def test_a_short_tail_asks_for_exactly_what_is_missing() -> None:
    """From any tail, the metadata or the tail that holds it."""
    for length in range(len(SAMPLE)):
        found = BloomMeta.from_tail(SAMPLE[len(SAMPLE) - length :], len(SAMPLE))
        if length >= 56:
            assert found == bloom_meta(SAMPLE)
        else:
            assert found == NeedMore(start=len(SAMPLE) - (4 if length < 4 else 56), end=len(SAMPLE))


def test_values_are_found_in_their_segments() -> None:
    """Every value of the sample's rows is found where it is, and nulls nowhere in particular."""
    rows = manifest()["bloom-one.puffin"]["columns"]["3"]["rows"]
    distinct = sorted({row for row in rows if row is not None})
    held = segments_that_may_hold(bloom_meta(SAMPLE), SAMPLE, pa.array(distinct))
    sets = segment_sets([None if row is None else row.encode() for row in rows], 128)
    for found, value in zip(held.tolist(), distinct, strict=True):
        for may, values in zip(found, sets, strict=True):
            assert may or value.encode() not in values
    assert held.sum() < held.size / 2


def test_a_null_may_be_anywhere() -> None:
    """No filter says anything about nulls."""
    values = pa.array([None, "nowhere"])
    assert segments_that_may_hold(bloom_meta(SAMPLE), SAMPLE, values).tolist() == [[True] * 5, [False] * 5]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.none() | st.integers(0, 30).map(lambda n: b"v%d" % n), max_size=120),
    st.integers(1, 9),
    st.sampled_from([0.5, 0.01, 1e-6]),
)
def test_search_and_single_probes_agree(rows: list[bytes | None], size: int, rate: float) -> None:
    """Searching all segments gives what probing the filter of each gives, and misses nothing."""
    blob = build_bloom(pa.array(rows, pa.binary()), size, rate)
    meta = bloom_meta(blob)
    values = pa.array([b"v%d" % n for n in range(35)])
    held = segments_that_may_hold(meta, blob, values)
    assert held.shape == (35, -(-len(rows) // size))
    for segment, (loc, inside) in enumerate(
        zip(meta.segment_loc_indices.tolist(), segment_sets(rows, size), strict=True)
    ):
        start = int(meta.offsets[loc])
        one = blob[start : start + int(meta.sizes[loc])]
        alone = probe(one, int(meta.element_counts[loc]), values)
        assert held[:, segment].tolist() == alone.tolist()
        assert all(alone[int(value[1:])] for value in inside)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.none() | st.integers(0, 30).map(lambda n: b"v%d" % n), max_size=120),
    st.integers(1, 40),
    st.sampled_from([0.5, 0.01, 1e-6, 1e-12]),
)
def test_looks_one_after_another_say_what_a_search_says(
    rows: list[bytes | None], size: int, rate: float
) -> None:
    """Reading blocks look by look, of what is still open, ends with what all filters together say."""
    blob = build_bloom(pa.array(rows, pa.binary()), size, rate)
    meta = bloom_meta(blob)
    values = pa.array([b"v%d" % n for n in range(35)])
    held = np.ones((len(values), len(meta.sizes)), np.bool_)
    words = np.frombuffer(blob[: meta.bloom_filter_size], "<u8").reshape(-1, 8)
    for look in looks(meta, hashes_of(values)):
        left = look.among(held)
        assert held[left.values, left.filters].all()
        left.settle(held, words[left.places // 64])
    assert np.array_equal(held[:, meta.segment_loc_indices], segments_that_may_hold(meta, blob, values))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.none() | st.integers(0, 30).map(lambda n: b"v%d" % n), max_size=120),
    st.integers(1, 40),
    st.sampled_from([0.5, 0.01, 1e-6, 1e-12]),
)
def test_few_values_are_looked_up_as_many_are(rows: list[bytes | None], size: int, rate: float) -> None:
    """One value alone has the answer that it has among many."""
    blob = build_bloom(pa.array(rows, pa.binary()), size, rate)
    meta = bloom_meta(blob)
    values = pa.array([b"v%d" % n for n in range(100)])
    together = segments_that_may_hold(meta, blob, values)
    alone = [segments_that_may_hold(meta, blob, values[at : at + 1])[0] for at in range(len(values))]
    assert np.array_equal(np.array(alone).reshape(together.shape), together)


def test_a_search_needs_all_filters() -> None:
    """Filters that are not all there are refused."""
    with pytest.raises(InvalidInputError, match="448"):
        segments_that_may_hold(bloom_meta(SAMPLE), SAMPLE[:447], pa.array(["a"]))


def test_a_search_takes_encoded_values_only() -> None:
    """Values that were not encoded are refused."""
    with pytest.raises(InvalidInputError, match="encoded values"):
        segments_that_may_hold(bloom_meta(SAMPLE), SAMPLE, pa.array([1]))


@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_probe_needs_a_whole_filter(size: int) -> None:
    """Bytes that are no filter are refused."""
    with pytest.raises(InvalidInputError, match="filter"):
        probe(bytes(size), 1, pa.array([b"a"]))


def test_equality_is_by_content() -> None:
    """Two metadata are equal when they say the same."""
    one, two = bloom_meta(SAMPLE), bloom_meta(SAMPLE)
    assert one == two
    assert hash(one) == hash(two)
    assert one != bloom_meta(build_bloom(pa.array([b"a"]), 128, 0.01))


LOC = Message("Loc", *[MessageField(number=n, name=f"f{n}", kind="uint64") for n in (1, 2, 3)])


def blob_with(
    *,
    rows: int = 3,
    per_segment: int = 2,
    segments: int | None = None,
    total: int | None = None,
    indices: tuple[int, ...] = (0, 1),
    locs: tuple[tuple[int, int, int], ...] = ((0, 64, 2), (64, 64, 1)),
    filters: int = 128,
) -> bytes:
    """A blob whose metadata says anything."""
    numbers = (per_segment, len(indices) if segments is None else segments, rows, total or filters)
    meta = b"".join(encode_varint(n << 3) + encode_varint(v) for n, v in enumerate(numbers, start=1) if v)
    packed = b"".join(encode_varint(index) for index in indices)
    meta += b"\x2a" + encode_varint(len(packed)) + packed
    for loc in locs:
        one = LOC.encode({f"f{n}": value for n, value in enumerate(loc, start=1)})
        meta += b"\x32" + encode_varint(len(one)) + one
    return bytes(filters) + meta + len(meta).to_bytes(4, "little")


def test_consistent_metadata_is_taken() -> None:
    """The metadata the cases below are made from is itself in order."""
    assert bloom_meta(blob_with()).segment_count == 2


def test_a_missing_last_segment_is_taken() -> None:
    """Before 2025-03-03 a last segment of nulls was not written; such files are read."""
    assert bloom_meta(blob_with(rows=5)).segment_count == 2


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (blob_with(per_segment=0), "rows per segment"),
        (blob_with(rows=7), "segment count"),
        (blob_with(rows=2), "segment count"),
        (blob_with(rows=2**64 - 1), "segment count"),
        (blob_with(segments=1, rows=2), "number of filter indexes"),
        (blob_with(indices=(0, 2)), "filter index"),
        (blob_with(indices=(0, 2**64 - 1)), "filter index"),
        (blob_with(indices=(0, 0), locs=()), "filter index"),
        (blob_with(total=64), "size of all filters"),
        (blob_with(filters=192, total=128), "size of all filters"),
        (blob_with(filters=192), "sum of filter sizes"),
        (blob_with(locs=((0, 64, 1), (0, 64, 1))), "filter offset"),
        (blob_with(locs=((64, 64, 1), (0, 64, 1))), "filter offset"),
        (blob_with(locs=((0, 64, 1), (128, 64, 1))), "filter offset"),
        (blob_with(locs=((0, 64, 1), (2**63, 64, 1))), "filter offset"),
        (blob_with(locs=((0, 60, 1), (60, 68, 1))), "filter size"),
        (blob_with(locs=((0, 128, 1), (128, 0, 1))), "filter"),
        (blob_with(locs=((0, 64, 1), (64, 2**63, 1))), "filter size"),
        (blob_with(locs=((0, 64, 1), (64, 64, 2**63))), "element count"),
    ],
)
def test_inconsistent_metadata_is_refused_by_name(blob: bytes, problem: str) -> None:
    """Numbers that do not fit each other or the blob are refused, and the message says which."""
    with pytest.raises(CorruptionError, match=problem) as caught:
        bloom_meta(blob)
    assert {"expected", "got"} <= set(caught.value.context)


def test_json_metadata_is_refused_by_name() -> None:
    """Files older than 2025-01-16 have JSON metadata; they are told from damaged ones."""
    old = json.dumps({"bloom_filter_segments_size": 64, "rows_per_segment": 2}).encode()
    with pytest.raises(FormatError, match="2025-01-16") as caught:
        bloom_meta(bytes(64) + old + len(old).to_bytes(4, "little"))
    assert not isinstance(caught.value, CorruptionError)


def test_a_thousand_filters_decode() -> None:
    """Metadata of many segments gives the same numbers as that of few."""
    count = 3000
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 300, count) * 64
    meta = BloomMeta(
        rows_per_segment=10_240,
        row_count=count * 10_240,
        segment_loc_indices=np.arange(count),
        offsets=np.cumsum(sizes) - sizes,
        sizes=sizes,
        element_counts=rng.integers(0, 10_240, count),
    )
    assert BloomMeta.decode(meta.encode(), int(sizes.sum())) == meta
