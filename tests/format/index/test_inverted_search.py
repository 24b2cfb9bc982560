"""Searching inverted indexes: no row is missed, whatever is asked, and damage never hides one."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.fst.fst import Fst, build_fst
from lakehouse.format.fst.read import KeyRange
from lakehouse.format.index.inverted import BitmapType, InvertedColumn, InvertedMetas, InvertedStats
from lakehouse.format.index.inverted_build import build_inverted
from lakehouse.format.index.inverted_search import (
    AllOf,
    AnyOf,
    Condition,
    InRange,
    IsNotNull,
    IsNull,
    MatchesRegex,
    OneOf,
    may_hold,
    plan_bitmaps,
    segments_of,
)
from lakehouse.format.index.roaring import encode_one
from tests.format.index.test_inverted import metas_of, sample_blob
from tests.kit.blob_samples import flipped

words = st.text(alphabet="abc", max_size=3)
ranges = st.builds(
    KeyRange,
    low=words.map(str.encode),
    low_closed=st.booleans(),
    high=st.none() | words.map(str.encode),
    high_closed=st.booleans(),
) | words.map(lambda word: KeyRange.with_prefix(word.encode()))
leaves: st.SearchStrategy[Condition] = st.one_of(
    st.lists(words.map(str.encode), max_size=4).map(lambda found: OneOf(values=tuple(found))),
    ranges.map(lambda keys: InRange(keys=keys)),
    st.builds(MatchesRegex, pattern=st.sampled_from(["a", "^a", "b$", "[ab]c", "^$"]), whole=st.booleans()),
    st.just(IsNull()),
    st.just(IsNotNull()),
)
conditions: st.SearchStrategy[Condition] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from([AllOf(conditions=tuple(parts)), AnyOf(conditions=tuple(parts))])
    ),
    max_leaves=5,
)


def fulfils(value: bytes | None, condition: Condition) -> bool:
    """Whether a value fulfils a condition, by definition."""
    match condition:
        case AllOf():
            return all(fulfils(value, part) for part in condition.conditions)
        case AnyOf():
            return any(fulfils(value, part) for part in condition.conditions)
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
    if value is None:
        return False
    match condition:
        case OneOf():
            return value in condition.values
        case InRange(keys=keys):
            above = value > keys.low or (value == keys.low and keys.low_closed)
            return above and (
                keys.high is None or value < keys.high or (value == keys.high and keys.high_closed)
            )
        case MatchesRegex():
            look = re.fullmatch if condition.whole else re.search
            return look(condition.pattern, value.decode()) is not None


def search(blob: bytes, metas: InvertedMetas, name: str, condition: Condition, gap: int = 0) -> list[int]:
    """The segments found in a whole blob, reading the planned ranges alone."""
    column = metas.columns[name]
    start, end = column.fst_range
    plan = plan_bitmaps(column, Fst.parse(blob[start:end]), condition)
    reads = [(begin, blob[begin:stop]) for begin, stop in plan.reads(gap)]
    return segments_of(plan, reads, metas).tolist()


def hand_made(values: dict[bytes, bytes], nulls: bytes, kind: int, rows: int) -> tuple[bytes, InvertedMetas]:
    """A blob of one column "1" whose bitmaps come before its null bitmap, segments of one row."""
    places, body = [], b""
    for value in sorted(values):
        places.append(len(values[value]) << 32 | len(body))
        body += values[value]
    fst = build_fst(sorted(values), places)
    column = InvertedColumn(
        name="1",
        base_offset=3,
        inverted_index_size=len(body) + len(nulls) + len(fst),
        relative_fst_offset=len(body) + len(nulls),
        fst_size=len(fst),
        relative_null_bitmap_offset=len(body),
        null_bitmap_size=len(nulls),
        stats=None,
        bitmap_type=kind,
    )
    metas = InvertedMetas(columns={"1": column}, total_row_count=rows, segment_row_count=1)
    return b"???" + body + nulls + fst, metas


@settings(deadline=None)
@given(
    st.lists(st.none() | words, max_size=30), st.integers(1, 5), conditions, st.sampled_from([0, 30, 10_000])
)
def test_a_search_finds_the_segments_that_fulfil(
    rows: list[str | None], size: int, condition: Condition, gap: int
) -> None:
    """Every segment with a fulfilling row is found, and no other, however reads are joined."""
    values = [None if row is None else row.encode() for row in rows]
    blob = build_inverted({"1": pa.array(values, pa.binary())}, size)
    metas = metas_of(blob)
    expected = sorted({place // size for place, value in enumerate(values) if fulfils(value, condition)})
    assert search(blob, metas, "1", condition, gap) == expected
    if expected:
        assert may_hold(metas.columns["1"], condition)


def test_the_sample_is_searched() -> None:
    """Values of the sample lead to the segments that upstream's reader found."""
    blob = sample_blob()
    metas = metas_of(blob)
    assert search(blob, metas, "1", OneOf(values=(b"cpu",))) == [0, 2, 5, 7, 10]
    assert search(blob, metas, "1", OneOf(values=("数据库".encode(),))) == [1, 3, 6, 11]
    assert search(blob, metas, "1", MatchesRegex(pattern="^cpu$")) == [0, 2, 5, 7, 10]
    assert search(blob, metas, "2", IsNull()) == [5]


def test_neighbours_are_read_in_one_range() -> None:
    """Bitmaps that touch are one read; a gap joins those that do not."""
    blob = build_inverted({"1": pa.array(["a", "b", "c", "d"])}, 1)
    column = metas_of(blob).columns["1"]
    fst = Fst.parse(blob[slice(*column.fst_range)])
    plan = plan_bitmaps(column, fst, OneOf(values=(b"a", b"b", b"d")))
    assert plan.reads() == [(8, 44), (62, 80)]
    assert plan.reads(gap=18) == [(8, 80)]
    assert plan_bitmaps(column, fst, OneOf(values=(b"x",))).reads() == []


@pytest.mark.parametrize("kind", [BitmapType.BIT_VEC, BitmapType.ROARING])
def test_offsets_decide_where_bitmaps_are(kind: BitmapType) -> None:
    """A column with its values before its nulls is read, in either kind of bitmap."""
    if kind is BitmapType.BIT_VEC:
        values, nulls = {b"a": b"\x05", b"b": b"\x00\x02"}, b"\x02"
    else:
        values = {b"a": encode_one(np.array([0, 2], np.uint32)), b"b": encode_one(np.array([9], np.uint32))}
        nulls = encode_one(np.array([1], np.uint32))
    blob, metas = hand_made(values, nulls, kind, rows=10)
    assert search(blob, metas, "1", OneOf(values=(b"a",))) == [0, 2]
    assert search(blob, metas, "1", IsNotNull()) == [0, 2, 9]
    assert search(blob, metas, "1", IsNull()) == [1]
    assert search(blob, metas, "1", AnyOf(conditions=(IsNull(), OneOf(values=(b"b",))))) == [1, 9]


def test_old_columns_without_nulls_have_no_null_bitmap() -> None:
    """An empty bit vector takes no bytes and is not read."""
    blob, metas = hand_made({b"a": b"\x01"}, b"", BitmapType.BIT_VEC, rows=1)
    assert search(blob, metas, "1", IsNull()) == []


@pytest.mark.parametrize("bits", [b"\x00\x04", b"\x00\x00\x00"])
def test_bit_vectors_for_more_segments_than_there_are_are_damage(bits: bytes) -> None:
    """A bit behind the last segment, or bytes that only such bits could need, are refused."""
    blob, metas = hand_made({b"a": bits}, b"", BitmapType.BIT_VEC, rows=10)
    with pytest.raises(CorruptionError):
        search(blob, metas, "1", IsNotNull())


def test_an_unknown_kind_of_bitmap_is_refused_by_name() -> None:
    """Bitmaps of a newer release are not guessed at."""
    blob, metas = hand_made({b"a": b"\x01"}, b"", 9, rows=1)
    with pytest.raises(FormatError, match="type 9"):
        search(blob, metas, "1", IsNotNull())


@pytest.mark.parametrize("place", [1 << 32 | 200, 20 << 32 | 0xFFFFFFFF, 60 << 32 | 8])
def test_bitmaps_outside_their_column_are_damage(place: int) -> None:
    """A value that leads out of its column is refused before anything is read."""
    fst = Fst.parse(build_fst([b"a"], [place]))
    column = dataclasses.replace(hand_made({b"a": b"\1"}, b"", 1, 1)[1].columns["1"], inverted_index_size=50)
    with pytest.raises(CorruptionError, match="leaves the column"):
        plan_bitmaps(column, fst, IsNotNull())


def test_overlapping_bitmaps_are_damage() -> None:
    """Two values cannot share bytes, so the bytes of a plan are never more than the column's."""
    fst = Fst.parse(build_fst([b"a", b"b"], [18 << 32 | 8, 18 << 32 | 9]))
    column = metas_of(sample_blob()).columns["1"]
    with pytest.raises(CorruptionError, match="overlaps"):
        plan_bitmaps(column, fst, IsNotNull())


def test_more_values_than_bytes_are_damage() -> None:
    """A map that says it has more values than the column has bytes is not searched."""
    data = bytearray(build_fst([b"a"], [1]))
    data[-20:-12] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(CorruptionError, match="do not fit"):
        plan_bitmaps(
            metas_of(sample_blob()).columns["1"], Fst.parse(bytes(data), verify_checksum=False), IsNotNull()
        )


def test_bytes_that_were_not_planned_are_a_mistake() -> None:
    """A plan is answered from its own reads; others are refused."""
    blob = sample_blob()
    metas = metas_of(blob)
    column = metas.columns["1"]
    plan = plan_bitmaps(column, Fst.parse(blob[slice(*column.fst_range)]), IsNotNull())
    for reads in ([], [(0, blob[:40])], [(300, blob[300:])]):
        with pytest.raises(InvalidInputError, match=r"plan\.reads"):
            segments_of(plan, reads, metas)


def test_too_many_segments_are_refused() -> None:
    """Metadata that claim a billion segments of one row do not make a search take a gigabyte."""
    blob, metas = hand_made({b"a": b"\x01"}, b"", BitmapType.BIT_VEC, rows=1 << 30)
    with pytest.raises(FormatError, match="segments"):
        search(blob, metas, "1", IsNotNull())


@pytest.mark.parametrize("kind", [AllOf, AnyOf])
def test_an_empty_list_of_conditions_is_a_mistake(kind: type[AllOf] | type[AnyOf]) -> None:
    """Neither all nor any of nothing says what is sought."""
    with pytest.raises(InvalidInputError, match="at least one"):
        search(sample_blob(), metas_of(sample_blob()), "1", kind(conditions=()))


@pytest.mark.parametrize(
    ("condition", "possible"),
    [
        (OneOf(values=(b"b", b"x")), True),
        (OneOf(values=(b"a", b"x")), False),
        (InRange(keys=KeyRange(low=b"d", low_closed=True)), True),
        (InRange(keys=KeyRange(low=b"d", low_closed=False)), False),
        (InRange(keys=KeyRange(high=b"b", high_closed=True)), True),
        (InRange(keys=KeyRange(high=b"b", high_closed=False)), False),
        (InRange(keys=KeyRange.with_prefix(b"c")), True),
        (InRange(keys=KeyRange.with_prefix(b"da")), False),
        (MatchesRegex(pattern="z"), True),
        (IsNull(), False),
        (IsNotNull(), True),
        (AllOf(conditions=(IsNotNull(), OneOf(values=(b"x",)))), False),
        (AnyOf(conditions=(IsNull(), OneOf(values=(b"c",)))), True),
    ],
)
def test_statistics_save_reading_the_map(condition: Condition, possible: bool) -> None:
    """What lies outside the least and greatest value is known not to be there."""
    stats = InvertedStats(null_count=0, distinct_count=3, min_value=b"b", max_value=b"d")
    column = dataclasses.replace(metas_of(sample_blob()).columns["1"], stats=stats)
    assert may_hold(column, condition) is possible
    assert may_hold(dataclasses.replace(column, stats=None), condition)


def test_flipped_bits_of_a_blob_never_crash_a_search() -> None:
    """With any bit of the sample turned over, every search ends in segments or an error of ours."""
    blob = sample_blob()
    asked = [IsNull(), IsNotNull(), OneOf(values=(b"cpu", b"net")), MatchesRegex(pattern="^c")]
    refused = 0
    for bit in range(8 * len(blob)):
        damaged = flipped(blob, bit)
        try:
            metas = metas_of(damaged)
            for name in metas.columns:
                for condition in asked:
                    found = search(damaged, metas, name, condition)
                    assert found == sorted(set(found))
                    assert all(segment < metas.segment_count for segment in found)
        except FormatError:
            refused += 1
    assert refused > 4 * len(blob)
