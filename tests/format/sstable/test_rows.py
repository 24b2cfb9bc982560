"""Values of rows as bytes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.schema.types import (
    BinaryType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    arrow_type,
)
from lakehouse.format.sstable.rows import RowError, RowLayout, pack_rows, unpack_row, unpack_rows
from tests.kit.sstable_samples import WAYS, looped
from tests.kit.type_strategies import column_sets, values_of

every_way = pytest.mark.parametrize("way", WAYS)
no_deadline = settings(deadline=None, max_examples=50)  # the first compiled run loads the compiler
few = settings(deadline=None, max_examples=40)


@st.composite
def packable(draw: st.DrawFn) -> tuple[RowLayout, list[pa.Array]]:
    """Some columns of any types, and their layout."""
    fields = draw(column_sets())
    rows = draw(st.integers(0, 5))
    columns = [
        pa.array(draw(st.lists(values_of(one.type), min_size=rows, max_size=rows)), arrow_type(one.type))
        for one in fields
    ]
    return RowLayout.of(fields), columns


def field(number: int, kind: object, name: str = "x") -> Field:
    """An optional column."""
    return Field(id=number, name=name, type=kind)  # type: ignore[arg-type]


KEY = Field(id=8, name="key", type=StringType(), required=True)
NESTED = RowLayout.of(
    [
        field(1, Primitive("boolean")),
        field(2, StringType()),
        field(
            3,
            ListType(field(4, StructType((field(5, Primitive("int16"), "a"), field(6, BinaryType(), "b"))))),
        ),
        field(7, MapType(KEY, field(9, ListType(field(10, Primitive("int64")))))),
    ]
)


@every_way
@no_deadline
@given(packable())
def test_rows_unpack_to_what_was_packed(way: str, sample: tuple[RowLayout, list[pa.Array]]) -> None:
    """Columns of any type, nulls included, are the same after packing and unpacking."""
    layout, columns = sample
    with looped(way):
        packed = pack_rows(layout, columns, len(columns[0]))
        found = unpack_rows(layout, packed.data, packed.offsets[:-1], packed.offsets[1:])
    for one, column in zip(found, columns, strict=True):
        assert one is not None
        one.validate(full=True)
        assert one.type == column.type
        assert one.to_pylist() == column.to_pylist()


@few
@given(packable(), st.integers(0, 5))
def test_slices_pack_as_their_rows(sample: tuple[RowLayout, list[pa.Array]], start: int) -> None:
    """What stands before or behind a slice of an array does not get into its bytes."""
    layout, columns = sample
    parts = [column.slice(start) for column in columns]
    copies = [pa.array(part.to_pylist(), part.type) for part in parts]
    packed = pack_rows(layout, parts, len(parts[0]))
    again = pack_rows(layout, copies, len(parts[0]))
    assert packed.data.tobytes() == again.data.tobytes()


@pytest.mark.skipif(len(WAYS) < 2, reason="numba is not installed")
@few
@given(packable())
def test_both_ways_pack_the_same_bytes(sample: tuple[RowLayout, list[pa.Array]]) -> None:
    """Compiled and interpreted loops write the same."""
    layout, columns = sample
    written = set()
    for way in WAYS:
        with looped(way):
            packed = pack_rows(layout, columns, len(columns[0]))
        written.add((packed.data.tobytes(), packed.offsets.tobytes()))
    assert len(written) == 1


@few
@given(packable(), st.data())
def test_one_row_unpacks_as_among_others(
    sample: tuple[RowLayout, list[pa.Array]], data: st.DataObject
) -> None:
    """The reader of a single row finds the columns that the reader of many finds there."""
    layout, columns = sample
    packed = pack_rows(layout, columns, len(columns[0]))
    wanted = [data.draw(st.booleans()) for _ in columns]
    bounds = packed.offsets.tolist()
    for at in range(len(columns[0])):
        found = unpack_row(layout, packed.data.tobytes(), bounds[at], bounds[at + 1], wanted)
        expected = [
            column[at].as_py() if asked else None for column, asked in zip(columns, wanted, strict=True)
        ]
        assert [one and one[0].as_py() for one in found] == expected


@few
@given(packable(), st.data())
def test_only_wanted_columns_are_unpacked(
    sample: tuple[RowLayout, list[pa.Array]], data: st.DataObject
) -> None:
    """A column that is not wanted is not there, and the others are as ever."""
    layout, columns = sample
    packed = pack_rows(layout, columns, len(columns[0]))
    wanted = [data.draw(st.booleans()) for _ in columns]
    found = unpack_rows(layout, packed.data, packed.offsets[:-1], packed.offsets[1:], wanted)
    for one, column, asked in zip(found, columns, wanted, strict=True):
        assert (one is not None) == asked
        assert one is None or one.to_pylist() == column.to_pylist()


def test_a_row_of_nulls_takes_no_bytes() -> None:
    """A row without any value is empty, as the values of deleted rows are."""
    columns = [pa.nulls(3, arrow_type(one.type)) for one in NESTED.fields]
    assert pack_rows(NESTED, columns, 3).data.tobytes() == b""


@every_way
@no_deadline
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
def test_any_bytes_are_rows_or_refused(way: str, rows: list[bytes]) -> None:
    """Bytes from anywhere are sound columns or a RowError that says which row, never a crash."""
    data = np.frombuffer(b"".join(rows), np.uint8)
    offsets = np.cumsum([0, *map(len, rows)])
    try:
        with looped(way):
            found = unpack_rows(NESTED, data, offsets[:-1], offsets[1:])
    except RowError as error:
        bad = error.row
    else:
        bad = 0
        for column in found:
            assert column is not None
            column.validate(full=True)
            column.to_pylist()
    assert 0 <= bad < len(rows)


@every_way
@no_deadline
@given(st.data())
def test_a_changed_byte_is_a_row_or_refused(way: str, data: st.DataObject) -> None:
    """A row with a byte changed is a sound row or a RowError, the same for readers of one and of many."""
    layout, columns = data.draw(packable())
    packed = pack_rows(layout, columns, len(columns[0]))
    if not len(packed.data):
        return
    raw = bytearray(packed.data.tobytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    changed = np.frombuffer(bytes(raw), np.uint8)
    try:
        with looped(way):
            found = unpack_rows(layout, changed, packed.offsets[:-1], packed.offsets[1:])
    except RowError:
        found = None
    assert (found is None) == any_is_refused(layout, bytes(raw), packed.offsets.tolist())
    for column in found or ():
        assert column is not None
        column.validate(full=True)


def any_is_refused(layout: RowLayout, data: bytes, offsets: list[int]) -> bool:
    """Whether the reader of single rows refuses one of them."""
    try:
        for begin, end in pairwise(offsets):
            unpack_row(layout, data, begin, end, [True] * len(layout.fields))
    except RowError:
        return True
    return False
