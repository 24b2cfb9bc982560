"""Buckets: Iceberg's for a key of one column, the same for a row alone and in a column."""

from __future__ import annotations

import math
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys.buckets import bucket_of, bucket_of_key, buckets_of
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.schema.types import BinaryType, DataType, Primitive, StringType
from tests.kit.blob_samples import spec_block
from tests.kit.typed_values import KEY_KINDS, column, fields_of, spec_row, values_of

ALL_BITS = 1 << 31
"""As many buckets as there are hashes: the bucket is the hash."""


@st.composite
def keyed_rows(draw: st.DrawFn) -> tuple[list[DataType], list[tuple[Any, ...]]]:
    """Types of a key and rows of it, more than are hashed one by one."""
    kinds = draw(st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(values_of(kind) for kind in kinds)), max_size=30))
    return kinds, rows


@settings(deadline=None)
@given(keyed_rows(), st.integers(1, 40) | st.just(ALL_BITS), st.integers(0, 3))
def test_columns_and_rows_agree(
    found: tuple[list[DataType], list[tuple[Any, ...]]], count: int, skip: int
) -> None:
    """A row has one bucket: in a column, sliced or chunked, alone, and by its row key."""
    kinds, rows = found
    fields = fields_of(kinds)
    columns = [column(kind, [row[at] for row in rows]) for at, kind in enumerate(kinds)]
    expected = [bucket_of(row, fields, count) for row in rows]
    assert all(0 <= bucket < count for bucket in expected)
    assert buckets_of(columns, fields, count).tolist() == expected
    assert buckets_of([one.slice(skip) for one in columns], fields, count).tolist() == expected[skip:]
    chunked = [pa.chunked_array([one.slice(0, skip), one.slice(skip)], one.type) for one in columns]
    assert buckets_of(chunked, fields, count).tolist() == expected
    codec = RowKeyCodec(fields)
    assert [bucket_of_key(codec.encode_one(row), fields, count) for row in rows] == expected


@settings(deadline=None)
@given(st.lists(st.binary(max_size=70), min_size=1, max_size=40))
def test_the_hash_is_murmur3(values: list[bytes]) -> None:
    """Bytes of any length, and row keys of several columns, have the hash that mmh3 gives them."""
    mmh3 = pytest.importorskip("mmh3")
    one, two = fields_of([BinaryType()]), fields_of([BinaryType(), Primitive("int64")])
    expected = [mmh3.hash(value, signed=False) & 0x7FFF_FFFF for value in values]
    assert buckets_of([pa.array(values)], one, ALL_BITS).tolist() == expected
    numbers = pa.array(range(len(values)))
    keys = RowKeyCodec(two).encode([pa.array(values), numbers]).to_pylist()
    expected = [mmh3.hash(key, signed=False) & 0x7FFF_FFFF for key in keys]
    assert buckets_of([pa.array(values), numbers], two, ALL_BITS).tolist() == expected


def test_many_rows_of_very_different_length() -> None:
    """Blocks of rows and a few long ones among short ones give what each gives alone."""
    values = [bytes([at % 251]) * (at % 23) for at in range(40_000)] + [b"x" * 70_001, b"y" * 5_000]
    fields = fields_of([BinaryType()])
    found = buckets_of([pa.array(values)], fields, 97).tolist()
    sample = [*range(0, 40_000, 997), 40_000, 40_001]
    assert [found[at] for at in sample] == [bucket_of((values[at],), fields, 97) for at in sample]


def test_the_specified_hashes() -> None:
    """The examples of the specification, Iceberg's among them, are what is computed."""
    for line in spec_block("row-key.md", "hashes").splitlines():
        names, values, expected = re.split(r"\s{2,}", line)
        kinds, row = spec_row(names, values)
        fields = fields_of(kinds)
        assert bucket_of(row, fields, ALL_BITS) == int(expected) & 0x7FFF_FFFF, line
        columns = [column(kind, [value]) for kind, value in zip(kinds, row, strict=True)]
        assert buckets_of(columns, fields, ALL_BITS).tolist() == [int(expected) & 0x7FFF_FFFF], line


@pytest.mark.parametrize("name", ["int8", "int16", "int32"])
def test_widening_keeps_the_bucket(name: str) -> None:
    """A number has the bucket it has as int64."""
    narrow, wide = fields_of([Primitive(name)]), fields_of([Primitive("int64")])
    numbers = [-128, -1, 0, 34, 127]
    found = buckets_of([column(Primitive(name), numbers)], narrow, 1000).tolist()
    assert found == [bucket_of((number,), wide, 1000) for number in numbers]


def test_buckets_are_even() -> None:
    """Neighbouring numbers and texts spread over the buckets."""
    for kind, values in (
        (Primitive("int64"), range(8_000)),
        (StringType(), [f"user-{at}" for at in range(8_000)]),
    ):
        found = buckets_of([pa.array(values)], fields_of([kind]), 8).tolist()
        assert all(math.isclose(found.count(bucket), 1_000, rel_tol=0.15) for bucket in range(8))


def test_what_has_no_bucket() -> None:
    """Nulls, floats and a number of buckets below one are refused."""
    one = fields_of([Primitive("int64")])
    with pytest.raises(InvalidInputError, match="row 1 has no value in column 'a'"):
        buckets_of([pa.array([1, None])], one, 4)
    with pytest.raises(InvalidInputError, match="cannot be part of a key"):
        buckets_of([pa.array([1.0])], fields_of([Primitive("double")]), 4)
    with pytest.raises(InvalidInputError, match="1 or more buckets, not 0"):
        buckets_of([pa.array([1])], one, 0)
    with pytest.raises(InvalidInputError, match="1 or more buckets, not -1"):
        bucket_of((1,), one, -1)
