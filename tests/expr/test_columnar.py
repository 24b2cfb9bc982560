"""Many files judged at once get the verdicts that each of them gets alone."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr import Expr, bind, col
from lakehouse.expr.bounds import ColumnBounds, Judge, Verdict
from lakehouse.expr.columnar import (
    UNKNOWN,
    VERDICTS,
    ColumnarBounds,
    ColumnarJudge,
    FileBounds,
    Residues,
    SortedKeys,
    any_held,
)
from lakehouse.expr.nodes import Compare, CompareOp, Constant, IsNull, Not
from tests.expr.test_bounds import CONDITIONS, POOLS, bounds_of
from tests.kit.conditions import TABLE


@st.composite
def cases(draw: st.DrawFn) -> tuple[Expr, list[dict[str, ColumnBounds]]]:
    """A condition, and bounds of its columns in some files."""
    expr = draw(CONDITIONS)
    files: list[dict[str, ColumnBounds]] = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, 3))
        files.append({})
        for name in sorted(expr.columns()):
            values = draw(st.lists(st.sampled_from([*POOLS[name], None]), min_size=count, max_size=count))
            found = bounds_of(values, draw)
            if found is not None:
                files[-1][name] = found
    return expr, files


def columns_of(files: list[dict[str, ColumnBounds]], schema: pa.Schema) -> FileBounds:
    """The bounds of the files, column by column; a file has as many rows as its longest column."""
    rows = [max((bounds.rows for bounds in file.values()), default=0) for file in files]
    nothing = ColumnBounds(rows=0)
    columns = {}
    for name in sorted({name for file in files for name in file}):
        known = [file.get(name, nothing) for file in files]
        columns[name] = ColumnarBounds(
            pa.array([bounds.low for bounds in known], schema.field(name).type),
            pa.array([bounds.high for bounds in known], schema.field(name).type),
            np.array([UNKNOWN if bounds.nulls is None else bounds.nulls for bounds in known], np.int64),
        )
    return FileBounds(rows=np.array(rows, np.int64), columns=columns)


def judged(judge: ColumnarJudge, bounds: FileBounds) -> list[Verdict]:
    """The verdicts of the judge of many files."""
    return [VERDICTS[number] for number in judge(bounds).tolist()]


def one_by_one(judge: Judge, files: list[dict[str, ColumnBounds]]) -> list[Verdict]:
    """The verdicts of the judge of single files on the same counts of rows."""
    rows = [max((bounds.rows for bounds in file.values()), default=0) for file in files]
    names = {name for file in files for name in file}
    nothing = ColumnBounds(rows=0)
    return [
        judge(
            {
                name: ColumnBounds(low=known.low, high=known.high, nulls=known.nulls, rows=count)
                for name in names
                for known in [file.get(name, nothing)]
            }
        )
        for file, count in zip(files, rows, strict=True)
    ]


@settings(deadline=None, max_examples=300)
@given(cases())
def test_verdicts_are_those_of_single_files(case: tuple[Expr, list[dict[str, ColumnBounds]]]) -> None:
    """Each file gets the verdict that the judge of single files gives it, or one that says more."""
    expr, files = case
    bound = bind(expr, TABLE.schema)
    found = judged(ColumnarJudge(bound), columns_of(files, TABLE.schema))
    for verdict, right in zip(found, one_by_one(Judge(bound), files), strict=True):
        assert verdict is right or right is Verdict.SOME


KEYS = st.binary(max_size=10) | st.sampled_from([b"\0" * 8, b"\0" * 9, b"a" * 8, b"a" * 9, b"\xff" * 9])

ONE_WIDTH = st.integers(1, 10).flatmap(
    lambda width: st.lists(
        st.tuples(*[st.binary(min_size=width, max_size=width)] * 2), min_size=1, max_size=6
    )
)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.none() | KEYS, st.none() | KEYS), min_size=1, max_size=6) | ONE_WIDTH,
    st.lists(KEYS, min_size=1, max_size=20),
    st.sampled_from(["in", "=", "<", "<=", ">", ">=", "<>"]),
)
def test_long_bytes_are_never_judged_wrongly(
    ends: list[tuple[bytes | None, bytes | None]], keys: list[bytes], op: str
) -> None:
    """Values that share their first eight bytes are told apart."""
    schema = pa.schema({"v": pa.binary()})
    ends = [(low, high) if None in (low, high) else tuple(sorted((low, high))) for low, high in ends]  # type: ignore[misc,type-var]
    files = [{"v": ColumnBounds(low=low, high=high, nulls=0, rows=1)} for low, high in ends]
    expr = col("v").is_in(keys) if op == "in" else compared(op, keys[0])
    bound = bind(expr, schema)
    found = judged(ColumnarJudge(bound), columns_of(files, schema))
    assert found == one_by_one(Judge(bound), files)


def compared(op: str, key: bytes) -> Expr:
    """A comparison of v with a key."""
    return Compare(cast("CompareOp", op), col("v"), Constant(key))


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.uint64(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.string()]
)
def test_long_lists_leave_out_what_they_do_not_touch(kind: pa.DataType) -> None:
    """Of a list of many constants those files are kept whose bounds have one between them."""
    schema = pa.schema({"v": kind})
    numbers = pa.array([100, 200, 300, 400]).cast(pa.int32())
    lows, highs = (
        array_of(kind, values) for values in (numbers, pa.array([150, 210, 305, 405]).cast(pa.int32()))
    )
    wanted = array_of(kind, pa.array([*range(205, 225, 2), 403]).cast(pa.int32()))
    expr = bind(col("v").is_in(wanted.to_pylist()), schema)
    bounds = FileBounds(
        rows=np.full(4, 10), columns={"v": ColumnarBounds(lows, highs, np.zeros(4, np.int64))}
    )
    assert [verdict is Verdict.NONE for verdict in judged(ColumnarJudge(expr), bounds)] == [
        True,
        False,
        True,
        False,
    ]


def array_of(kind: pa.DataType, numbers: pa.Array) -> pa.Array:
    """Numbers of three digits as values of a type, in the same order."""
    if pa.types.is_timestamp(kind):
        return numbers.cast(pa.int64()).cast(kind)
    return numbers.cast(kind)


def verdicts_of(where: Expr, kind: pa.DataType, **bounds: Any) -> list[Verdict]:
    """The verdicts about files of three rows, of which one column is bounded."""
    lows, highs = (pa.array(bounds[end], kind) for end in ("low", "high"))
    known = ColumnarBounds(
        lows,
        highs,
        np.array(bounds.get("nulls", [0] * len(lows)), np.int64),
        high_open=np.array(bounds["high_open"]) if "high_open" in bounds else None,
        residues=bounds.get("residues", ()),
        nan=bounds.get("nan"),
    )
    judge = ColumnarJudge(bind(where, pa.schema({"v": kind})))
    return judged(judge, FileBounds(rows=np.full(len(lows), 3), columns={"v": known}))


NONE, SOME, ALL = VERDICTS
V = col("v")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (V == "abd", [SOME, NONE]),
        (V != "abd", [SOME, ALL]),
        (V >= "abd", [SOME, NONE]),
        (V > "abd", [NONE, NONE]),
        (V < "abd", [SOME, ALL]),
        (V <= "abd", [ALL, ALL]),
        (V > "abczz", [SOME, SOME]),
        (V.is_in(["abd", "b"]), [SOME, NONE]),
        (V.is_in(["abd", *"bcdefghij"]), [SOME, NONE]),
        (V.is_in(["abcd", *"bcdefghij"]), [SOME, SOME]),
        (V.like("abd%"), [SOME, NONE]),
        (V.like("abc%"), [SOME, ALL]),
        (V.like("ab%"), [ALL, ALL]),
        (Not(V.like("abc%")), [SOME, NONE]),
        (V.between("abd", "b"), [SOME, NONE]),
    ],
)
def test_high_ends_may_be_excluded(where: Expr, expected: list[Verdict]) -> None:
    """A high end that is excluded is no value of the file, and every text below it may be one."""
    found = verdicts_of(where, pa.string(), low=["abc", "abc"], high=["abd", "abd"], high_open=[False, True])
    assert found == expected


def modulo(constants: pa.Array) -> Any:
    """Residues of numbers by ten."""
    return constants.to_numpy().astype(np.int32) % 10


MOD_TEN = Residues(of=modulo, least=np.array([3, 7, -1], np.int32), greatest=np.array([3, 7, -1], np.int32))
MANY = [*range(100, 200, 10)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (V == 13, [SOME, NONE, SOME]),
        (V != 13, [SOME, ALL, SOME]),
        (V.is_in([13, 17]), [SOME, SOME, SOME]),
        (V.is_in([11, 12]), [NONE, NONE, SOME]),
        (V.is_in([*MANY, 27]), [NONE, SOME, SOME]),
        (V.is_in([*MANY, 99]), [NONE, NONE, SOME]),
        (Not(V.is_in([*MANY, 27])), [ALL, SOME, SOME]),
        (V > 13, [SOME, SOME, SOME]),
    ],
)
def test_residues_of_hashes_are_asked(where: Expr, expected: list[Verdict]) -> None:
    """Constants whose residues a file does not have are none of its values."""
    nothing = [None] * 3
    assert verdicts_of(where, pa.int64(), low=nothing, high=nothing, residues=[MOD_TEN]) == expected


@given(
    st.lists(st.tuples(st.integers(-1, 30), st.integers(0, 9)), min_size=1, max_size=6),
    st.lists(st.integers(0, 30), max_size=12),
    st.sampled_from([1, 1 << 21]),
)
def test_ranges_of_residues(spans: list[tuple[int, int]], wanted: list[int], scale: int) -> None:
    """A manifest with residues from one to another may have those between them, be they small or large."""
    least = [low if low < 0 else low * scale for low, _ in spans]
    greatest = [low if low < 0 else (low + more) * scale for low, more in spans]
    residues = Residues(
        of=lambda constants: constants.to_numpy().astype(np.int32),
        least=np.array(least, np.int32),
        greatest=np.array(greatest, np.int32),
    )
    constants = [one * scale for one in wanted]
    assert residues.held(pa.array(constants, pa.int32())).tolist() == [
        bool(constants) and (low < 0 or any(low <= one <= high for one in constants))
        for low, high in zip(least, greatest, strict=True)
    ]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (cast(Expr, V % 4 == 1), [ALL, NONE, SOME, SOME]),
        (cast(Expr, V + 1 > 6), [NONE, ALL, SOME, SOME]),
        (Not(cast(Expr, V % 4 == 1)), [NONE, ALL, SOME, SOME]),
        (IsNull(cast(Expr, V / 0)), [ALL, ALL, SOME, SOME]),
    ],
)
def test_functions_of_one_value_are_computed(where: Expr, expected: list[Verdict]) -> None:
    """Where all values of a file are one and none is null, functions are computed of it."""
    found = verdicts_of(where, pa.int64(), low=[5, 6, 5, 5], high=[5, 6, 6, 5], nulls=[0, 0, 0, 1])
    assert found == expected


def test_functions_that_fail_say_nothing() -> None:
    """A function that cannot be computed of some file's value leaves that to whoever reads the rows."""
    most = 2**63 - 1
    where = cast(Expr, V + 1 > 6)
    assert verdicts_of(where, pa.int64(), low=[most, 1], high=[most, 1]) == [SOME, SOME]


def test_functions_of_zero_are_not_computed() -> None:
    """The two zeros are equal as bounds, and not to functions."""
    where = cast(Expr, V * 2.0 > 3.0)
    found = verdicts_of(where, pa.float64(), low=[0.0, 1.0, float("nan")], high=[-0.0, 1.0, float("nan")])
    assert found == [SOME, NONE, SOME]


def test_a_single_float_is_among_constants_or_not() -> None:
    """IN and NOT IN decide a file of one float, zeros of either sign being one; not a file with a NaN."""
    ends: dict[str, Any] = {"low": [1.5, -0.0, 1.5, 2.5], "high": [1.5, 0.0, 1.5, 2.5]}
    ends["nan"] = np.array([False, False, True, False])
    assert verdicts_of(V.is_in([1.5, 0.0]), pa.float64(), **ends) == [ALL, ALL, SOME, NONE]
    assert verdicts_of(~V.is_in([1.5, 0.0]), pa.float64(), **ends) == [NONE, NONE, SOME, ALL]


def test_functions_of_several_columns_are_computed() -> None:
    """Each of the columns must have one value."""
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    bounds = FileBounds(
        rows=np.full(3, 9),
        columns={
            "a": ColumnarBounds(pa.array([1, 1, 1]), pa.array([1, 1, 2]), np.zeros(3, np.int64)),
            "b": ColumnarBounds(pa.array([2, 3, 2]), pa.array([2, 3, 2]), np.zeros(3, np.int64)),
        },
    )
    where = bind(cast(Expr, col("a") + 1 == col("b")), schema)
    assert judged(ColumnarJudge(where), bounds) == [ALL, NONE, SOME]


def test_patterns_are_computed_of_one_value() -> None:
    """A pattern with more than a prefix is decided where a file has one text."""
    where = V.like("a_c%d")
    found = verdicts_of(where, pa.string(), low=["abcd", "abc", "abc"], high=["abcd", "abc", "abz"])
    assert found == [ALL, NONE, SOME]


def test_encoded_bounds_are_not_computed_with() -> None:
    """Bounds that are bytes of values are no values to compute with."""
    where = bind(V.like("a_"), pa.schema({"v": pa.string()}))
    judge = ColumnarJudge(where, lambda _, value: str(value).encode())
    encoded = pa.array([b"ab"])
    bounds = ColumnarBounds(encoded, encoded, np.zeros(1, np.int64))
    assert judged(judge, FileBounds(rows=np.array([3]), columns={"v": bounds})) == [SOME]


ENDS = st.none() | st.integers(0, 6)


@st.composite
def sides(draw: st.DrawFn) -> tuple[int | None, int | None, bool, int]:
    """A low and a high end of a file, whether the high one is excluded, and a number of nulls."""
    return draw(ENDS), draw(ENDS), draw(st.booleans()), draw(st.sampled_from([UNKNOWN, 2]))


def bounds_from(files: list[tuple[int | None, int | None, bool, int]]) -> ColumnarBounds:
    """The bounds of files."""
    low, high, is_open, nulls = zip(*files, strict=True)
    kind = pa.int64()
    return ColumnarBounds(
        pa.array(low, kind), pa.array(high, kind), np.array(nulls, np.int64), high_open=np.array(is_open)
    )


def allowed(side: tuple[int | None, int | None, bool, int]) -> set[int]:
    """The values that lie within ends."""
    low, high, is_open, _ = side
    return {
        value
        for value in range(8)
        if (low is None or value >= low) and (high is None or value < high or (value == high and not is_open))
    }


@given(st.lists(st.tuples(sides(), sides()), min_size=1, max_size=5))
def test_intersected_bounds(files: list[tuple[Any, Any]]) -> None:
    """Within the intersection is what is within both; nulls are counted if either counts them."""
    left, right = (bounds_from([pair[at] for pair in files]) for at in (0, 1))
    both = left.intersected(right)
    for at, (one, other) in enumerate(files):
        is_open = both.high_open is not None and bool(both.high_open[at])
        ends = (both.low.array[at].as_py(), both.high.array[at].as_py(), is_open, 0)
        assert allowed(ends) == allowed(one) & allowed(other)
        assert both.nulls[at] == (one[3] if one[3] != UNKNOWN else other[3])


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.bool_(), False, True),
        (pa.int64(), 1, 2),
        (pa.float64(), 1.0, 2.0),
        (pa.decimal128(9, 2), Decimal("1.00"), Decimal("2.00")),
        (pa.date32(), dt.date(2024, 1, 1), dt.date(2024, 1, 2)),
        (pa.time64("us"), dt.time(1), dt.time(2)),
        (
            pa.timestamp("us", "UTC"),
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
        ),
        (pa.string(), "a", "b"),
        (pa.binary(), b"a", b"b"),
    ],
)
def test_bounds_of_every_type_are_intersected(kind: pa.DataType, low: Any, high: Any) -> None:
    """Both ends of each type have an order in which the better one is chosen."""
    nulls = np.zeros(2, np.int64)
    wide = ColumnarBounds(pa.array([low, low], kind), pa.array([high, high], kind), nulls)
    narrow = ColumnarBounds(pa.array([high, None], kind), pa.array([None, low], kind), nulls)
    both = wide.intersected(narrow)
    assert both.low.array.to_pylist() == [high, low]
    assert both.high.array.to_pylist() == [high, low]


def test_intersected_bounds_have_the_residues_of_both() -> None:
    """Residues of both are asked."""
    nothing = pa.nulls(3, pa.int64())
    unknown = np.full(3, UNKNOWN, np.int64)
    plain = ColumnarBounds(nothing, nothing, unknown)
    hashed = ColumnarBounds(nothing, nothing, unknown, residues=[MOD_TEN])
    both = hashed.intersected(plain).intersected(hashed)
    assert both.residues == (MOD_TEN, MOD_TEN)
    assert any_held(both, SortedKeys(pa.array([13, 23]))).tolist() == [True, False, True]


INF = float("inf")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (V == 5.0, [NONE, NONE, NONE]),
        (V == 1.5, [SOME, NONE, SOME]),
        (V != 5.0, [ALL, ALL, ALL]),
        (V < 5.0, [SOME, NONE, ALL]),
        (V <= INF, [SOME, NONE, ALL]),
        (V == INF, [NONE, NONE, NONE]),
        (V > 5.0, [SOME, SOME, NONE]),
        (Not(V > 5.0), [SOME, NONE, ALL]),
        (V.is_in([5.0, 6.0]), [NONE, NONE, NONE]),
        (V.is_in([float(number) for number in range(3, 20)]), [NONE, NONE, NONE]),
        (float("nan") == V, [SOME, SOME, SOME]),
        (V.is_in([5.0, float("nan")]), [SOME, SOME, SOME]),
        (cast(Expr, V * 2.0 > 3.0), [SOME, SOME, SOME]),
    ],
)
def test_nan_is_beside_the_ends_of_numbers(where: Expr, expected: list[Verdict]) -> None:
    """A file that may have NaN, or has nothing else, is judged by its numbers and by that."""
    low, high = [1.0, INF, 1.0], [2.0, -INF, 2.0]
    nan = np.array([True, True, False])
    assert verdicts_of(where, pa.float64(), low=low, high=high, nan=nan) == expected


def test_nan_of_intersected_bounds() -> None:
    """A NaN may be in a file if neither of two bounds excludes it; it is no value among equal ones."""
    one, two = pa.array([1.0, 1.0, None]), pa.array([1.0, 2.0, None])
    zeros = np.zeros(3, np.int64)
    plain = ColumnarBounds(one, two, zeros)
    told = ColumnarBounds(one, one, zeros, nan=np.array([True, True, True]))
    assert plain.nan.tolist() == [False, False, True]
    assert told.intersected(plain).nan.tolist() == [False, False, True]
    assert told.intersected(told).nan.tolist() == [True, True, True]
    assert told.single.tolist() == [False, False, False]


def test_zeros_are_equal_in_long_lists() -> None:
    """The two zeros are one value, also where every file has a single one."""
    ends = pa.array([-0.0, 0.0, 0.5])
    known = ColumnarBounds(ends, ends, np.zeros(3, np.int64))
    wanted = SortedKeys([0.0, *(float(number) for number in range(3, 20))])
    assert any_held(known, wanted).tolist() == [True, True, False]


def test_keys_are_of_the_type_of_the_bounds() -> None:
    """Constants of a type that only differs in its width are looked for among bounds."""
    ends = pa.array(["a", "b"], pa.large_string())
    known = ColumnarBounds(ends, ends, np.zeros(2, np.int64))
    assert any_held(known, SortedKeys(pa.array(["b", "c"]))).tolist() == [False, True]


def test_truth_values_of_many_files_are_looked_for() -> None:
    """Both truth values may be looked for at once in many files."""
    ends = pa.array([True, False, None] * 100_000)
    known = ColumnarBounds(ends, ends, np.zeros(len(ends), np.int64))
    assert any_held(known, SortedKeys(pa.array([False, True]))).all()
    assert any_held(known, SortedKeys(pa.array([True]))).sum() == 200_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int", "string", "bucket"])
def test_long_lists_over_many_files_are_quick(kind: str) -> None:
    """10,000 constants are looked for in a million files within a few tenths of a second of one core."""
    rng = np.random.default_rng(3)
    count = 1_000_000
    lows = rng.integers(0, 10**9, count)
    keys = rng.integers(0, 10**9, 10_000)
    texts = pa.string() if kind == "string" else pa.int64()
    low, high, wanted = (pa.array(numbers).cast(texts) for numbers in (lows, lows + 5, keys))
    residues = []
    if kind == "bucket":
        buckets = (lows % 1000).astype(np.int32)
        residues = [
            Residues(of=lambda some: some.to_numpy().astype(np.int32) % 1000, least=buckets, greatest=buckets)
        ]
        low = high = pa.nulls(count, texts)
    bounds = ColumnarBounds(low, high, np.zeros(count, np.int64), residues=residues)
    began = time.process_time()
    any_held(bounds, SortedKeys(wanted))
    assert time.process_time() - began < 0.5
