"""Transforms make the partition values that Iceberg's specification says."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import parse_transform

from lakehouse.errors import InvalidInputError
from lakehouse.expr.transforms import Transform
from tests.expr.test_partition_bounds import internal, their_kind
from tests.kit.partitioned import CASES, Case, values_of


@pytest.mark.parametrize(
    ("text", "kind", "value", "expected"),
    [
        ("truncate[10]", pa.int32(), 1, 0),
        ("truncate[10]", pa.int32(), -1, -10),
        ("truncate[10]", pa.int64(), 1, 0),
        ("truncate[10]", pa.int64(), -1, -10),
        ("truncate[50]", pa.decimal128(9, 2), decimal.Decimal("10.65"), decimal.Decimal("10.50")),
        ("truncate[3]", pa.string(), "iceberg", "ice"),
        ("truncate[3]", pa.string(), "é\U0001f9ca\U0001f9ca\U0001f9ca", "é\U0001f9ca\U0001f9ca"),
        ("truncate[3]", pa.binary(), b"\x01\x02\x03\x04\x05", b"\x01\x02\x03"),
        ("year", pa.date32(), dt.date(2024, 1, 15), 54),
        ("month", pa.date32(), dt.date(2024, 1, 15), 648),
        ("day", pa.date32(), dt.date(2024, 1, 15), dt.date(2024, 1, 15)),
        ("hour", pa.timestamp("us"), dt.datetime(2024, 1, 15, 2), 473_690),
        ("hour", pa.timestamp("ns", "UTC"), dt.datetime(1969, 12, 31, 23, 59, 59), -1),
        ("void", pa.int64(), 7, None),
        ("identity", pa.string(), "a", "a"),
        ("bucket[16]", pa.int32(), 34, (2017239379 & 0x7FFF_FFFF) % 16),
        ("bucket[16]", pa.decimal128(9, 2), decimal.Decimal("14.20"), (-500754589 & 0x7FFF_FFFF) % 16),
    ],
)
def test_examples_of_the_specification(text: str, kind: pa.DataType, value: Any, expected: Any) -> None:
    """Each example has its partition value, and null has null."""
    transform = Transform.parse(text)
    made = transform.apply(pa.array([value, None], kind))
    assert made.to_pylist() == [expected, None]
    assert made.type == transform.result_type(kind)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.transform.name not in ("unknown", "void") and case.iceberg != "boolean"],
    ids=str,
)
def test_values_are_those_of_pyiceberg(case: Case) -> None:
    """Another implementation makes the same partition values."""
    values = values_of(random.Random(str(case)), case.iceberg, 200)
    if case.iceberg in ("int", "long"):  # it does not wrap numbers around
        values = values.filter(pa.array([value.as_py() > -(2**31) + 200 for value in values]))
    apply = parse_transform(str(case.transform)).transform(their_kind(case.iceberg))
    assert [repr(value) for value in internal(case.transform.apply(values))] == [
        repr(apply(value)) for value in internal(values)
    ]


def test_numbers_below_the_least_multiple_wrap_around() -> None:
    """As in Iceberg's library, a number that cannot be rounded down comes out at the other end."""
    made = Transform.parse("truncate[10]").apply(pa.array([-(2**31), -(2**31) + 8], pa.int32()))
    assert made.to_pylist() == [2**31 - 2, -(2**31) + 8]


def test_truncated_decimals_keep_their_digits() -> None:
    """A decimal that truncated has more digits than its type is refused."""
    values = pa.array([decimal.Decimal("-99.99")], pa.decimal128(4, 2))
    with pytest.raises(InvalidInputError, match="decimal128"):
        Transform.parse("truncate[50]").apply(values)


def test_case_does_not_matter() -> None:
    """Names are read in any case, as Iceberg's library reads them."""
    assert [Transform.parse(text).name for text in ("Bucket[3]", "IDENTITY")] == ["bucket", "identity"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zorder",
        "bucket",
        "bucket[]",
        "bucket[0]",
        "bucket[-1]",
        "day[3]",
        "bucket[16",
        "truncate[x]",
        "bucket[2147483648]",
        "bucket[" + "9" * 100 + "]",
        "bucket[١]",
        " day",
        "bucket[16, 2]",
    ],
)
def test_other_texts_are_transforms_that_are_not_known(text: str) -> None:
    """A transform that is not known is kept as it is written, and computes nothing."""
    transform = Transform.parse(text)
    assert (transform.name, str(transform)) == ("unknown", text)
    with pytest.raises(InvalidInputError, match="nothing is known"):
        transform.apply(pa.array([1]))


def test_transforms_of_several_columns_are_not_known() -> None:
    """Nothing is known of a transform of several columns, whatever its name."""
    assert Transform.parse("bucket[16]", sources=2).name == "unknown"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hour", pa.date32()),
        ("day", pa.string()),
        ("truncate[3]", pa.float64()),
        ("bucket[3]", pa.bool_()),
        ("bucket[3]", pa.float64()),
        ("identity", pa.list_(pa.int32())),
        ("truncate[3]", pa.binary(4)),
    ],
)
def test_types_without_the_transform_are_refused(text: str, kind: pa.DataType) -> None:
    """A transform is not computed of a type that the specification does not list for it."""
    with pytest.raises(InvalidInputError, match="cannot be computed"):
        Transform.parse(text).apply(pa.nulls(1, kind))


def test_uuids_are_hashed_as_bytes() -> None:
    """Arrow's UUIDs have the buckets of their bytes."""
    stored = pa.array([bytes(range(16)), None], pa.binary(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    bucket = Transform.parse("bucket[100]")
    assert bucket.apply(uuids).to_pylist() == bucket.apply(stored).to_pylist()
