"""Theta sketches that we make: DataSketches reads them, and would have made the same."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.puffin.theta_builder import ThetaBuilder
from lakehouse.format.puffin.theta_sketch import ThetaSketch
from tests.kit.blob_samples import flipped

texts = st.text(st.characters(codec="utf-8"), max_size=70)


def sketch(*columns: pa.Array, nominal: int = 4096) -> bytes:
    """The sketch of some columns."""
    builder = ThetaBuilder(nominal_entries=nominal)
    for column in columns:
        builder.update(column)
    return builder.encode()


def theirs(values: list[Any]) -> bytes:
    """The sketch that DataSketches makes of the values."""
    made = datasketches.update_theta_sketch()
    for value in values:
        made.update(value)
    return made.compact().serialize()


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=200))
@settings(max_examples=60, deadline=None)
def test_numbers_give_the_sketch_of_datasketches(values: list[int]) -> None:
    """As long as every value counts, the bytes are the same."""
    assert sketch(pa.array(values, pa.int64())) == theirs(values)


@given(values=st.lists(texts, max_size=60))
@settings(max_examples=60, deadline=None)
def test_texts_give_the_sketch_of_datasketches(values: list[str]) -> None:
    """Of any length and in any script; empty ones count nowhere."""
    assert sketch(pa.array(values, pa.string())) == theirs(values)


def test_long_values_are_hashed_whole() -> None:
    """A few values that are much longer than the others are hashed like them."""
    values = ["x" * size for size in [*range(1, 60), 1_000, 100_003, 100_004]]
    assert sketch(pa.array(values)) == theirs(values)


def test_datasketches_reads_what_we_make() -> None:
    """Estimate, bounds and seed of a sketch that keeps a part of its values."""
    blob = sketch(pa.array(np.arange(100_000)))
    read = datasketches.compact_theta_sketch.deserialize(blob)
    ours = ThetaSketch.parse(blob)
    assert read.get_estimate() == pytest.approx(ours.estimate)
    assert abs(ours.estimate - 100_000) < 5_000
    assert read.num_retained == ours.entries == 4096
    assert read.is_ordered()


@given(
    groups=st.lists(st.lists(st.integers(0, 2_000), max_size=300), min_size=1, max_size=5),
    nominal=st.sampled_from([16, 64, 4096]),
)
@settings(max_examples=60, deadline=None)
def test_merged_sketches_are_the_sketch_of_all_values(groups: list[list[int]], nominal: int) -> None:
    """However values are spread, the union is the sketch of all of them together."""
    merged = ThetaBuilder(nominal_entries=nominal)
    for group in groups:
        merged.merge(sketch(pa.array(group, pa.int64()), nominal=nominal))
    whole = sketch(*(pa.array(group, pa.int64()) for group in groups), nominal=nominal)
    assert merged.encode() == whole
    assert merged.estimate == pytest.approx(ThetaSketch.parse(whole).estimate)


def test_sketches_of_datasketches_are_merged() -> None:
    """The union of theirs and ours estimates what theirs does."""
    first, second = list(range(60_000)), list(range(30_000, 90_000))
    merged = ThetaBuilder()
    merged.merge(theirs(first))
    merged.merge(sketch(pa.array(second)))
    union = datasketches.theta_union()
    union.update(datasketches.compact_theta_sketch.deserialize(theirs(first)))
    union.update(datasketches.compact_theta_sketch.deserialize(sketch(pa.array(second))))
    assert merged.estimate == pytest.approx(union.get_result().get_estimate(), rel=0.05)
    assert abs(merged.estimate - 90_000) < 5_000


@pytest.mark.parametrize(
    ("values", "bytes_"),
    [
        (pa.array([34], pa.int32()), "22000000"),
        (pa.array([34], pa.int16()), "22000000"),
        (pa.array([34], pa.int64()), "2200000000000000"),
        (pa.array([True]), "01"),
        (pa.array([1.5], pa.float32()), "0000c03f"),
        (pa.array([1.5], pa.float64()), "000000000000f83f"),
        (pa.array([dt.date(2017, 11, 16)]), "4e440000"),
        (pa.array([dt.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("ms")), "40420f0000000000"),
        (pa.array([dt.time(0, 0, 1)], pa.time64("us")), "40420f0000000000"),
        (pa.array([decimal.Decimal("14.20")], pa.decimal128(9, 2)), "058c"),
        (pa.array([decimal.Decimal("-1.28")], pa.decimal128(9, 2)), "80"),
        (pa.array([decimal.Decimal("1.28")], pa.decimal128(9, 2)), "0080"),
        (pa.array([b"\1\2"]), "0102"),
        (pa.array([b"\1\2"], pa.binary(2)), "0102"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_values_are_hashed_by_their_single_value_bytes(values: pa.Array, bytes_: str) -> None:
    """Every type as Iceberg's single-value serialization has it; nulls do not count."""
    nothing = pa.nulls(1, values.type)
    assert sketch(pa.concat_arrays([nothing, values, values])) == sketch(pa.array([bytes.fromhex(bytes_)]))


def test_slices_are_hashed_by_their_own_values() -> None:
    """A slice of an array, whatever lies before and behind it."""
    for column in (
        pa.array(range(10)),
        pa.array(["a", "bb", "", "cc"] * 3),
        pa.array([decimal.Decimal(number) for number in range(10)], pa.decimal128(9, 0)),
        pa.array([number % 3 == 0 for number in range(10)]),
    ):
        assert sketch(column.slice(3, 4)) == sketch(pa.array(column.slice(3, 4).to_pylist(), column.type))


def test_nested_values_have_no_sketch() -> None:
    """Lists, maps and structs are refused, and say their type."""
    with pytest.raises(InvalidInputError, match="list"):
        ThetaBuilder().update(pa.array([[1]]))


def test_damaged_sketches_are_refused_or_merged() -> None:
    """Cut off, flipped, of another seed or packed: an error of the format, or a number."""
    for values in (range(3), range(5_000)):
        blob = sketch(pa.array(list(values)))
        for bit in range(8 * 40):
            builder = ThetaBuilder()
            try:
                builder.merge(flipped(blob, bit))
                assert builder.estimate >= 0
            except FormatError:
                pass
        for size in (0, 7, 12, 20, len(blob) - 1):
            with pytest.raises(FormatError):
                ThetaBuilder().merge(blob[:size])
    high = bytearray(sketch(pa.array(range(5_000))))
    high[-8:] = b"\xff" * 8
    with pytest.raises(CorruptionError, match="not below its theta"):
        ThetaBuilder().merge(bytes(high))


@given(counts=st.lists(st.integers(1, 3), min_size=1, max_size=60), begin=st.integers(1, 50))
@settings(max_examples=40, deadline=None)
def test_values_that_were_added_once_are_known(counts: list[int], begin: int) -> None:
    """In whatever order and parts values come, those that came once are counted while all are kept."""
    values = [value for value, times in enumerate(counts) for _ in range(times)]
    values.sort(key=lambda one: -one % 7)
    builder = ThetaBuilder()
    for part in (values[:begin], values[begin:]):
        builder.update(pa.array(part, pa.int64()))
    assert builder.singles == counts.count(1)


def test_values_added_once_are_estimated_above_the_nominal_entries() -> None:
    """Of 60,000 values a third comes twice: the hashes that are kept tell how many do not."""
    builder = ThetaBuilder()
    for begin in range(0, 60_000, 10_000):
        builder.update(pa.array(range(begin, begin + 10_000)))
    builder.update(pa.array(range(20_000)))
    assert builder.singles == pytest.approx(40_000, rel=0.1)


def test_merged_values_count_as_seen_again() -> None:
    """How often another sketch saw a value is not in its bytes: none is taken for a single."""
    builder = ThetaBuilder()
    builder.merge(sketch(pa.array([1, 2, 3])))
    builder.update(pa.array([4]))
    assert builder.singles == 1
