"""A Bloom filter finds every value that was put in, and few others."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.kernels.value_bloom import ValueBloom

D = decimal.Decimal


@pytest.mark.parametrize(
    ("put", "asked"),
    [
        (pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.int64())),
        (pa.array([1, 2], pa.int64()), pa.array([1.0, 2.0])),
        (pa.array([1.0, 0.0]), pa.array([1.0, -0.0], pa.float32())),
        (pa.array([2**63 + 1], pa.uint64()), pa.array([2**63 + 1], pa.uint64())),
        (pa.array([D("1.50")], pa.decimal128(9, 2)), pa.array([D("1.500")], pa.decimal128(20, 3))),
        (pa.array(["a", "ü"]), pa.array(["ü", "a"], pa.large_string())),
        (pa.array([b"ab"]), pa.array([b"ab"], pa.binary(2))),
        (pa.array([dt.date(2024, 1, 15)]), pa.array([dt.datetime(2024, 1, 15)])),
        (pa.array([dt.datetime(2024, 1, 15)]), pa.array([dt.date(2024, 1, 15)])),
        (pa.array([dt.time(1, 2)]), pa.array([dt.time(1, 2)])),
        (pa.array([True]), pa.array([True])),
        (pa.array(["a"]).dictionary_encode(), pa.array(["a"])),
    ],
    ids=str,
)
def test_equal_values_are_found(put: pa.Array, asked: pa.Array) -> None:
    """A value is found whatever its type, also after the filter was bytes; null is never found."""
    bloom = ValueBloom.from_bytes(ValueBloom.of(put).to_bytes())
    with_null = pa.concat_arrays([asked, pa.nulls(1, asked.type)])
    assert bloom.might_contain(with_null).tolist() == [True] * len(asked) + [False]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.decimal128(22, 2)], ids=str)
@pytest.mark.parametrize("rate", [0.1, 0.01, 0.0001])
def test_few_other_values_are_found(kind: pa.DataType, rate: float) -> None:
    """Of other values about the share is found that was asked for, and all that were put in."""
    bloom = ValueBloom.of(pa.array(range(20_000)).cast(kind), false_positive_rate=rate)
    others = bloom.might_contain(pa.array(range(20_000, 120_000)).cast(kind))
    assert bloom.might_contain(pa.array(range(20_000)).cast(kind)).all()
    assert others.mean() < rate * 1.5 + 0.0001


def test_small_filters_are_exact() -> None:
    """Of a few values and a small rate, hardly any other value is found."""
    bloom = ValueBloom.of(pa.array([5, 105, 205]), false_positive_rate=1e-6)
    assert np.flatnonzero(bloom.might_contain(pa.array(range(10_000)))).tolist() == [5, 105, 205]


def test_nothing_is_found_among_no_values() -> None:
    """A filter of nulls alone finds nothing."""
    bloom = ValueBloom.of(pa.nulls(3, pa.int64()))
    assert bloom.values == 0
    assert not bloom.might_contain(pa.array(range(100))).any()


@pytest.mark.parametrize("rate", [0, 1, -1, 2])
def test_rates_are_shares(rate: float) -> None:
    """A rate that is no share is refused."""
    with pytest.raises(InvalidInputError, match="rate"):
        ValueBloom.of(pa.array([1]), false_positive_rate=rate)


def test_types_without_a_filter_are_refused() -> None:
    """There is no filter of lists, and texts are not looked for among numbers."""
    with pytest.raises(InvalidInputError, match="no Bloom filter of list"):
        ValueBloom.of(pa.array([[1]]))
    with pytest.raises(InvalidInputError, match="is equal to"):
        ValueBloom.of(pa.array([1])).might_contain(pa.array(["1"]))


WHOLE = ValueBloom.of(pa.array([1, 2, 3])).to_bytes()


@given(st.binary(max_size=60) | st.integers(0, len(WHOLE) - 1).map(lambda size: WHOLE[:size]))
@example(WHOLE + b"\0")
@example(WHOLE.replace(b"int64", b"int65"))
@example(WHOLE.replace(b"int64", b"decimal128(99, 2)"))
@example(WHOLE[:16] + struct.pack("<QQ", 1, 2**61) + WHOLE[29:])
@example(WHOLE[:13] + struct.pack("<QQ", 1, 2**61))
@example(WHOLE[:13] + struct.pack("<QQ", 1, 0))
@example(WHOLE[:5] + b"\xff" + WHOLE[6:])
@example(WHOLE[:4] + b"\2" + WHOLE[5:])
@example(WHOLE[:8] + b"\xff\xff\xff\xff\xff" + WHOLE[13:])
def test_damaged_bytes_are_refused(data: bytes) -> None:
    """Bytes that are no filter are a corruption, whatever they claim."""
    with pytest.raises(CorruptionError, match="no Bloom filter"):
        ValueBloom.from_bytes(data)


def test_bytes_keep_everything() -> None:
    """A filter that was bytes is the same one."""
    values: Any = pa.array([D("1.50"), None], pa.decimal128(9, 2))
    bloom = ValueBloom.of(values, false_positive_rate=0.2)
    again = ValueBloom.from_bytes(bloom.to_bytes())
    assert (again.kind, again.values, again.probes) == (bloom.kind, 1, 2)
    assert np.array_equal(again.words, bloom.words)
