"""Values as indexes hold them: upstream's bytes, and the order of the values."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.index.greptime_value import decode_array, decode_scalar, encode_array, encode_scalar
from tests.kit.blob_samples import manifest, spec_block

VECTORS: list[tuple[str, pa.DataType, Any]] = [
    ("binary:(empty)", pa.binary(), b""),
    ("binary:0102..0a (10 bytes)", pa.binary(), bytes(range(1, 11))),
    ("binary:8 bytes", pa.large_binary(), bytes(range(1, 9))),
    ("bool:false", pa.bool_(), False),
    ("bool:true", pa.bool_(), True),
    ("float32:1.5", pa.float32(), 1.5),
    ("float64:-0", pa.float64(), -0.0),
    ("float64:-1.5", pa.float64(), -1.5),
    ("float64:-inf", pa.float64(), -math.inf),
    ("float64:0", pa.float64(), 0.0),
    ("float64:1.5", pa.float64(), 1.5),
    ("float64:nan", pa.float64(), math.nan),
    ("int16:-2", pa.int16(), -2),
    ("int32:7", pa.int32(), 7),
    ("int64:-5", pa.int64(), -5),
    ("int64:0", pa.int64(), 0),
    ("int8:-1", pa.int8(), -1),
    ("timestamp(i64):1000", pa.timestamp("ms"), 1000),
    ("uint64:1", pa.uint64(), 1),
    ("uint8:200", pa.uint8(), 200),
    ("time(value 1000, microsecond)", pa.time64("us"), 1000),
    ("decimal128(value -12345, precision 10, scale 2)", pa.decimal128(10, 2), Decimal("-123.45")),
    ("int128:1", pa.month_day_nano_interval(), pa.MonthDayNano([0, 0, 1])),
]


def test_all_of_upstreams_vectors_are_known() -> None:
    """Every encoding that upstream's own crate gave is among the cases below."""
    assert {name for name, _, _ in VECTORS} == set(manifest()["_value_encoding_vectors"])


@pytest.mark.parametrize(("name", "type_", "value"), VECTORS, ids=[name for name, _, _ in VECTORS])
def test_encodings_are_upstreams(name: str, type_: pa.DataType, value: Any) -> None:
    """A value is encoded to the bytes that upstream's own crate gives."""
    assert encode_scalar(value, type_).hex() == manifest()["_value_encoding_vectors"][name]


SPEC_TYPES = {
    "string": pa.string(),
    "time32[s]": pa.time32("s"),
    "time64[ns]": pa.time64("ns"),
    "timestamp[us]": pa.timestamp("us"),
    "duration[ms]": pa.duration("ms"),
    "decimal128(10,2)": pa.decimal128(10, 2),
    "month_day_nano_interval": pa.month_day_nano_interval(),
}


def test_the_examples_of_the_specification_are_true() -> None:
    """Each value of the specification is encoded as it says, and decoded again."""
    lines = [line.split() for line in spec_block("value-encoding.md", "vectors").splitlines()]
    assert len(lines) > 20
    for name, text, encoded in lines:
        type_ = SPEC_TYPES.get(name) or pa.type_for_alias(name)
        value: Any = text
        if pa.types.is_binary(type_):
            value = bytes.fromhex(text.removeprefix("0x"))
        elif pa.types.is_boolean(type_):
            value = text == "true"
        elif pa.types.is_decimal(type_):
            value = Decimal(text)
        elif pa.types.is_floating(type_):
            value = float(text)
        elif type_ == pa.month_day_nano_interval():
            value = pa.MonthDayNano([int(part) for part in text.split("/")])
        elif not pa.types.is_string(type_):
            value = int(text)
        assert encode_scalar(value, type_).hex() == encoded, name
        assert (
            encode_array(pa.array([decode_scalar(bytes.fromhex(encoded), type_)]))[0].as_py().hex() == encoded
        )


def days(value: int) -> dt.date:
    """A date by its number."""
    return dt.date(1970, 1, 1) + dt.timedelta(days=value)


def integers(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    """All integers of a width, small ones and the ends more often."""
    low = -(1 << bits - 1) if signed else 0
    return st.integers(low, low + (1 << bits) - 1) | st.integers(max(low, -2), 2)


TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    *((pa.type_for_alias(f"int{bits}"), integers(bits)) for bits in (8, 16, 32, 64)),
    *((pa.type_for_alias(f"uint{bits}"), integers(bits, signed=False)) for bits in (8, 16, 32, 64)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.date32(), integers(32)),
    *((pa.timestamp(unit), integers(64)) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("us", "UTC"), integers(64)),
    (pa.time32("s"), st.integers(0, 86_399)),
    (pa.time32("ms"), st.integers(0, 86_399_999)),
    (pa.time64("us"), st.integers(0, 86_399_999_999)),
    (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    *((pa.duration(unit), integers(64)) for unit in ("s", "ms", "us", "ns")),
    (
        pa.decimal128(38, 5),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-5, Context(prec=40))),
    ),
    (pa.binary(), st.binary(max_size=12)),
    (pa.large_binary(), st.binary(max_size=12)),
    (pa.binary_view(), st.binary(max_size=20)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.string(), st.text(st.characters(codec="utf-8"), max_size=8)),
    (pa.large_string(), st.text(st.characters(codec="utf-8"), max_size=8)),
    (pa.string_view(), st.text(st.characters(codec="utf-8"), max_size=20)),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b", ""])),
    (pa.dictionary(pa.int8(), pa.int64()), st.sampled_from([1, -1])),
]
INTERVAL = st.tuples(integers(32), integers(32), integers(64))


def array_of(values: list[Any], type_: pa.DataType) -> pa.Array:
    """An Arrow array, of numbers where Python has no such value."""
    if pa.types.is_date32(type_):
        return pa.array(values, pa.int32()).cast(type_)
    return pa.array(values, type_)


def columns(type_: pa.DataType, values: st.SearchStrategy[Any]) -> st.SearchStrategy[pa.Array]:
    """Columns of a type with nulls, some of them slices of larger ones."""

    def slice_of(drawn: tuple[list[Any], int]) -> pa.Array:
        array = array_of(drawn[0], type_)
        return array[min(drawn[1], len(array)) :]

    return st.tuples(st.lists(st.none() | values, max_size=24), st.integers(0, 9)).map(slice_of)


@pytest.mark.parametrize(("type_", "values"), TYPES, ids=[str(type_) for type_, _ in TYPES])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_columns_come_back(type_: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """Decoding an encoded column, sliced or not, gives its values and nulls back."""
    column = data.draw(columns(type_, values))
    encoded = encode_array(column)
    assert encoded.null_count == column.null_count
    back = decode_array(encoded, type_)
    back.validate(full=not pa.types.is_date32(type_))
    if pa.types.is_floating(type_):
        # There is no negative zero.
        column = pc.add(column, pa.scalar(0.0, type_))
    if pa.types.is_dictionary(type_):
        column = column.dictionary_decode()
    assert back.equals(column)


ORDERED = [
    (type_, values)
    for type_, values in TYPES
    if not (pa.types.is_dictionary(type_) or pa.types.is_string(type_) or pa.types.is_string_view(type_))
]


@pytest.mark.parametrize(("type_", "values"), ORDERED, ids=[str(type_) for type_, _ in ORDERED])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_encodings_sort_as_values_do(
    type_: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """Bytes compare as the values they stand for."""
    drawn = data.draw(st.lists(values, min_size=2, max_size=12))
    encoded = encode_array(array_of(drawn, type_)).to_pylist()
    for value, bytes_ in zip(drawn, encoded, strict=True):
        for other, other_bytes in zip(drawn, encoded, strict=True):
            assert (value < other) == (bytes_ < other_bytes)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | INTERVAL, max_size=12))
def test_intervals_come_back(values: list[tuple[int, int, int] | None]) -> None:
    """Months, days and nanoseconds are one signed number of 128 bits, months first."""
    type_ = pa.month_day_nano_interval()
    column = pa.array([None if v is None else pa.MonthDayNano(v) for v in values], type_)
    encoded = encode_array(column)
    assert decode_array(encoded, type_).equals(column)
    for value, bytes_ in zip(values, encoded.to_pylist(), strict=True):
        if value is not None and bytes_ is not None:
            months, day, nano = struct.unpack(">Iiq", bytes_[1:])
            assert (months - 2**31, day, nano) == value


def test_all_nans_are_one() -> None:
    """Whatever its sign and payload, not-a-number has one encoding."""
    bits = pa.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], pa.uint64())
    floats = pa.Array.from_buffers(pa.float64(), 3, bits.buffers())
    assert len(set(encode_array(floats).to_pylist())) == 1


def test_chunks_stay_chunks() -> None:
    """A chunked column is encoded chunk by chunk."""
    column = pa.chunked_array([[1], [], [None, 2]], pa.int64())
    encoded = encode_array(column)
    assert [len(chunk) for chunk in encoded.chunks] == [1, 0, 2]
    assert encode_array(pa.chunked_array([], pa.int64())).type == pa.binary()


@pytest.mark.parametrize(
    "type_",
    [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null(), pa.float16(), pa.decimal256(40, 1)],
    ids=str,
)
def test_other_types_are_refused_by_name(type_: pa.DataType) -> None:
    """A type that upstream does not index is refused, and the message names it."""
    with pytest.raises(InvalidInputError, match="cannot be indexed") as caught:
        encode_array(pa.nulls(1, type_))
    assert str(type_) in caught.value.message
    with pytest.raises(InvalidInputError, match="cannot be indexed"):
        decode_array(pa.array([b"x"]), type_)


@pytest.mark.parametrize(
    ("value", "type_"), [(None, pa.int64()), ("x", pa.int64()), (300, pa.uint8()), (2**63, pa.int64())]
)
def test_values_of_another_type_are_refused(value: Any, type_: pa.DataType) -> None:
    """A null, or a value its type cannot hold, has no encoding."""
    with pytest.raises(InvalidInputError):
        encode_scalar(value, type_)


@pytest.mark.parametrize(
    ("encoded", "type_"),
    [
        ("", pa.int64()),
        ("0180000000000000", pa.int64()),
        ("0080000000000000000", pa.int64()),
        ("008000000000000000", pa.int64()),
        ("0102", pa.bool_()),
        ("0180000000000003e803", pa.time64("us")),
        ("01ffffffffffffffff00", pa.time32("s")),
        ("017fffffffffffffffffffffffffffcfc70b82", pa.decimal128(10, 2)),
        ("01", pa.binary()),
        ("010000", pa.binary()),
        ("01010102", pa.binary()),
        ("01020100", pa.binary()),
        ("00010100", pa.binary()),
        ("ff", pa.string()),
        ("0100", pa.binary(3)),
    ],
)
def test_bytes_that_are_no_value_are_refused(encoded: str, type_: pa.DataType) -> None:
    """Bytes that no value of the type is encoded to are damage."""
    with pytest.raises(CorruptionError):
        decode_scalar(bytes.fromhex(encoded.zfill(len(encoded) + len(encoded) % 2)), type_)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=24), st.sampled_from([type_ for type_, _ in TYPES[:-2]]))
def test_arbitrary_bytes_decode_or_are_refused(data: bytes, type_: pa.DataType) -> None:
    """Whatever the bytes, decoding gives a value of the type or CorruptionError."""
    try:
        assert decode_scalar(data, type_).type == type_
    except CorruptionError:
        pass
