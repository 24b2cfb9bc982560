"""Values of Arrow arrays have the hashes of Iceberg's specification."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.kernels.value_hashes import hash_values

MOMENT = dt.datetime(2017, 11, 16, 22, 31, 8)
LATER = MOMENT + dt.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (34, pa.int32(), 2017239379),
        (34, pa.int64(), 2017239379),
        (decimal.Decimal("14.20"), pa.decimal128(9, 2), -500754589),
        (decimal.Decimal("14.20"), pa.decimal128(38, 2), -500754589),
        (dt.date(2017, 11, 16), pa.date32(), -653330422),
        (dt.time(22, 31, 8), pa.time64("us"), -662762989),
        *((MOMENT, pa.timestamp(unit, zone), -2047944441) for unit in ("us", "ns") for zone in (None, "UTC")),
        *((LATER, pa.timestamp(unit, zone), -1207196810) for unit in ("us", "ns") for zone in (None, "UTC")),
        (MOMENT, pa.timestamp("ms"), -2047944441),
        ("iceberg", pa.string(), 1210000089),
        ("iceberg", pa.large_string(), 1210000089),
        (uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, pa.binary(16), 1488055340),
        (bytes([0, 1, 2, 3]), pa.binary(4), -188683207),
        (bytes([0, 1, 2, 3]), pa.binary(), -188683207),
        (True, pa.bool_(), 1392991556),
        (1.0, pa.float32(), -142385009),
        (1.0, pa.float64(), -142385009),
        (0.0, pa.float32(), 1669671676),
        (-0.0, pa.float64(), 1669671676),
    ],
)
def test_vectors_of_the_specification(value: Any, kind: pa.DataType, expected: int) -> None:
    """Each example of appendix B has its hash, also in a slice of an array with nulls."""
    values = pa.array([None, value, None, value], kind)[1:]
    hashes = hash_values(values).view(np.int32)
    assert (hashes[0], hashes[2]) == (expected, expected)


def test_nanoseconds_are_hashed_as_microseconds() -> None:
    """Nanoseconds are rounded down before they are hashed, also those before 1970."""
    fine = pa.array([1_001, -1], pa.int64()).cast(pa.timestamp("ns"))
    coarse = pa.array([1, -1], pa.int64()).cast(pa.timestamp("us"))
    assert hash_values(fine).tolist() == hash_values(coarse).tolist()


def test_all_nan_are_hashed_alike() -> None:
    """The bits of a NaN do not matter."""
    odd = np.array([0x7FF8_0000_0000_0001, 0x7FF8_0000_0000_0000], np.int64).view(np.float64)
    first, second = hash_values(pa.array(odd)).tolist()
    assert first == second


def test_nested_values_have_no_hash() -> None:
    """Values without a hash are refused by name."""
    with pytest.raises(InvalidInputError, match="list"):
        hash_values(pa.array([[1]]))
