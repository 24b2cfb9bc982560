"""Bounds as values, from the bytes of Iceberg's single-value serialization."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.iceberg.manifests import RawBounds, decoded_bounds
from lakehouse.iceberg.manifests.keyed import KeyedBytes

_UTC = dt.UTC
_DAY = struct.pack("<i", 1)
_MOMENT = dt.datetime(1970, 1, 1, 0, 0, 0, 5)


def _raw(stored: list[bytes | None]) -> RawBounds | None:
    """The bounds of a field in some files, as a manifest has them."""
    there = [bound for bound in stored if bound is not None]
    sizes = np.array([len(bound) for bound in there], np.int64)
    data = np.frombuffer(b"".join(there), np.uint8)
    lengths = np.array([bound is not None for bound in stored], np.int64)
    keyed = KeyedBytes.of(np.full(len(there), 7, np.int64), data, np.cumsum(sizes) - sizes, sizes, lengths)
    return keyed.field(7)


def _decoded(stored: list[bytes | None], kind: pa.DataType) -> list[Any]:
    found = decoded_bounds(_raw(stored), kind, count=len(stored))
    found.validate(full=True)
    assert found.type == kind
    return found.to_pylist()


_GOLDEN = [
    (pa.bool_(), b"\x00", False),
    (pa.bool_(), b"\x01", True),
    (pa.bool_(), b"\x05", True),
    (pa.int32(), b"\x22\x00\x00\x00", 34),
    (pa.int32(), b"\xfe\xff\xff\xff", -2),
    (pa.int64(), b"\x22" + bytes(7), 34),
    (pa.float32(), struct.pack("<f", -4.5), -4.5),
    (pa.float64(), struct.pack("<d", 6.0), 6.0),
    (pa.date32(), struct.pack("<i", 17486), dt.date(2017, 11, 16)),
    (pa.time64("us"), struct.pack("<q", 81_068_000_000), dt.time(22, 31, 8)),
    (pa.timestamp("us"), struct.pack("<q", 1_510_871_468_000_001), dt.datetime(2017, 11, 16, 22, 31, 8, 1)),
    (pa.timestamp("us", "UTC"), struct.pack("<q", 0), dt.datetime(1970, 1, 1, tzinfo=_UTC)),
    (pa.timestamp("ns"), struct.pack("<q", 1_000), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
    (pa.timestamp("ns", "UTC"), struct.pack("<q", 1_000), dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=_UTC)),
    (pa.string(), "iceberg ❄".encode(), "iceberg ❄"),
    (pa.string(), b"", ""),
    (pa.large_string(), b"a", "a"),
    (pa.binary(16), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes,
     uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes),
    (pa.binary(3), b"\x00\x01\x02", b"\x00\x01\x02"),
    (pa.binary(), b"\x00\xff", b"\x00\xff"),
    (pa.decimal128(9, 2), b"\x05\x8c", decimal.Decimal("14.20")),
    (pa.decimal128(9, 2), b"\xfa\x74", decimal.Decimal("-14.20")),
    (pa.decimal128(38, 0), b"\x00\xff", decimal.Decimal(255)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "stored", "value"), _GOLDEN)
def test_each_type_is_decoded(kind: pa.DataType, stored: bytes, value: Any) -> None:
    """Bytes of the specification's examples are the values that they stand for, alone and among others."""
    assert _decoded([stored], kind) == [value]
    assert _decoded([None, stored, None, stored], kind) == [None, value, None, value]


@pytest.mark.parametrize(("kind", "stored", "value"), _GOLDEN)
def test_bytes_of_another_length_are_not_known(kind: pa.DataType, stored: bytes, value: Any) -> None:
    """A bound of a length that no value of the type has is unknown, and harms no other."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.binary():
        return
    wrong = (
        [bytes(70)]
        if pa.types.is_decimal(kind)
        else [b"", stored + b"\x00", stored[:-1] + b"\x00\x00\x00\x00"]
    )
    for other in wrong:
        assert _decoded([other, stored], kind) == [None, value]
        assert _decoded([other, other], kind) == [None, None]


@pytest.mark.parametrize(
    ("kind", "old", "new", "values"),
    [
        (pa.int64(), struct.pack("<i", -5), struct.pack("<q", 1 << 40), [-5, 1 << 40]),
        (pa.float64(), struct.pack("<f", 1.5), struct.pack("<d", 0.1), [1.5, 0.1]),
        (pa.timestamp("us"), _DAY, struct.pack("<q", 5), [dt.datetime(1970, 1, 2), _MOMENT]),
        (pa.timestamp("ns"), _DAY, struct.pack("<q", 5000), [dt.datetime(1970, 1, 2), _MOMENT]),
        (pa.decimal128(20, 1), b"\x05\x8c", bytes(9), [decimal.Decimal(142), decimal.Decimal(0)]),
    ],
)  # fmt: skip
def test_bounds_from_before_a_promotion_are_decoded(
    kind: pa.DataType, old: bytes, new: bytes, values: list[Any]
) -> None:
    """Bounds of the type that a column had before are values of the type it has, alone and among new ones."""
    assert _decoded([old, new], kind) == values
    assert _decoded([new, None, old], kind) == [values[1], None, values[0]]
    assert _decoded([old, old], kind) == [values[0]] * 2


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC"), pa.time64("us")])
def test_days_are_no_instants(kind: pa.DataType) -> None:
    """A date is promoted to local time only; four bytes in a column of instants or times are unknown."""
    assert _decoded([struct.pack("<i", 1)], kind) == [None]


def test_days_beyond_the_range_are_not_known() -> None:
    """A day that has no nanoseconds of 64 bits is unknown."""
    assert _decoded([struct.pack("<i", 200_000), struct.pack("<i", 0)], pa.timestamp("ns")) == [
        None,
        dt.datetime(1970, 1, 1),
    ]


def test_nan_is_no_bound() -> None:
    """NaN bounds nothing, of either width."""
    assert _decoded([struct.pack("<f", math.nan), struct.pack("<f", 1)], pa.float32()) == [None, 1.0]
    stored = [struct.pack("<d", math.nan), struct.pack("<f", math.nan), struct.pack("<d", math.inf)]
    assert _decoded(stored, pa.float64()) == [None, None, math.inf]  # type: ignore[arg-type]


def test_text_that_is_not_utf8_is_not_known() -> None:
    """A text that was cut within a character is unknown, and the others are not."""
    assert _decoded([b"a", "ü".encode()[:1], None, "ü".encode()], pa.string()) == ["a", None, None, "ü"]


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.int16()])
def test_types_without_bounds_have_none(kind: pa.DataType) -> None:
    """Bytes in the place of a bound of a type that has none are ignored."""
    assert _decoded([b"\x00\x00\x00\x00"], kind) == [None]


def test_a_field_without_bounds_is_unknown() -> None:
    """A field that no file has bounds of is null in each."""
    assert decoded_bounds(None, pa.int32(), count=3).to_pylist() == [None] * 3


def test_numbers_are_not_copied() -> None:
    """Bounds of one width are values where they lie."""
    raw = _raw([struct.pack("<q", number) for number in range(5)])
    assert raw is not None
    found = decoded_bounds(raw, pa.int64(), count=5)
    assert found.buffers()[1].address == raw.data.ctypes.data


@given(
    st.sampled_from([kind for kind, _, _ in _GOLDEN]),
    st.lists(st.none() | st.binary(max_size=9) | st.binary(min_size=4, max_size=4), max_size=6),
)
def test_no_bytes_are_an_error(kind: pa.DataType, stored: list[bytes | None]) -> None:
    """Whatever stands in the place of a bound, it is a sound value or unknown."""
    found = decoded_bounds(_raw(stored), kind, count=len(stored))
    found.validate(full=True)
    assert (found.type, len(found)) == (kind, len(stored))
