"""Casts keep what values stand for, or make them null."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.kernels.exact_casts import cast_exactly

D = decimal.Decimal
MIDNIGHT = dt.datetime(2024, 1, 15)
EPOCH = dt.datetime(1970, 1, 1)
NO_UUID = pa.array([bytes(16)], pa.binary(16))
MICRO = dt.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([1, 300, None], pa.int64()), pa.int8(), [1, None, None]),
        (pa.array([1.0, 1.5, 2.0**63, -(2.0**63), float("nan")]), pa.int64(), [1, None, None, None, None]),
        (pa.array([2**53 + 1, 2**53], pa.int64()), pa.float64(), [None, 2.0**53]),
        (pa.array([0.1, 0.5, float("inf")]), pa.float32(), [None, 0.5, float("inf")]),
        (pa.array([1, 100, -99, None], pa.int64()), pa.decimal128(4, 2), [D(1), None, D(-99), None]),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(38, 2), [D(2**64 - 1)]),
        (pa.array([0.1, 0.125, 1e30]), pa.decimal128(4, 2), [D("0.10"), None, None]),
        (pa.array([D("0.10"), D("0.30")], pa.decimal128(4, 2)), pa.float64(), [0.1, 0.3]),
        (pa.array([D("1.500"), D("1.555")], pa.decimal128(9, 3)), pa.decimal128(9, 2), [D("1.50"), None]),
        (pa.array([D("1.00"), D("1.50"), D(10**20)], pa.decimal128(23, 2)), pa.int64(), [1, None, None]),
        (pa.array([MIDNIGHT, MIDNIGHT + MICRO]), pa.date32(), [MIDNIGHT.date(), None]),
        (pa.array([MIDNIGHT.date()]), pa.timestamp("us", "UTC"), [MIDNIGHT.replace(tzinfo=dt.UTC)]),
        (pa.array([MIDNIGHT]), pa.timestamp("us", "UTC"), [MIDNIGHT.replace(tzinfo=dt.UTC)]),
        (pa.array([1_000, 1_001]).cast(pa.timestamp("ns")), pa.timestamp("us"), [EPOCH + MICRO, None]),
        (pa.array(["a", None]), pa.large_string(), ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
        (pa.array([b"ab", b"abc"]), pa.binary(2), [b"ab", None]),
        (pa.nulls(2), pa.int64(), [None, None]),
        (pa.ExtensionArray.from_storage(pa.uuid(), NO_UUID), pa.binary(), [bytes(16)]),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_becomes_null(values: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    """A value that the type cannot hold becomes null, and any other stays equal."""
    cast = cast_exactly(values, kind)
    assert cast.type == kind
    assert cast.to_pylist() == expected


@given(st.lists(st.none() | st.floats(width=64), max_size=6))
def test_floats_stay_equal_to_integers(values: list[float | None]) -> None:
    """No float becomes an integer that it is not equal to."""
    for value, cast in zip(values, cast_exactly(pa.array(values, pa.float64()), pa.int64()), strict=True):
        assert cast.as_py() is None or cast.as_py() == value
        is_whole = value is not None and abs(value) < 2**63 and value == int(value)
        assert cast.is_valid == is_whole


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array(["1"]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([True]), pa.int64()),
        (pa.array([1]), pa.date32()),
        (pa.array([[1]]), pa.int64()),
    ],
)
def test_other_families_are_refused(values: pa.Array, kind: pa.DataType) -> None:
    """A cast between types that share no value is refused."""
    with pytest.raises(InvalidInputError, match="is equal to"):
        cast_exactly(values, kind)
