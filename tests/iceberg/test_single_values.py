"""Single values in JSON, after the table of the specification's appendix D."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.schema import (
    BinaryType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    arrow_type,
)
from lakehouse.iceberg.single_values import single_value

_INT = Field(id=2, name="n", type=Primitive("int32"), initial_default=5)
_TEXT = Field(id=3, name="s", type=StringType())
_KEY = Field(id=4, name="key", type=StringType(), required=True)


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (Primitive("boolean"), True, True),
        (Primitive("int32"), 34, 34),
        (Primitive("int64"), -(2**63), -(2**63)),
        (Primitive("float"), 1, 1.0),
        (Primitive("double"), 1.5, 1.5),
        (Primitive("date"), "2017-11-16", dt.date(2017, 11, 16)),
        (Primitive("time"), "22:31:08.123456", dt.time(22, 31, 8, 123456)),
        (
            Primitive("timestamp_ntz"),
            "2017-11-16T22:31:08.123456",
            dt.datetime(2017, 11, 16, 22, 31, 8, 123456),
        ),
        (
            Primitive("timestamp"),
            "2017-11-16T22:31:08.123456+08:00",
            dt.datetime(2017, 11, 16, 14, 31, 8, 123456, dt.UTC),
        ),
        (Primitive("timestamp_ns_ntz"), "1970-01-01T00:00:01.000000001", 1_000_000_001),
        (Primitive("timestamp_ns"), "1970-01-01T01:00:00.123456789+01:00", 123_456_789),
        (StringType(), "iceberg", "iceberg"),
        (
            BinaryType(16),
            "f79c3e09-677c-4bbd-a479-3f349cb785e7",
            bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"),
        ),
        (BinaryType(3), "000102", bytes(range(3))),
        (BinaryType(), "", b""),
        (DecimalType(9, 2), "14.20", Decimal("14.20")),
        (DecimalType(9, 2), "-3", Decimal("-3.00")),
        (StructType((_INT, _TEXT)), {"2": 1, "3": "bar"}, {"n": 1, "s": "bar"}),
        (StructType((_INT, _TEXT)), {}, {"n": 5, "s": None}),
        (ListType(_INT), [1, 2, 3], [1, 2, 3]),
        (MapType(_KEY, _INT), {"keys": ["a", "b"], "values": [1, 2]}, [("a", 1), ("b", 2)]),
        (Primitive("int32"), None, None),
    ],
)
def test_values_of_the_specification(kind: Any, written: Any, value: Any) -> None:
    """Each example has its value, and Arrow takes it as one of the type."""
    assert single_value(kind, written) == value
    assert pa.scalar(value, arrow_type(kind)).is_valid is (value is not None)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (Primitive("boolean"), 1),
        (Primitive("int32"), 2**31),
        (Primitive("int32"), True),
        (Primitive("double"), "1"),
        (Primitive("date"), "yesterday"),
        (Primitive("timestamp"), "2017-11-16T22:31:08"),
        (Primitive("timestamp_ntz"), "2017-11-16T22:31:08Z"),
        (Primitive("timestamp_ns"), "2017-11-16T22:31:08.1234567890"),
        (BinaryType(2), "000102"),
        (BinaryType(), "zz"),
        (DecimalType(9, 2), "1.234"),
        (DecimalType(3, 2), "12.34"),
        (DecimalType(9, 2), "NaN"),
        (DecimalType(9, 2), "much"),
        (MapType(_KEY, _INT), {"keys": ["a"], "values": []}),
        (ListType(_INT), {}),
        (StructType((_INT,)), []),
    ],
)
def test_values_that_do_not_fit_are_refused(kind: Any, written: Any) -> None:
    """Nothing is rounded, cut off or guessed."""
    with pytest.raises((ValueError, LookupError)):
        single_value(kind, written)


@given(st.integers(-(2**63), 2**63 - 1))
def test_nanoseconds_are_exact(value: int) -> None:
    """A moment written by numpy is read as the same number."""
    # The least number stands for "not a time" in numpy.
    moment = max(value, 1 - 2**63)
    assert single_value(Primitive("timestamp_ns_ntz"), str(np.datetime64(moment, "ns"))) == moment
