"""Row keys: they sort as tuples do, give the tuples back, and are made of whole columns."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.keys import row_key
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.schema.types import BinaryType, DataType, DecimalType, Primitive, StringType, arrow_type
from tests.kit.blob_samples import spec_block
from tests.kit.typed_values import KEY_KINDS, column, fields_of, spec_row, values_of

KINDS_OF_KEYS = st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=4)
TEXTS_FIRST = [StringType(), BinaryType(), StringType()]
INT, TEXT, RAW = Primitive("int64"), StringType(), BinaryType()


@st.composite
def keyed_rows(draw: st.DrawFn, **size: int) -> tuple[list[DataType], list[tuple[Any, ...]]]:
    """Types of a key, and rows of it; many are of text, where the order is hardest."""
    kinds = draw(KINDS_OF_KEYS | st.just(TEXTS_FIRST))
    rows = draw(st.lists(st.tuples(*(values_of(kind) for kind in kinds)), **size))
    return kinds, rows


def columns_of(kinds: list[DataType], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    """The rows as columns."""
    return [column(kind, [row[at] for row in rows]) for at, kind in enumerate(kinds)]


@given(keyed_rows(min_size=2, max_size=2))
def test_keys_sort_as_tuples(found: tuple[list[DataType], list[tuple[Any, ...]]]) -> None:
    """Of two tuples the lesser has the lesser key, and equal ones have the same."""
    kinds, (one, other) = found
    codec = RowKeyCodec(fields_of(kinds))
    left, right = codec.encode_one(one), codec.encode_one(other)
    assert (left < right) == (one < other)
    assert (left == right) == (one == other)


@given(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), min_size=2, max_size=2))
def test_bytes_in_front_of_others_sort(rows: list[tuple[bytes, bytes]]) -> None:
    """Escapes and ends never change the order of bytes in front of another column."""
    codec = RowKeyCodec(fields_of([RAW, RAW]))
    one, other = rows
    assert (codec.encode_one(one) < codec.encode_one(other)) == (one < other)


@settings(deadline=None)
@given(keyed_rows(max_size=12), st.integers(0, 3))
def test_columns_and_rows_agree(found: tuple[list[DataType], list[tuple[Any, ...]]], cut: int) -> None:
    """The keys of columns, sliced or chunked, are those of their rows, and both come back."""
    kinds, rows = found
    codec = RowKeyCodec(fields_of(kinds))
    columns = columns_of(kinds, rows)
    keys = codec.encode(columns)
    assert keys.to_pylist() == [codec.encode_one(row) for row in rows]
    assert [codec.decode_one(key) for key in keys.to_pylist()] == rows
    chunked = [pa.chunked_array([one.slice(0, cut), one.slice(cut)], one.type) for one in columns]
    assert codec.encode(chunked) == keys
    assert codec.encode([one.slice(cut) for one in columns]) == keys.slice(cut)
    for again, original in zip(codec.decode(keys.slice(cut)), columns, strict=True):
        assert again.equals(original.slice(cut))
        again.validate(full=True)


@given(keyed_rows(min_size=1, max_size=1), st.data())
def test_leading_values_are_a_prefix(
    found: tuple[list[DataType], list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    """Keys begin with the joined bytes of their leading columns exactly when these have those values."""
    kinds, (row,) = found
    codec = RowKeyCodec(fields_of(kinds))
    count = data.draw(st.integers(0, len(kinds) - 1))
    prefix = codec.join(codec.split(codec.encode_one(row))[:count])
    other = tuple(data.draw(st.just(value) | values_of(kind)) for value, kind in zip(row, kinds, strict=True))
    assert codec.encode_one(other).startswith(prefix) == (other[:count] == row[:count])


@pytest.mark.parametrize("name", ["float", "double"])
def test_floats_are_refused(name: str) -> None:
    """A key of floats is refused by the column's name."""
    with pytest.raises(InvalidInputError, match="column 'b' cannot be part of a key"):
        RowKeyCodec(fields_of([INT, Primitive(name)]))


def test_a_key_has_columns() -> None:
    """No column is no key."""
    with pytest.raises(InvalidInputError, match="one column or more"):
        RowKeyCodec(())


def test_nulls_are_refused() -> None:
    """A null in a key is refused with the row and the column, in columns and single rows."""
    codec = RowKeyCodec(fields_of([INT, TEXT]))
    with pytest.raises(InvalidInputError, match="row 2 has no value in column 'b'") as caught:
        codec.encode([pa.array([1, 2, 3]), pa.chunked_array([["x"], ["y", None]])])
    assert caught.value.context == {"column": "b", "row": 2}
    with pytest.raises(InvalidInputError, match="column 'b' of the key: None is no value of type string"):
        codec.encode_one((1, None))


def test_a_single_text_is_not_copied() -> None:
    """The keys of a single text column are its own bytes, there and back."""
    codec = RowKeyCodec(fields_of([TEXT]))
    texts = pa.array(["b", "a"])
    keys = codec.encode([texts])
    assert keys.buffers()[2].address == texts.buffers()[2].address
    assert codec.decode(keys)[0].buffers()[2].address == texts.buffers()[2].address


@pytest.mark.parametrize("kinds", [[TEXT], [INT, TEXT], [TEXT, INT], [RAW, RAW], [INT, INT]])
def test_keys_beyond_small_offsets(kinds: list[DataType], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 32-bit offsets do not suffice, keys are large_binary, equal in bytes, and come back."""
    codec = RowKeyCodec(fields_of(kinds))
    made = {INT: [1, 2, 3], TEXT: ["a\0", "b", "c\1"], RAW: [b"\0", b"", b"\1"]}
    columns = [column(kind, made[kind]) for kind in kinds]
    small = codec.encode(columns)
    monkeypatch.setattr(row_key, "_LARGE_FROM", 1)
    monkeypatch.setattr("lakehouse.format.keys.order_value._SMALL_OFFSET_MAX", 1)
    large = codec.encode(columns)
    assert (small.type, large.type) == (pa.binary(), pa.large_binary())
    assert large.to_pylist() == small.to_pylist()
    assert [part.to_pylist() for part in codec.decode(large)] == [made[kind] for kind in kinds]


def test_large_text_with_few_bytes_makes_small_keys() -> None:
    """What type the keys have depends on their bytes, not on the column's offsets."""
    codec = RowKeyCodec(fields_of([TEXT]))
    assert codec.encode([pa.array(["a"], pa.large_string())]).type == pa.binary()


@pytest.mark.parametrize(
    ("kinds", "key"),
    [
        ([INT], b"1234567"),
        ([INT], b"123456789"),
        ([INT, TEXT], b"1234567"),
        ([TEXT, INT], b"ab\x00" + b"1" * 7),
        ([TEXT, INT], b"ab\x00" + b"1" * 9),
        ([TEXT, INT], b"a" * 12),
        ([TEXT, TEXT], b"ab"),
        ([TEXT], b"\xff"),
    ],
)
def test_bytes_that_are_no_key(kinds: list[DataType], key: bytes) -> None:
    """Bytes that are too short, too long, without an end or no text are damage, one by one and in columns."""
    codec = RowKeyCodec(fields_of(kinds))
    with pytest.raises(CorruptionError):
        codec.decode_one(key)
    good = codec.encode_one(tuple({INT: 1, TEXT: "a"}[kind] for kind in kinds))
    with pytest.raises(CorruptionError):
        codec.decode(pa.array([good, key, good]))


def test_no_keys() -> None:
    """Of no rows there are no keys, and of no keys empty columns of the right types."""
    kinds: list[DataType] = [TEXT, INT, DecimalType(7, 2), Primitive("boolean"), TEXT]
    codec = RowKeyCodec(fields_of(kinds))
    keys = codec.encode([column(kind, []) for kind in kinds])
    assert keys.type == pa.binary()
    assert [part.type for part in codec.decode(keys)] == [arrow_type(kind) for kind in kinds]


def test_the_specified_bytes() -> None:
    """The examples of the specification are what is written, and what they say is read."""
    for line in spec_block("row-key.md", "keys").splitlines():
        names, values, expected = re.split(r"\s{2,}", line)
        kinds, row = spec_row(names, values)
        codec = RowKeyCodec(fields_of(kinds))
        assert codec.encode_one(row) == bytes.fromhex(expected), line
        assert codec.decode_one(bytes.fromhex(expected)) == row
