"""Bounds and partition values: our ordered bytes become Iceberg's, as pyiceberg writes them."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as ice
from pyiceberg.conversions import to_bytes

from lakehouse.errors import InternalError
from lakehouse.format.keys import encode_value
from lakehouse.format.schema import BinaryType, DataType, DecimalType, ListType, Primitive, StringType
from lakehouse.format.schema import Field as TableField
from lakehouse.iceberg.publishing.values import avro_type, avro_value, bound, decimal_bytes

DAYS = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
KINDS: list[tuple[DataType, Any, st.SearchStrategy[Any]]] = [
    (Primitive("boolean"), ice.BooleanType(), st.booleans()),
    (Primitive("int8"), ice.IntegerType(), st.integers(-128, 127)),
    (Primitive("int16"), ice.IntegerType(), st.integers(-(1 << 15), (1 << 15) - 1)),
    (Primitive("int32"), ice.IntegerType(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (Primitive("int64"), ice.LongType(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (Primitive("double"), ice.DoubleType(), st.floats(allow_nan=False).filter(bool)),
    (Primitive("float"), ice.FloatType(), st.floats(allow_nan=False, width=32).filter(bool)),
    (Primitive("date"), ice.DateType(), DAYS),
    (Primitive("timestamp_ntz"), ice.TimestampType(), MOMENTS),
    (StringType(), ice.StringType(), st.text()),
    (BinaryType(), ice.BinaryType(), st.binary()),
    (
        DecimalType(20, 3),
        ice.DecimalType(20, 3),
        st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: decimal.Decimal(n).scaleb(-3, _EXACT)),
    ),
]
_EXACT = decimal.Context(prec=60)


@pytest.mark.parametrize("at", range(len(KINDS)), ids=lambda at: str(KINDS[at][1]))
@given(data=st.data())
def test_bounds_are_the_bytes_that_pyiceberg_writes(at: int, data: st.DataObject) -> None:
    """A value that is a bound has the single-value bytes of Iceberg's specification."""
    kind, theirs, values = KINDS[at]
    value = data.draw(values)
    wanted = value.microsecond + _seconds(value) * 1_000_000 if isinstance(value, dt.datetime) else value
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        wanted = (value - dt.date(1970, 1, 1)).days
    assert bound(encode_value(value, kind), kind, is_low=True) == to_bytes(theirs, wanted)


def _seconds(value: dt.datetime) -> int:
    passed = value.replace(microsecond=0) - dt.datetime(1970, 1, 1)
    return passed.days * 86_400 + passed.seconds


def test_a_bound_that_is_no_number_is_left_out() -> None:
    """Iceberg's bounds are never NaN, which ours are where a column has one."""
    kind = Primitive("double")
    assert bound(encode_value(math.nan, kind), kind, is_low=False) is None


def test_zero_bounds_both_zeros() -> None:
    """Ours are one zero; there -0.0 is below 0.0, so each bound takes the zero on its side."""
    kind = Primitive("double")
    zero = encode_value(0.0, kind)
    assert bound(zero, kind, is_low=True) == struct.pack("<d", -0.0)
    assert bound(zero, kind, is_low=False) == struct.pack("<d", 0.0)


@pytest.mark.parametrize(("digits", "size"), [(1, 1), (2, 1), (3, 2), (9, 4), (10, 5), (18, 8), (38, 16)])
def test_decimals_have_as_many_bytes_as_their_digits_need(digits: int, size: int) -> None:
    """The fixed that holds a decimal of so many digits is as short as the specification has it."""
    assert decimal_bytes(digits) == size


def test_partition_values_are_of_their_avro_types() -> None:
    """A partition value is what the Avro type beside it holds."""
    kinds: list[tuple[DataType, Any, Any]] = [
        (Primitive("int8"), -3, -3),
        (Primitive("boolean"), True, True),
        (Primitive("date"), dt.date(1970, 1, 3), 2),
        (StringType(), "é", "é"),
        (BinaryType(), b"\0", b"\0"),
        (DecimalType(4, 2), decimal.Decimal("-1.00"), b"\xff\x9c"),
    ]
    for kind, value, wanted in kinds:
        assert avro_value(encode_value(value, kind), kind) == wanted
        assert avro_type(kind)


def test_types_without_an_order_have_neither() -> None:
    """Lists have no bounds and partition nothing: asking for them is a mistake of ours."""
    kind = ListType(TableField(id=2, name="element", type=StringType()))
    with pytest.raises(InternalError):
        bound(b"", kind, is_low=True)
    with pytest.raises(InternalError):
        avro_type(kind)
