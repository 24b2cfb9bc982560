"""Values as bytes: they sort as the values do, come back, and stay the same when a column is widened."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.keys import order_value
from lakehouse.format.keys.order_value import (
    NAN_BYTES,
    decode_fixed,
    decode_value,
    encode_fixed,
    encode_value,
    encode_values,
    value_width,
)
from lakehouse.format.schema.types import (
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    Primitive,
    StringType,
    arrow_type,
)
from tests.kit.blob_samples import spec_block
from tests.kit.typed_values import ORDERED_KINDS, column, ordered, spec_value, typed_values

FIXED_KINDS = tuple(kind for kind in ORDERED_KINDS if value_width(kind) is not None)


@given(typed_values(ORDERED_KINDS, min_size=2, max_size=2))
def test_bytes_sort_as_values(found: tuple[DataType, list[Any]]) -> None:
    """Of two values the lesser has the lesser bytes, and equal ones have the same."""
    kind, (one, other) = found
    left, right = encode_value(one, kind), encode_value(other, kind)
    assert (left < right) == (ordered(one) < ordered(other))
    assert (left == right) == (ordered(one) == ordered(other))


@given(typed_values(ORDERED_KINDS, min_size=1, max_size=1))
def test_a_value_comes_back(found: tuple[DataType, list[Any]]) -> None:
    """Decoding gives the value that was encoded."""
    kind, (value,) = found
    assert ordered(decode_value(encode_value(value, kind), kind)) == ordered(value)


@given(typed_values(ORDERED_KINDS, max_size=20), st.integers(0, 3), st.data())
def test_columns_have_the_bytes_of_their_values(
    found: tuple[DataType, list[Any]], skip: int, data: st.DataObject
) -> None:
    """A column, sliced or chunked, is encoded as its values are, and its nulls stay nulls."""
    kind, values = found
    holes = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    rows = [None if hole else value for value, hole in zip(values, holes, strict=True)]
    array = column(kind, rows)
    expected = [None if value is None else encode_value(value, kind) for value in rows]
    assert encode_values(array.slice(skip), kind).to_pylist() == expected[skip:]
    chunked = pa.chunked_array([array.slice(0, skip), array.slice(skip)], array.type)
    assert encode_values(chunked, kind).to_pylist() == expected
    assert encode_values(pa.chunked_array([], array.type), kind).to_pylist() == []
    encode_values(array, kind).validate(full=True)


@given(typed_values(ORDERED_KINDS, min_size=1, max_size=3))
def test_scalars_have_the_bytes_of_their_values(found: tuple[DataType, list[Any]]) -> None:
    """The constants of a bound condition are encoded as the values they hold."""
    kind, values = found
    for value in values:
        assert encode_value(pa.scalar(value, arrow_type(kind)), kind) == encode_value(value, kind)


@given(typed_values(FIXED_KINDS, max_size=20))
def test_columns_come_back(found: tuple[DataType, list[Any]]) -> None:
    """Decoding the bytes of a column gives the column, -0.0 as 0.0."""
    kind, values = found
    array = column(kind, values)
    again = decode_fixed(encode_fixed(array, kind), kind)
    assert again.type == array.type
    assert [ordered(value) for value in again.to_pylist()] == [ordered(value) for value in values]


@pytest.mark.parametrize(
    ("narrow", "wide", "value"),
    [
        (Primitive("int8"), Primitive("int64"), -7),
        (Primitive("int32"), Primitive("int64"), 1 << 30),
        (Primitive("float"), Primitive("double"), 0.1),
        (DecimalType(4, 2), DecimalType(38, 2), decimal.Decimal("-12.34")),
        (StringType(3), StringType(), "abc"),
        (BinaryType(3), BinaryType(), b"abc"),
    ],
)
def test_widening_changes_no_byte(narrow: DataType, wide: DataType, value: Any) -> None:
    """A value has the same bytes in a column that was widened."""
    stored = pa.array([value], arrow_type(narrow))
    widened = stored if arrow_type(narrow) == arrow_type(wide) else stored.cast(arrow_type(wide))
    assert encode_values(stored, narrow) == encode_values(widened, wide)
    assert encode_values(stored, wide) == encode_values(widened, wide)


@pytest.mark.parametrize("kind", [Primitive("float"), Primitive("double")])
def test_numbers_that_look_different_and_are_equal(kind: Primitive) -> None:
    """-0.0 is 0.0, and every NaN is the one above +inf, whatever its bits."""
    odd = np.array([0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0001, 0x7FF0_0000_0000_0001], np.uint64)
    numbers = pa.array(odd.view(np.float64)).cast(arrow_type(kind), safe=False)
    assert set(encode_values(numbers, kind).to_pylist()) == {NAN_BYTES} == {encode_value(math.nan, kind)}
    assert encode_value(math.inf, kind) < NAN_BYTES
    assert encode_value(-0.0, kind) == encode_value(0.0, kind)
    assert encode_values(pa.array([-0.0], arrow_type(kind)), kind)[0].as_py() == encode_value(0.0, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, Primitive("int64")),
        (pa.scalar(None, pa.int64()), Primitive("int64")),
        (1.0, Primitive("int64")),
        (True, Primitive("int64")),
        ("1", Primitive("int64")),
        (128, Primitive("int8")),
        (-129, Primitive("int8")),
        (1 << 63, Primitive("int64")),
        (1, Primitive("boolean")),
        (True, Primitive("double")),
        ("a", Primitive("double")),
        (decimal.Decimal("1.001"), DecimalType(7, 2)),
        (decimal.Decimal("100000"), DecimalType(7, 2)),
        (decimal.Decimal("nan"), DecimalType(7, 2)),
        (decimal.Decimal("1e999999"), DecimalType(7, 2)),
        (True, DecimalType(7, 2)),
        (b"a", StringType()),
        ("a", BinaryType()),
        (dt.datetime(2026, 1, 1), Primitive("date")),
        (dt.date(2026, 1, 1), Primitive("timestamp")),
        (dt.time(1, tzinfo=dt.UTC), Primitive("time")),
    ],
)
def test_what_is_no_value_of_the_type(value: Any, kind: DataType) -> None:
    """A null, a value of another type and one the type cannot hold exactly are refused, with the value."""
    with pytest.raises(InvalidInputError, match="is no value of type"):
        encode_value(value, kind)


def test_moments_are_those_of_conditions() -> None:
    """A moment without zone means UTC for a column with one, and the other way round."""
    noon = dt.datetime(2026, 1, 1, 12)
    in_zone = noon.replace(hour=13, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    for name in ("timestamp", "timestamp_ntz"):
        assert encode_value(noon, Primitive(name)) == encode_value(in_zone, Primitive(name))


def test_nested_values_have_no_order() -> None:
    """Lists, maps and structs are refused by type."""
    kind = ListType(Field(id=2, name="element", type=Primitive("int64")))
    for wanted in (lambda: value_width(kind), lambda: encode_value([1], kind)):
        with pytest.raises(InvalidInputError, match="have no order"):
            wanted()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", Primitive("int64")),
        (b"\0" * 9, Primitive("double")),
        (b"\2", Primitive("boolean")),
        (b"\xff" * 8, Primitive("int8")),
        (b"\xff" * 8, Primitive("date")),
        (b"\0" * 15, DecimalType(7, 2)),
        (b"\xff", StringType()),
    ],
)
def test_bytes_of_no_value_are_damage(data: bytes, kind: DataType) -> None:
    """Too few bytes, numbers outside the type, and text that is not UTF-8 are corruption."""
    with pytest.raises(CorruptionError):
        decode_value(data, kind)


def test_times_that_python_lacks() -> None:
    """A moment after the year 9999 is encoded from Arrow, and decoding it says what to do."""
    far = pa.scalar(1 << 60, pa.timestamp("us"))
    data = encode_value(far, Primitive("timestamp_ntz"))
    assert data > encode_value(dt.datetime.max, Primitive("timestamp_ntz"))
    with pytest.raises(InvalidInputError, match="as an Arrow array"):
        decode_value(data, Primitive("timestamp_ntz"))


def test_offsets_grow_with_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 32-bit offsets do not suffice, the array has 64-bit ones and the same values."""
    numbers = pa.array([3, None, -1])
    texts = pa.chunked_array([["abc"], ["def", None]])
    small = encode_values(numbers, Primitive("int64"))
    monkeypatch.setattr(order_value, "_SMALL_OFFSET_MAX", 3)
    large = encode_values(numbers, Primitive("int64"))
    assert (small.type, large.type) == (pa.binary(), pa.large_binary())
    assert large.to_pylist() == small.to_pylist()
    joined = encode_values(texts, StringType())
    assert joined.type == pa.large_binary()
    assert joined.to_pylist() == [b"abc", b"def", None]


def test_text_is_not_copied() -> None:
    """The bytes of a text column are the column's own."""
    texts = pa.array(["a", "bc"])
    assert encode_values(texts, StringType()).buffers()[2].address == texts.buffers()[2].address


def test_the_specified_bytes() -> None:
    """The examples of the specification are what is written, and what they say is read."""
    for line in spec_block("row-key.md", "values").splitlines():
        name, text, expected = re.split(r"\s{2,}", line)
        kind, value = spec_value(name, text)
        assert encode_value(value, kind).hex() == expected, line
        assert ordered(decode_value(bytes.fromhex(expected), kind)) == ordered(value)
