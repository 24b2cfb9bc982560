"""Many files judged at once get the verdicts that each of them gets alone."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr import Expr, bind, col
from lakehouse.expr.bounds import ColumnBounds, Judge, Verdict
from lakehouse.expr.columnar import UNKNOWN, VERDICTS, ColumnarBounds, ColumnarJudge, FileBounds
from lakehouse.expr.nodes import Compare, CompareOp, Constant
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
    """Each file gets the verdict that the judge of single files gives it."""
    expr, files = case
    bound = bind(expr, TABLE.schema)
    found = judged(ColumnarJudge(bound), columns_of(files, TABLE.schema))
    assert found == one_by_one(Judge(bound), files)


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
    """Values that share their first eight bytes are told apart, or SOME is said of their files."""
    schema = pa.schema({"v": pa.binary()})
    ends = [(low, high) if None in (low, high) else tuple(sorted((low, high))) for low, high in ends]  # type: ignore[misc,type-var]
    files = [{"v": ColumnBounds(low=low, high=high, nulls=0, rows=1)} for low, high in ends]
    expr = col("v").is_in(keys) if op == "in" else compared(op, keys[0])
    bound = bind(expr, schema)
    found = judged(ColumnarJudge(bound), columns_of(files, schema))
    for verdict, right in zip(found, one_by_one(Judge(bound), files), strict=True):
        assert verdict in (right, Verdict.SOME)
        assert verdict is right or (op == "in" and len(set(keys)) > 8)


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
