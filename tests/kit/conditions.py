"""Conditions for tests of expressions: a table with every kind of value, and what may be asked of it."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakehouse.expr import Expr, all_of, any_of, col, lit
from lakehouse.expr.nodes import Compare, CompareOp, In, IsNull, Not

__all__ = ["EXPRESSIONS", "OPS", "TABLE", "leaves"]

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, None, -128, 127], pa.int8()),
        "big": pa.array([1 << 62, -(1 << 62), 0, 7, None, 42], pa.int64()),
        "x": pa.array([0.5, -1.5, float("inf"), None, 1e300, 0.1], pa.float64()),
        "f": pa.array([0.5, -1.5, 0.1, None, 3e38, 16777216.0], pa.float32()),
        "price": pa.array(
            [
                decimal.Decimal(text) if text else None
                for text in ("1.50", "-2.25", "0.00", "", "99999.99", "1.49")
            ],
            pa.decimal128(7, 2),
        ),
        "name": pa.array(["a", "B", "ab%c", None, "", "ümlaut"]),
        "raw": pa.array([b"", b"\x00\xff", b"a", None, b"b", b"c"]),
        "flag": pa.array([True, False, None, True, False, None]),
        "day": pa.array([dt.date(2026, 1, day) for day in range(1, 6)] + [None]),
        "ts": pa.array(
            [dt.datetime(2026, 1, 1, 0, 0, second, 500_000) for second in range(5)] + [None],
            pa.timestamp("ms"),
        ),
        "ts_s": pa.array(
            [dt.datetime(2026, 1, 1, 0, 0, second) for second in range(5)] + [None], pa.timestamp("s")
        ),
    }
)
"""One row of every kind of value, edges and nulls included."""

NUMBERS: st.SearchStrategy[Any] = (
    st.integers(-300, 300)
    | st.sampled_from([1 << 62, (1 << 62) - 1, 1 << 63, -(1 << 63) - 1, 1 << 70])
    | st.sampled_from([0.5, -1.5, 0.1, 1.4999, 1.5, 127.5, -128.5, 1e300, 16777217.0])
    | st.sampled_from([decimal.Decimal("1.495"), decimal.Decimal("99999.99"), decimal.Decimal("1e9")])
)
CONSTANTS: dict[str, st.SearchStrategy[Any]] = {
    "id": NUMBERS,
    "big": NUMBERS,
    "x": NUMBERS.filter(lambda value: not isinstance(value, int) or abs(value) < 1 << 53),
    "f": st.sampled_from([0.5, -1.5, 0, 16777216, 3, -7.25]),
    "price": st.integers(-300, 300) | st.sampled_from([decimal.Decimal("1.495"), decimal.Decimal("1.50")]),
    "name": st.sampled_from(["a", "B", "ab%c", "", "ümlaut", "zz", "'"]),
    "raw": st.sampled_from([b"", b"a", b"\x00\xff", b"zz"]),
    "flag": st.booleans(),
    "day": st.dates(dt.date(2025, 12, 30), dt.date(2026, 1, 7)),
    "ts": st.sampled_from([dt.datetime(2026, 1, 1, 0, 0, 1, micros) for micros in (0, 500_000, 500_001)]),
    "ts_s": st.sampled_from([dt.datetime(2026, 1, 1, 0, 0, 1, micros) for micros in (0, 1)]),
}
OPS: list[CompareOp] = ["=", "<>", "<", "<=", ">", ">="]


@st.composite
def leaves(draw: st.DrawFn) -> Expr:
    """A comparison, IN, null test or text function on one column."""
    name = draw(st.sampled_from(sorted(CONSTANTS)))
    values = CONSTANTS[name]
    kind = draw(st.sampled_from(["compare", "swapped", "in", "null"] + (["text"] if name == "name" else [])))
    if kind == "compare":
        return Compare(draw(st.sampled_from(OPS)), col(name), lit(draw(values | st.none())))
    if kind == "swapped":
        return Compare(draw(st.sampled_from(OPS)), lit(draw(values)), col(name))
    if kind == "in":
        return In(col(name), tuple(draw(st.lists(values | st.none(), min_size=1, max_size=4))))
    if kind == "null":
        return IsNull(col(name))
    pattern = draw(st.sampled_from(["a", "", "%b%", "a_", "ü", "B%"]))
    return draw(st.sampled_from([col(name).like(pattern), col(name).starts_with(pattern.strip("%"))]))


EXPRESSIONS = st.recursive(
    leaves(),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(lambda *args: all_of(*args), inner, inner)
        | st.builds(lambda *args: any_of(*args), inner, inner, inner)
    ),
    max_leaves=6,
)
