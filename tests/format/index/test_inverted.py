"""Metadata of inverted blobs: read as upstream reads them, and refused when they cannot be."""

from __future__ import annotations

import dataclasses
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.index.inverted import (
    BLOB_TYPE,
    BitmapType,
    InvertedColumn,
    InvertedMetas,
    InvertedStats,
    segment_row_count_for,
)
from lakehouse.format.index.inverted_build import build_inverted
from lakehouse.kernels.need_more import NeedMore
from tests.kit.blob_samples import flipped, footer_of, manifest, sample, stored


@functools.cache
def sample_blob() -> bytes:
    """The inverted blob that upstream wrote."""
    data = sample("inverted-two")
    (blob,) = footer_of(data).blobs
    assert blob.type == BLOB_TYPE
    return stored(data, blob)


def metas_of(blob: bytes) -> InvertedMetas:
    """The metadata of a whole blob."""
    found = InvertedMetas.from_tail(blob, len(blob))
    assert isinstance(found, InvertedMetas)
    return found


def column(**changes: object) -> InvertedColumn:
    """A column of 100 bytes, changed."""
    plain = InvertedColumn(
        name="7",
        base_offset=0,
        inverted_index_size=100,
        relative_fst_offset=40,
        fst_size=60,
        relative_null_bitmap_offset=0,
        null_bitmap_size=8,
        stats=InvertedStats(null_count=0, distinct_count=1, min_value=b"a", max_value=b"a"),
        bitmap_type=BitmapType.ROARING,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def metas(*columns: InvertedColumn, **changes: int) -> InvertedMetas:
    """Metadata of some columns over 10 rows."""
    plain = InvertedMetas(columns={one.name: one for one in columns}, total_row_count=10, segment_row_count=4)
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def test_a_sample_is_read_as_upstream_reads_it() -> None:
    """Every number of the sample's metadata is what GreptimeDB's reader found."""
    found = metas_of(sample_blob())
    (blob,) = manifest()["inverted-two.puffin"]["upstream_read_back"]["blobs"]
    expected = blob["inverted_index_metas"]
    assert found.total_row_count == expected["total_row_count"]
    assert found.segment_row_count == expected["segment_row_count"]
    assert found.segment_count == 13
    assert list(found.columns) == sorted(expected["metas"])
    for name, wanted in expected["metas"].items():
        got = found.columns[name]
        for key in InvertedColumn.__slots__:
            if key != "stats":
                assert getattr(got, key) == wanted[key]
        assert got.stats is not None
        assert got.stats.null_count == wanted["stats"]["null_count"]
        assert got.stats.distinct_count == wanted["stats"]["distinct_count"]
        assert got.stats.min_value.hex() == wanted["stats"]["min_value_hex"]
        assert got.stats.max_value.hex() == wanted["stats"]["max_value_hex"]


@given(st.integers(0, 900))
def test_any_tail_leads_to_the_metadata(read: int) -> None:
    """However much of the blob's end is at hand, the next range asked for is enough."""
    blob = sample_blob()
    found = InvertedMetas.from_tail(blob[len(blob) - min(read, len(blob)) :], len(blob))
    for _ in range(2):
        if isinstance(found, NeedMore):
            found = InvertedMetas.from_tail(blob[found.start : found.end], len(blob))
    assert found == metas_of(blob)


def test_metadata_come_back() -> None:
    """Encoding and decoding changes nothing, statistics that are missing or all zero included."""
    for stats in (None, InvertedStats(null_count=0, distinct_count=0, min_value=b"", max_value=b"")):
        one = metas(column(stats=stats), column(name="12", base_offset=100, bitmap_type=0))
        assert InvertedMetas.decode(one.encode(), 200) == one


def test_columns_are_written_by_target_key() -> None:
    """The order in which columns are given does not matter to the bytes."""
    first, second = column(), column(name="12", base_offset=100)
    assert metas(first, second).encode() == metas(second, first).encode()


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (metas(column(), segment_row_count=0), "no rows"),
        (metas(column(base_offset=101)), "reaches too far"),
        (metas(column(inverted_index_size=201)), "reaches too far"),
        (metas(column(fst_size=61)), "FST of column '7' reaches too far"),
        (metas(column(null_bitmap_size=101)), "null bitmap of column '7' reaches too far"),
        (metas(column(), column(name="8", base_offset=99)), "overlaps"),
        (metas(column(base_offset=(1 << 64) - 50)), "reaches too far"),
        (metas(column(), total_row_count=1 << 60, segment_row_count=1), "more segments"),
    ],
)
def test_what_cannot_be_is_refused(broken: InvertedMetas, why: str) -> None:
    """Numbers that point out of the blob, into each other or nowhere reject the whole metadata."""
    with pytest.raises(CorruptionError, match=why):
        InvertedMetas.decode(broken.encode(), 200)


def test_two_names_are_refused() -> None:
    """A column's map key and name are the same, and no column occurs twice."""
    encoded = metas(column()).encode()
    with pytest.raises(CorruptionError, match="two names"):
        InvertedMetas.decode(encoded.replace(b"\x0a\x017", b"\x0a\x018", 1), 200)
    with pytest.raises(CorruptionError, match=r"overlaps|twice"):
        InvertedMetas.decode(encoded + encoded, 200)


def test_an_unknown_bitmap_type_is_still_listed() -> None:
    """Metadata of a newer kind of bitmap are read; their name is their number."""
    found = InvertedMetas.decode(metas(column(bitmap_type=9)).encode(), 200)
    assert found.columns["7"].bitmap_type_name == "9"
    assert column().bitmap_type_name == "Roaring"
    assert column(bitmap_type=0).bitmap_type_name == "BitVec"


def test_flipped_bits_and_truncations_of_a_sample_are_survived() -> None:
    """A damaged blob gives an error of ours or consistent metadata, at every bit and every length."""
    blob = sample_blob()
    # Bits of the columns themselves are no business of the metadata.
    first = len(blob) - 4 - int.from_bytes(blob[-4:], "little")
    damaged = [flipped(blob, bit) for bit in range(8 * first, 8 * len(blob))]
    damaged += [blob[:size] for size in range(len(blob))]
    for one in damaged:
        try:
            found = metas_of(one)
        except FormatError:
            continue
        for name, part in found.columns.items():
            assert name == part.name
            assert part.fst_range[1] <= len(one)


@pytest.mark.parametrize(
    ("row_group_size", "wanted", "expected"),
    [(102_400, 1024, 1024), (100_000, 1024, 100_000), (1024, 1024, 1024), (10, 1024, 10), (12, 4, 4)],
)
def test_segments_do_not_straddle_row_groups(row_group_size: int, wanted: int, expected: int) -> None:
    """The wanted size is used if it divides the row group, else the row group's own."""
    assert segment_row_count_for(row_group_size, wanted) == expected


def test_a_row_group_has_rows() -> None:
    """Sizes below 1 are a mistake."""
    with pytest.raises(InvalidInputError):
        segment_row_count_for(0)


def test_a_blob_of_no_columns_is_read() -> None:
    """An index over no columns is its metadata alone."""
    blob = build_inverted({})
    assert metas_of(blob).columns == {}
