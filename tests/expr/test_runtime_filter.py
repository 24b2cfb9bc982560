"""Conditions made of the keys of another side, and filters that drop files by them."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.expr import bind, matching, to_sql
from lakehouse.expr.columnar import UNKNOWN, ColumnarBounds, ColumnarJudge, FileBounds
from lakehouse.expr.partition_bounds import bounds_of
from lakehouse.expr.runtime_filter import RuntimeFilter, among
from lakehouse.expr.transforms import Transform
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.format.schema.types import arrow_type
from lakehouse.kernels.value_bloom import ValueBloom
from tests.kit.partitioned import CASES, Case, condition, partitioned, values_of


def held(kind: pa.DataType, values: pa.Array, rows: list[Any], max_values: int) -> list[bool]:
    """Of each row, whether the condition is true."""
    schema = schema_from_arrow(pa.schema({"k": kind}))
    where = bind(
        among("k", arrow_type(schema.field("k").type), values, max_values=max_values), schema.arrow()
    )
    found: list[bool] = matching(where, pa.table({"k": pa.array(rows, kind)})).fill_null(False).to_pylist()
    return found


@settings(deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.integers(-50, 50)), max_size=60),
    rows=st.lists(st.one_of(st.none(), st.integers(-60, 60)), max_size=20),
    max_values=st.sampled_from([0, 5, 1000]),
)
def test_every_value_matches(values: list[int | None], rows: list[int | None], max_values: int) -> None:
    """A row with one of the values matches; while values are few, no other does; nulls never do."""
    found = held(pa.int64(), pa.array(values, pa.int64()), rows, max_values)
    known = {one for one in values if one is not None}
    for row, matches in zip(rows, found, strict=True):
        if row in known:
            assert matches
        elif row is None or len(known) <= max_values:
            assert not matches


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), [f"name {number:03}" for number in range(100)]),
        (pa.date32(), [dt.date(2026, 1, 1) + dt.timedelta(days=number) for number in range(100)]),
        (
            pa.timestamp("us", tz="UTC"),
            [dt.datetime(2026, 1, 1, number % 24, tzinfo=dt.UTC) for number in range(99)],
        ),
        (pa.decimal128(9, 2), [decimal.Decimal(number) / 4 for number in range(100)]),
        (pa.bool_(), [True]),
        (pa.binary(), [bytes([number]) for number in range(100)]),
    ],
)
def test_types_with_an_order(kind: pa.DataType, values: list[Any]) -> None:
    """Values and ranges can be made of every such type."""
    array = pa.array(values, kind)
    for max_values in (0, 1000):
        assert all(held(kind, array, values, max_values))


def test_ranges_leave_the_widest_gaps() -> None:
    """Values in clumps make a range of each clump."""
    clumps = [number for begin in range(0, 10_000, 1_000) for number in range(begin, begin + 50)]
    array = pa.array(clumps, pa.int64())
    assert held(pa.int64(), array, [0, 49, 500, 1_020, 1_999, 9_049], 10) == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]


def test_values_that_the_column_cannot_have() -> None:
    """Values out of the column's range are left aside."""
    wide = pa.array([1, 1 << 40], pa.int64())
    assert held(pa.int32(), wide, [1, 2], 10) == [True, False]
    fine = pa.array([decimal.Decimal("1.500"), decimal.Decimal("1.555")], pa.decimal128(9, 3))
    rows = [decimal.Decimal("1.50"), decimal.Decimal("1.55"), decimal.Decimal("1.56")]
    assert held(pa.decimal128(9, 2), fine, rows, 10) == [True, False, False]


def test_no_values() -> None:
    """Without values nothing matches."""
    for max_values in (0, 10):
        assert held(pa.int64(), pa.array([None], pa.int64()), [1, None], max_values) == [False, False]
    field = schema_from_arrow(pa.schema({"k": pa.int64()})).field("k")
    assert to_sql(among(field.name, arrow_type(field.type), pa.array([2, 1]), max_values=2))


D = decimal.Decimal


class Exactly:
    """A Bloom filter that makes no mistake."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def might_contain(self, values: pa.Array) -> Any:
        """Whether a value was put in."""
        return pc.is_in(values, value_set=self._values).to_numpy(zero_copy_only=False)


def files_of(*, low: list[Any], high: list[Any], nulls: list[int], kind: pa.DataType) -> FileBounds:
    """Bounds of the column ``v`` in files of ten rows."""
    known = ColumnarBounds(pa.array(low, kind), pa.array(high, kind), np.array(nulls, np.int64))
    return FileBounds(rows=np.full(len(low), 10), columns={"v": known})


def let_through(wanted: RuntimeFilter, rows: pa.Table) -> list[bool]:
    """Of each row, whether the filter lets it through."""
    where = bind(wanted.to_condition(rows.schema), rows.schema)
    found: list[bool] = matching(where, rows).to_pylist()
    return found


def random_filter(rng: random.Random, case: Case, pool: pa.Array) -> RuntimeFilter:
    """A filter made of values of a pool."""
    some = pool.take(pa.array(rng.sample(range(len(pool)), k=rng.choice([1, 3, len(pool)]))))
    plain = case.iceberg not in ("timestamp_ns", "timestamptz_ns")
    choices = [
        lambda: RuntimeFilter.in_("v", some),
        lambda: RuntimeFilter.in_(
            "v", pa.concat_arrays([some, pa.nulls(1, some.type)]), null_aware=rng.random() < 0.5
        ),
        lambda: RuntimeFilter.bloom("v", Exactly(some)),
        lambda: RuntimeFilter.predicate(condition(rng, [*pool], case.iceberg)),
    ]
    if plain and case.iceberg != "boolean":
        ends = sorted((one.as_py() for one in some), key=lambda end: (end != end, end))
        low, high = rng.choice([None, ends[0]]), ends[-1]
        choices += [lambda: RuntimeFilter.range("v", low, high, rng.random() < 0.5, rng.random() < 0.5)]
        choices += [lambda: RuntimeFilter.in_("v", some.to_pylist())]
    if case.iceberg not in ("float", "double", "boolean"):
        choices += [lambda: RuntimeFilter.bloom("v", ValueBloom.of(some))]
    if case.iceberg in ("string", "binary"):
        choices += [lambda: RuntimeFilter.prefix("v", some[0].as_py()[: rng.randrange(4)])]
    return rng.choice(choices)()


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1 << 32))
def test_partitions_with_wanted_rows_are_kept(case: Case, seed: int) -> None:
    """No partition is dropped that has a row which the filter's own condition lets through."""
    rng = random.Random(seed)
    known = values_of(rng, case.iceberg, 16)
    values = pa.concat_arrays([known, pa.nulls(2, case.kind)])
    partitions, groups = partitioned(case, values)
    schema = pa.schema({"v": case.kind})
    rows = np.array([len(group) for group in groups], np.int64)
    bounds = FileBounds(rows=rows, columns={"v": bounds_of(case.transform, partitions, case.kind, rows)})
    for _ in range(6):
        wanted = random_filter(rng, case, pa.concat_arrays([known[:5], values_of(rng, case.iceberg, 3)]))
        dropped = wanted.judge(bounds, schema).tolist()
        lets = let_through(wanted, pa.table({"v": values}))
        assert not any(lets[at] for gone, group in zip(dropped, groups, strict=True) if gone for at in group)
        if wanted.is_null_rejecting:
            assert not any(lets[-2:])


LONG = {
    "low": [0, 10, 20, None, 5],
    "high": [9, 10, 29, None, 5],
    "nulls": [0, 0, 10, UNKNOWN, 3],
    "kind": pa.int64(),
}


@pytest.mark.parametrize(
    ("wanted", "dropped"),
    [
        (RuntimeFilter.in_("v", [5, 7]), [False, True, True, False, False]),
        (RuntimeFilter.in_("v", [25]), [True, True, True, False, True]),
        (RuntimeFilter.bloom("v", Exactly(pa.array([25]))), [True, True, True, False, True]),
        (RuntimeFilter.in_("v", []), [True] * 5),
        (RuntimeFilter.in_("v", [None]), [True] * 5),
        (RuntimeFilter.in_("v", [None], null_aware=True), [True, True, False, False, False]),
        (RuntimeFilter.in_("v", [10], null_aware=True), [True, False, True, False, True]),
        (RuntimeFilter.in_("v", [None, 10], null_aware=True), [True, False, False, False, False]),
        (RuntimeFilter.in_("v", [1.5, 2**70, D("10.0")]), [True, False, True, False, True]),
        (RuntimeFilter.range("v", 10), [True, False, True, False, True]),
        (RuntimeFilter.range("v", 10, low_inclusive=False), [True, True, True, False, True]),
        (RuntimeFilter.range("v", 5.5, 9.5), [False, True, True, False, True]),
        (RuntimeFilter.range("v", None, 0, high_inclusive=False), [True, True, True, False, True]),
        (RuntimeFilter.bloom("v", Exactly(pa.array([10]))), [True, False, True, False, True]),
        (RuntimeFilter.bloom("v", ValueBloom.of(pa.array([5]))), [False, True, True, False, False]),
        (RuntimeFilter.predicate("abs(v) = 5"), [False, True, True, False, False]),
        (RuntimeFilter.predicate("v IS NULL"), [True, True, False, False, False]),
    ],
    ids=str,
)
def test_files_are_dropped(wanted: RuntimeFilter, dropped: list[bool]) -> None:
    """Files go that cannot have a wanted row: by their range, their only value, or for want of values."""
    assert wanted.judge(files_of(**LONG), pa.schema({"v": pa.int64()})).tolist() == dropped


def test_nothing_is_known_of_a_column_without_bounds() -> None:
    """A column without bounds drops nothing, but where nothing is wanted."""
    bounds = FileBounds(rows=np.array([3, 3]))
    schema = pa.schema({"v": pa.int64()})
    for wanted in (RuntimeFilter.in_("v", [1]), RuntimeFilter.bloom("v", Exactly(pa.array([1])))):
        assert wanted.judge(bounds, schema).tolist() == [False, False]
    for nothing in (RuntimeFilter.in_("v", []), RuntimeFilter.in_("v", pa.nulls(2, pa.int64()))):
        assert nothing.judge(bounds, schema).tolist() == [True, True]


def test_ranges_are_listed_for_buckets() -> None:
    """A small range drops the buckets that none of its values is in."""
    bucket = Transform.parse("bucket[16]")
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    kept = set(bucket.apply(pa.array(days)).to_pylist())
    rows = np.full(16, 5)
    known = bounds_of(bucket, pa.array(range(16), pa.int32()), pa.date32(), rows)
    bounds = FileBounds(rows=rows, columns={"v": known})
    schema = pa.schema({"v": pa.date32()})
    wanted = RuntimeFilter.range("v", days[0], dt.date(2024, 1, 3), high_inclusive=False)
    assert set(np.flatnonzero(~wanted.judge(bounds, schema)).tolist()) == kept
    wide = RuntimeFilter.range("v", days[0], dt.date(2030, 1, 1))
    assert not wide.judge(bounds, schema).any()


def test_nan_is_kept_where_it_may_be() -> None:
    """A wanted NaN may be in every file whose high end is not known."""
    bounds = files_of(low=[1.0, 1.0, 5.0], high=[2.0, None, None], nulls=[0] * 3, kind=pa.float64())
    schema = pa.schema({"v": pa.float64()})
    assert RuntimeFilter.in_("v", [math.nan]).judge(bounds, schema).tolist() == [True, False, False]
    assert RuntimeFilter.in_("v", [2.0, math.nan]).judge(bounds, schema).tolist() == [False, False, False]


def test_zeros_may_be_either() -> None:
    """A Bloom filter that has one zero lets the other through, for it is equal."""
    bounds = files_of(low=[0.0, 1.0], high=[0.0, 1.0], nulls=[0, 0], kind=pa.float64())
    wanted = RuntimeFilter.bloom("v", Exactly(pa.array([-0.0])))
    assert wanted.judge(bounds, pa.schema({"v": pa.float64()})).tolist() == [False, True]
    assert let_through(wanted, pa.table({"v": [0.0, -0.0, 1.0]})) == [True, True, False]


def test_nanoseconds_are_compared_as_they_are() -> None:
    """Values between two microseconds are told apart."""
    kind = pa.timestamp("ns")
    values = pa.array([1_001, 1_002, 1_003]).cast(kind)
    bounds = FileBounds(
        rows=np.full(3, 1), columns={"v": ColumnarBounds(values, values, np.zeros(3, np.int64))}
    )
    wanted = RuntimeFilter.in_("v", values[1:2])
    schema = pa.schema({"v": kind})
    assert wanted.judge(bounds, schema).tolist() == [True, False, True]
    assert let_through(wanted, pa.table({"v": values})) == [False, True, False]
    assert ColumnarJudge(bind(wanted.to_condition(schema), schema))(bounds).tolist() == [0, 2, 0]


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        (RuntimeFilter.in_("v", ["a"]), pa.int64()),
        (RuntimeFilter.in_("v", [1]), pa.string()),
        (RuntimeFilter.in_("v", [1, "a"]), pa.int64()),
        (RuntimeFilter.in_("v", pa.array([True])), pa.int64()),
        (RuntimeFilter.in_("w", [1]), pa.int64()),
        (RuntimeFilter.range("v", "a"), pa.int64()),
        (RuntimeFilter.prefix("v", "a"), pa.int64()),
        (RuntimeFilter.prefix("v", "a"), pa.binary()),
        (RuntimeFilter.prefix("v", b"a"), pa.int64()),
        (RuntimeFilter.bloom("w", Exactly(pa.array([1]))), pa.int64()),
        (RuntimeFilter.predicate("w = 1"), pa.int64()),
    ],
    ids=str,
)
def test_filters_that_make_no_sense_are_refused(wanted: RuntimeFilter, kind: pa.DataType) -> None:
    """A filter of values that the type never has, or of a column that is not there, is refused."""
    bounds = FileBounds(rows=np.array([1]))
    for used in (
        lambda: wanted.judge(bounds, pa.schema({"v": kind})),
        lambda: wanted.to_condition(pa.schema({"v": kind})),
    ):
        with pytest.raises(InvalidInputError):
            used()


def test_days_may_be_texts() -> None:
    """Texts are read as what the column has, as in conditions, be they a list or an array."""
    schema = pa.schema({"v": pa.date32()})
    day = dt.date(2024, 1, 15)
    bounds = files_of(
        low=[day, dt.date(2024, 1, 16)], high=[day, dt.date(2024, 1, 16)], nulls=[0, 0], kind=pa.date32()
    )
    for values in (["2024-01-15"], pa.array(["2024-01-15"]), [day], [dt.datetime(2024, 1, 15)]):
        assert RuntimeFilter.in_("v", values).judge(bounds, schema).tolist() == [False, True]


@pytest.mark.parametrize("made", ["v = 1 AND w = 2", "1 = 1", "matches(v, 'a')"])
def test_predicates_are_on_one_column(made: str) -> None:
    """A predicate on no column, on two, or on words is refused."""
    with pytest.raises(InvalidInputError):
        RuntimeFilter.predicate(made)


def test_ranges_have_an_end() -> None:
    """A range without ends is refused."""
    with pytest.raises(InvalidInputError, match="low end"):
        RuntimeFilter.range("v")


@pytest.mark.parametrize(
    ("wanted", "rejects", "text"),
    [
        (RuntimeFilter.in_("v", [1, 2]), True, "v IN (1, 2)"),
        (RuntimeFilter.in_("v", [1, None]), True, "v IN (1)"),
        (
            RuntimeFilter.in_("v", pa.array([1]).cast(pa.timestamp("ns"))),
            True,
            "v IN ('1970-01-01 00:00:00.000000001')",
        ),
        (RuntimeFilter.in_("v", ["a", None], null_aware=True), False, "v IN ('a') OR v IS NULL"),
        (RuntimeFilter.in_("v", list(range(1000))), True, "v IN (0, 1, 2, 3, 4, … 1,000 values)"),
        (RuntimeFilter.range("v", 1, 2, high_inclusive=False), True, "(v >= 1) AND (v < 2)"),
        (RuntimeFilter.prefix("v", "ab"), True, "starts_with(v, 'ab')"),
        (RuntimeFilter.prefix("v", b"a\xff"), True, "(v >= from_hex('61ff')) AND (v < from_hex('62'))"),
        (
            RuntimeFilter.bloom("v", ValueBloom.of(pa.array(range(3000)))),
            True,
            "v in a Bloom filter of 3,000 values",
        ),
        (RuntimeFilter.bloom("v", Exactly(pa.array([1]))), True, "v in a Bloom filter"),
        (RuntimeFilter.predicate("v > 3"), True, "v > 3"),
        (RuntimeFilter.predicate("abs(v) = 3"), True, "abs(v) = 3"),
        (RuntimeFilter.predicate("length(v) = 3"), True, "length(v) = 3"),
        (RuntimeFilter.predicate("v is null"), False, "v IS NULL"),
        (RuntimeFilter.predicate("v > 3 or v is null"), False, "(v > 3) OR (v IS NULL)"),
    ],
)
def test_filters_describe_themselves(wanted: RuntimeFilter, rejects: bool, text: str) -> None:
    """A filter says what it lets through, and whether nulls."""
    assert (wanted.is_null_rejecting, wanted.describe(), str(wanted)) == (rejects, text, text)


def test_long_lists_let_the_same_rows_through() -> None:
    """A condition of more values than are listed is as exact as a short one."""
    values = pa.array([float(number) for number in range(0, 30_000, 2)] + [-0.0, math.nan, None])
    wanted = RuntimeFilter.in_("v", values, null_aware=True)
    rows = pa.table({"v": pa.array([0.0, 1.0, 2.0, math.nan, None, 29_998.0, 30_000.0])})
    assert let_through(wanted, rows) == [True, False, True, True, True, True, False]


def test_members_of_structs_are_filtered() -> None:
    """A column may be inside a struct."""
    schema = pa.schema({"s": pa.struct({"v": pa.int64()})})
    known = ColumnarBounds(pa.array([1, 5]), pa.array([2, 6]), np.zeros(2, np.int64))
    bounds = FileBounds(rows=np.full(2, 3), columns={"s.v": known})
    for wanted in (
        RuntimeFilter.in_("s.v", [5]),
        RuntimeFilter.range("s.v", 5),
        RuntimeFilter.bloom("s.v", Exactly(pa.array([5, 6]))),
    ):
        assert wanted.judge(bounds, schema).tolist() == [True, False]
