"""Bounds of a source column that partition values give are sound, and as tight as Iceberg's projection."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyiceberg.expressions as theirs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, NestedField

from lakehouse.expr import Expr, all_of, bind, col, matching
from lakehouse.expr.bounds import Verdict
from lakehouse.expr.columnar import UNKNOWN, VERDICTS, ColumnarJudge, FileBounds
from lakehouse.expr.nodes import And, Column, Compare, Constant, FunctionCall, In, IsNull, Not, Or
from lakehouse.expr.partition_bounds import bounds_between, bounds_of
from lakehouse.expr.transforms import Transform
from tests.kit.partitioned import CASES, Case, condition, partitioned, values_of


def verdicts(case: Case, where: Expr, partitions: pa.Array, rows: list[int]) -> list[Verdict]:
    """The verdict about each partition."""
    counts = np.array(rows, np.int64)
    bounds = bounds_of(case.transform, partitions, case.kind, counts)
    judge = ColumnarJudge(bind(where, pa.schema({"v": case.kind})))
    return [VERDICTS[number] for number in judge(FileBounds(rows=counts, columns={"v": bounds}))]


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1 << 32))
def test_partitions_are_judged_soundly(case: Case, seed: int) -> None:
    """A partition with a matching row is never left out, and all rows match where that is said."""
    rng = random.Random(seed)
    known = values_of(rng, case.iceberg, 24)
    constants = [*values_of(rng, case.iceberg, 6), *known[:6]]
    values = pa.concat_arrays([known, pa.nulls(2, case.kind)])
    partitions, groups = partitioned(case, values)
    for _ in range(8):
        where = condition(rng, constants, case.iceberg)
        bound = bind(where, pa.schema({"v": case.kind}))
        matches = matching(bound, pa.table({"v": values})).to_pylist()
        for verdict, group in zip(
            verdicts(case, where, partitions, [len(group) for group in groups]), groups, strict=True
        ):
            found = [matches[at] for at in group]
            assert verdict is not Verdict.NONE or not any(found)
            assert verdict is not Verdict.ALL or all(found)


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 1 << 32))
def test_manifests_are_judged_soundly(case: Case, seed: int) -> None:
    """A manifest with a matching row is never left out by the ends of its partition values."""
    rng = random.Random(seed)
    known = values_of(rng, case.iceberg, rng.choice([1, 2, 4]))
    values = pa.concat_arrays([known, pa.nulls(rng.choice([0, 0, 1]), case.kind)])
    partitions = partitioned(case, values)[0]
    least, greatest, with_nan = ends_of(partitions)
    for _ in range(8):
        where = condition(rng, [*values_of(rng, case.iceberg, 4), *known], case.iceberg)
        rows = np.array([len(values)], np.int64)
        bounds = bounds_between(
            case.transform,
            least,
            greatest,
            case.kind,
            rows,
            with_null=np.array([partitions.null_count > 0]),
            with_nan=np.array([with_nan]),
        )
        bound = bind(where, pa.schema({"v": case.kind}))
        verdict = VERDICTS[ColumnarJudge(bound)(FileBounds(rows=rows, columns={"v": bounds}))[0]]
        matches = matching(bound, pa.table({"v": values})).to_pylist()
        assert verdict is not Verdict.NONE or not any(matches)
        assert verdict is not Verdict.ALL or all(matches)


def ends_of(partitions: pa.Array) -> tuple[pa.Array, pa.Array, bool]:
    """The least and the greatest of partition values, in arrays of one, and whether one is NaN."""
    values = partitions.drop_null()
    with_nan = False
    if pa.types.is_floating(values.type):
        is_nan = np.isnan(values.to_numpy())
        with_nan, values = bool(is_nan.any()), values.filter(pa.array(~is_nan))
    if not len(values):
        return pa.nulls(1, partitions.type), pa.nulls(1, partitions.type), with_nan
    ordered = pa.array(sorted(values.to_pylist())) if pa.types.is_boolean(values.type) else values.sort()
    return ordered[:1], ordered[-1:], with_nan


def dropped(text: str, kind: pa.DataType, where: Expr, partitions: list[Any]) -> list[Any]:
    """The partition values that are left out."""
    transform = Transform.parse(text)
    array = pa.array(partitions, transform.result_type(kind))
    counts = np.full(len(array), 10, np.int64)
    bounds = bounds_of(transform, array, kind, counts)
    found = ColumnarJudge(bind(where, pa.schema({"v": kind})))(FileBounds(rows=counts, columns={"v": bounds}))
    return [value for value, verdict in zip(partitions, found.tolist(), strict=True) if verdict == 0]


def test_below_the_beginning_of_a_prefix() -> None:
    """Nothing is below the least text that a truncated value stands for."""
    assert dropped("truncate[3]", pa.string(), col("v") < "abc", ["abb", "abc", "abd"]) == ["abc", "abd"]


def test_a_short_truncated_text_is_exact() -> None:
    """A truncated text that is shorter than the width is the value itself."""
    assert dropped("truncate[3]", pa.string(), col("v").like("ab_%"), ["ab", "abc"]) == ["ab"]
    assert dropped("truncate[3]", pa.string(), col("v") > "ab", ["ab", "abc"]) == ["ab"]


@pytest.mark.parametrize(
    "where", [col("v") > 3, col("v") == 3, col("v") != 3, col("v").is_in([3]), ~col("v").is_in([3])]
)
@pytest.mark.parametrize("text", ["bucket[8]", "identity", "truncate[4]"])
def test_null_partitions_do_not_match_comparisons(text: str, where: Expr) -> None:
    """The partition of nulls is left out by every condition that no null makes true."""
    assert None in dropped(text, pa.int64(), where, [None, 0])


def test_whole_partitions_match() -> None:
    """A range of whole months has all rows of the partitions of its days."""
    case = Case(transform=Transform.parse("month"), iceberg="timestamp")
    where = all_of(col("v") >= dt.datetime(2024, 1, 1), col("v") < dt.datetime(2024, 3, 1))
    months = pa.array([647, 648, 649, 650], pa.int32())
    assert verdicts(case, where, months, [5] * 4) == [
        Verdict.NONE, Verdict.ALL, Verdict.ALL, Verdict.NONE,
    ]  # fmt: skip


def test_days_may_be_written_as_integers() -> None:
    """Days are taken as numbers too, as some writers have them."""
    day = Transform.parse("day")
    for values in (pa.array([19_737], pa.int32()), pa.array([dt.date(2024, 1, 15)])):
        bounds = bounds_of(day, values, pa.timestamp("us"), np.array([1]))
        assert bounds.low.array.to_pylist() == [dt.datetime(2024, 1, 15)]
        assert bounds.high.array.to_pylist() == [dt.datetime(2024, 1, 15, 23, 59, 59, 999_999)]


def test_partition_values_of_before_a_promotion() -> None:
    """Partition values of a narrower type bound the column that was promoted."""
    rows = np.array([1])
    long = bounds_of(Transform.parse("truncate[10]"), pa.array([20], pa.int32()), pa.int64(), rows)
    assert (long.low.array.to_pylist(), long.high.array.to_pylist()) == ([20], [29])
    double = bounds_of(Transform.parse("identity"), pa.array([0.5], pa.float32()), pa.float64(), rows)
    assert double.low.array.to_pylist() == [0.5]
    wide = pa.array([1], pa.int32()).cast(pa.decimal128(12, 2)).cast(pa.decimal128(4, 2))
    fixed = bounds_of(Transform.parse("truncate[50]"), wide, pa.decimal128(9, 2), rows)
    assert [str(end[0]) for end in (fixed.low.array, fixed.high.array)] == ["1.00", "1.49"]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("truncate[10]", pa.int32(), 2_147_483_646),  # of -2147483648, wrapped around
        ("truncate[10]", pa.decimal128(9, 2), decimal.Decimal("0.05")),
        ("truncate[2147483647]", pa.int32(), -2_147_483_647),  # of 5
        ("truncate[2]", pa.string(), "abc"),
        ("hour", pa.timestamp("us"), -1_732_919_509),  # of the last instant there is
    ],
)
def test_impossible_partition_values_bound_nothing(text: str, kind: pa.DataType, value: Any) -> None:
    """A partition value that the transform makes of no value, or by an overflow, keeps its files."""
    transform = Transform.parse(text)
    values = pa.array([value], pa.int32() if text == "hour" else kind)
    bounds = bounds_of(transform, values, kind, np.array([1]))
    assert (bounds.low.array.null_count, bounds.high.array.null_count, bounds.nulls[0]) == (1, 1, 0)


def test_hours_beyond_32_bits_are_kept() -> None:
    """A moment whose hour is cut to 32 bits is found in the partition that this makes."""
    hour = Transform.parse("hour")
    values = pa.array([2**63 - 1, -(2**63)], pa.int64()).cast(pa.timestamp("us"))
    bounds = bounds_of(hour, hour.apply(values), values.type, np.array([1, 1]))
    assert bounds.low.array.null_count == 2


def test_unknown_transforms_bound_nothing() -> None:
    """Of a transform that is not known, and of void, nothing follows: not even which values are null."""
    for text in ("void", "zorder", "bucket[0]"):
        bounds = bounds_of(Transform.parse(text), pa.nulls(2, pa.int32()), pa.int64(), np.array([1, 1]))
        assert bounds.nulls.tolist() == [UNKNOWN, UNKNOWN]
        assert bounds.low.array.null_count == 2


def test_conditions_that_negate_prefixes() -> None:
    """A partition is left out when all its values begin with what must not begin them."""
    where = Not(col("v").starts_with("abc"))
    assert dropped("truncate[3]", pa.string(), where, ["abb", "abc", "abd"]) == ["abc"]
    assert dropped("truncate[3]", pa.string(), Constant(True), ["abc"]) == []


DAYS = {"2024-01-15": 4, "2024-01-16": 1, "2024-02-29": 1, "2024-12-31": 1, None: 1}
MONTHS = {"2023-12": 1, "2024-01": 3, "2024-02": 2, "2024-11": 1, "2024-12": 1, None: 1}
"""Rows of the partitions of the table that Doris tests with."""


def moment(text: str) -> dt.datetime:
    """A moment as a session in Shanghai writes it."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone(dt.timedelta(hours=8)))


def between(low: str, high: str) -> Expr:
    """The condition that the moment is from one up to another, which is excluded."""
    return all_of(col("v") >= moment(low), col("v") < moment(high))


V = col("v")
LAST = moment("2024-12-31 23:59:59")


@pytest.mark.parametrize(
    ("partitions", "where", "kept"),
    [
        (DAYS, moment("2024-01-15 00:00") <= V, ["2024-01-15", "2024-01-16", "2024-02-29", "2024-12-31"]),
        (DAYS, moment("2024-01-16 00:00") > V, ["2024-01-15"]),
        (DAYS, between("2024-01-15", "2024-01-16"), ["2024-01-15"]),
        (DAYS, between("2024-01-15", "2024-01-17"), ["2024-01-15", "2024-01-16"]),
        # In Shanghai the 16th begins on the 15th of UTC.
        (
            DAYS,
            moment("2024-01-16 00:00") <= V,
            ["2024-01-15", "2024-01-16", "2024-02-29", "2024-12-31"],
        ),
        (DAYS, V == LAST, ["2024-12-31"]),
        (DAYS, V.is_in([LAST, moment("2024-02-29 12:00")]), ["2024-02-29", "2024-12-31"]),
        (DAYS, V.is_null(), [None]),
        # Iceberg keeps the null partition too; no null is unlike anything.
        (DAYS, V != LAST, ["2024-01-15", "2024-01-16", "2024-02-29", "2024-12-31"]),
        (MONTHS, between("2024-01-01", "2024-02-01"), ["2023-12", "2024-01"]),
        (MONTHS, between("2024-01-01", "2024-03-01"), ["2023-12", "2024-01", "2024-02"]),
        (MONTHS, V == LAST, ["2024-12"]),
    ],
)
def test_partitions_of_moments(
    partitions: dict[str | None, int], where: Expr, kept: list[str | None]
) -> None:
    """Days and months are those of UTC, whatever the zone of the session that writes the constants."""
    text = "day" if partitions is DAYS else "month"
    numbers = [None if name is None else ordinal(name) for name in partitions]
    case = Case(transform=Transform.parse(text), iceberg="timestamptz")
    found = verdicts(case, where, pa.array(numbers, pa.int32()), [*partitions.values()])
    assert [
        name for name, verdict in zip(partitions, found, strict=True) if verdict is not Verdict.NONE
    ] == kept


def ordinal(name: str) -> int:
    """The number of a day or a month from 1970."""
    unit = "D" if len(name) == 10 else "M"
    return int(np.datetime64(name, unit).astype(np.int64))


def their_kind(iceberg: str) -> IcebergType:
    """A type as pyiceberg has it."""
    return NestedField.model_validate({"id": 1, "name": "v", "type": iceberg, "required": False}).field_type


def translated(expr: Expr, value: Callable[[Any], Any]) -> Any:
    """A condition as pyiceberg has it; what it cannot say is always true."""
    match expr:
        case And(args) | Or(args):
            join = theirs.And if isinstance(expr, And) else theirs.Or
            first, *others = (translated(arg, value) for arg in args)
            return join(first, *others) if others else first
        case Not(FunctionCall("starts_with", (_, Constant(str() as prefix)))):
            return theirs.NotStartsWith("v", prefix)
        case Not(In(_, constants)):
            return theirs.NotIn("v", [value(constant) for constant in constants])
        case Not(IsNull()):
            return theirs.NotNull("v")
        case IsNull():
            return theirs.IsNull("v")
        case In(_, constants):
            return theirs.In("v", [value(constant) for constant in constants])
        case Compare(op, Column(), Constant(constant)):
            return THEIR_COMPARISONS[op]("v", value(constant))
        case FunctionCall("starts_with" | "like", (_, Constant(str() as pattern))):
            return theirs.StartsWith("v", pattern.split("_")[0].rstrip("%"))
    return theirs.AlwaysTrue()


THEIR_COMPARISONS: dict[str, Any] = {
    "=": theirs.EqualTo,
    "<>": theirs.NotEqualTo,
    "<": theirs.LessThan,
    "<=": theirs.LessThanOrEqual,
    ">": theirs.GreaterThan,
    ">=": theirs.GreaterThanOrEqual,
}
PROJECTED = [
    case
    for case in CASES
    if case.transform.name not in ("void", "unknown")
    and case.iceberg not in ("boolean", "float", "double", "time")
    and not case.iceberg.endswith("_ns")
]


def compared_with_theirs(case: Case, rounds: int) -> tuple[int, int, int]:
    """The partitions judged, those that pyiceberg keeps, and those that are kept here."""
    schema = Schema(NestedField(1, "v", their_kind(case.iceberg), required=False))
    made = parse_transform(str(case.transform))
    spec = PartitionSpec(PartitionField(1, 1000, made, "p"))
    project, kind = inclusive_projection(schema, spec), Schema(*spec.partition_type(schema).fields)
    rng = random.Random(str(case))
    judged = theirs_kept = ours_kept = 0
    for _ in range(rounds):
        known = values_of(rng, case.iceberg, 24)
        partitions, groups = partitioned(case, pa.concat_arrays([known, pa.nulls(2, case.kind)]))
        where = condition(rng, [*values_of(rng, case.iceberg, 6), *known[:6]], case.iceberg)
        bound = bind(where, pa.schema({"v": case.kind}))
        keeps = expression_evaluator(
            kind, project(translated(bound, lambda constant: constant.as_py())), case_sensitive=True
        )
        found = verdicts(case, where, partitions, [len(group) for group in groups])
        for value, verdict in zip(internal(partitions), found, strict=True):
            if case.transform.name == "truncate" and isinstance(value, int) and value % case.transform.width:
                continue  # wrapped around: pyiceberg leaves out rows
            judged += 1
            theirs_kept += keeps(Record(value))
            ours_kept += verdict is not Verdict.NONE
            assert keeps(Record(value)) or verdict is Verdict.NONE, (str(bound), value)
    return judged, theirs_kept, ours_kept


def internal(partitions: pa.Array) -> list[Any]:
    """Partition values as pyiceberg has them: dates and times as numbers."""
    kind = partitions.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        partitions = partitions.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    values: list[Any] = partitions.to_pylist()
    return values


@pytest.mark.parametrize("case", PROJECTED, ids=str)
def test_no_partition_is_kept_that_icebergs_projection_drops(
    case: Case, record_property: Callable[[str, object], None]
) -> None:
    """Whatever pyiceberg's inclusive projection leaves out is left out, and nulls of comparisons too."""
    judged, theirs_kept, ours_kept = compared_with_theirs(case, 40)
    record_property("partitions judged, kept by pyiceberg, kept here", (judged, theirs_kept, ours_kept))
    assert ours_kept < theirs_kept < judged
