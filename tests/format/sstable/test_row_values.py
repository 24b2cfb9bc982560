"""Single rows as Python objects: those that Arrow gives for the same bytes, and refused where it refuses."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.schema.types import Field, arrow_type
from lakehouse.format.sstable.row_values import KeyValues, RowValues
from lakehouse.format.sstable.rows import RowError, RowLayout, pack_rows, unpack_row
from tests.format.sstable.test_rows import NESTED, few, packable
from tests.kit.typed_values import KEY_KINDS, values_of


@few
@given(packable(), st.data())
def test_values_are_those_of_arrow(sample: tuple[RowLayout, list[pa.Array]], data: st.DataObject) -> None:
    """Selected columns of any type have the values, and the types of objects, that Arrow converts to."""
    layout, columns = sample
    packed = pack_rows(layout, columns, len(columns[0]))
    wanted = [data.draw(st.booleans()) for _ in columns]
    decoder = RowValues(layout, wanted)
    bounds = packed.offsets.tolist()
    for at in range(len(columns[0])):
        found = decoder.decode(packed.data.tobytes(), bounds[at], bounds[at + 1])
        expected = [column[at].as_py() for column, asked in zip(columns, wanted, strict=True) if asked]
        assert repr(found) == repr(expected)
        assert list(map(type, found)) == list(map(type, expected))


@few
@given(st.data())
def test_a_changed_byte_is_refused_where_arrow_refuses_it(data: st.DataObject) -> None:
    """Bytes that are no row are a RowError, or the values that the other reader finds there."""
    layout, columns = data.draw(packable())
    packed = pack_rows(layout, columns, len(columns[0]))
    if not len(packed.data):
        return
    raw = bytearray(packed.data.tobytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    wanted = [True] * len(columns)
    decoder = RowValues(layout, wanted)
    bounds = packed.offsets.tolist()
    for begin, end in pairwise(bounds):
        try:
            arrays = unpack_row(layout, bytes(raw), begin, end, wanted)
        except RowError:
            expected = "refused"
        else:
            expected = _shown(lambda arrays=arrays: [one and one[0].as_py() for one in arrays])
        assert _shown(lambda begin=begin, end=end: decoder.decode(bytes(raw), begin, end)) == expected


def _shown(read: object) -> str:
    """What a read gives: values, a refusal, or that Python has no such date."""
    assert callable(read)
    try:
        return repr(read())
    except RowError:
        return "refused"
    except (OverflowError, ValueError):
        return "outside of Python's years"


@few
@given(st.binary(max_size=40))
def test_any_bytes_are_a_row_or_refused(raw: bytes) -> None:
    """Bytes from anywhere are values or a RowError, and never read beyond their end."""
    decoder = RowValues(NESTED, [True] * len(NESTED.fields))
    behind = b"\xff" * 64
    assert _shown(lambda: decoder.decode(raw, 0, len(raw))) == _shown(
        lambda: decoder.decode(raw + behind, 0, len(raw))
    )


@few
@given(st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=3), st.data())
def test_keys_are_those_of_arrow(kinds: list[object], data: st.DataObject) -> None:
    """The columns of a key are decoded to the objects that Arrow converts to."""
    fields = [
        Field(id=at, name=f"k{at}", type=kind, required=True)  # type: ignore[arg-type]
        for at, kind in enumerate(kinds, 1)
    ]
    columns = [pa.array([data.draw(values_of(one.type))], arrow_type(one.type)) for one in fields]
    codec = RowKeyCodec(fields)
    (key,) = codec.encode(columns).to_pylist()
    found = KeyValues(codec, [one.type for one in fields]).decode(key)
    expected = [column[0].as_py() for column in columns]
    assert repr(found) == repr(expected)
    assert list(map(type, found)) == list(map(type, expected))


def test_a_row_without_bytes_is_all_nulls() -> None:
    """A row whose every column is null has no bytes."""
    wanted = np.arange(len(NESTED.fields)) % 2 == 0
    assert RowValues(NESTED, wanted.tolist()).decode(b"", 0, 0) == [None] * int(wanted.sum())


@few
@given(st.binary(max_size=24), st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=3))
def test_any_bytes_are_a_key_or_refused(raw: bytes, kinds: list[object]) -> None:
    """Bytes from anywhere are the values of a key, or refused as damage, or outside of Python's years."""
    fields = [
        Field(id=at, name=f"k{at}", type=kind, required=True)  # type: ignore[arg-type]
        for at, kind in enumerate(kinds, 1)
    ]
    # Dates that Python does not have are the caller's matter, all else is damage.
    with contextlib.suppress(CorruptionError, InvalidInputError):
        found = KeyValues(RowKeyCodec(fields), [one.type for one in fields]).decode(raw)
        assert len(found) == len(fields)
