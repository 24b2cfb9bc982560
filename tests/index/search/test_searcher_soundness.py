"""No row is lost, whatever is indexed, however, and whatever is asked."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import anyio
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config import IndexSettings
from lakehouse.expr import Expr, all_of, any_of, bind, col, evaluate, lit
from lakehouse.expr.nodes import And, Compare, CompareOp, FunctionCall, In, IsNull, Not, Or
from lakehouse.format.schema.target_key import ColumnSetTarget, ColumnTarget, ExpressionTarget, IndexTarget
from lakehouse.format.text.match import matches
from lakehouse.index.building.builder import IndexSpec
from tests.kit.searchers import BLOOM, FULLTEXT, INVERTED, searcher_of, spec


def true_rows(expr: Expr, rows: pa.Table) -> set[int]:
    """The rows a bound expression is true of, one expression after another."""
    found = pc.fill_null(truth(expr, rows), False)
    return set(
        np.flatnonzero(np.asarray(found.combine_chunks() if hasattr(found, "chunks") else found)).tolist()
    )


def truth(expr: Expr, rows: pa.Table) -> Any:
    """As :func:`lakehouse.expr.evaluate`, which does not know ``matches``."""
    if isinstance(expr, And | Or):
        combine = pc.and_kleene if isinstance(expr, And) else pc.or_kleene
        found = truth(expr.args[0], rows)
        for arg in expr.args[1:]:
            found = combine(found, truth(arg, rows))
        return found
    if isinstance(expr, Not):
        return pc.invert(truth(expr.arg, rows))
    if isinstance(expr, FunctionCall) and expr.name == "matches":
        return matches(evaluate(expr.args[0], rows), expr.args[1].value)  # type: ignore[attr-defined]
    found = evaluate(expr, rows)
    if isinstance(found, pa.Scalar):
        return pa.array([found.as_py()] * len(rows), pa.bool_())
    return found


TYPES: dict[str, pa.DataType] = {
    "n": pa.int8(),
    "x": pa.float64(),
    "price": pa.decimal128(7, 2),
    "name": pa.string(),
    "tag": pa.dictionary(pa.int32(), pa.string()),
    "raw": pa.binary(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "ts": pa.timestamp("ms"),
}
NAMES = st.sampled_from(["a", "B", "ab%c", "", "b a_b", "B_a", "ümlaut"])
CONSTANTS: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3) | st.sampled_from([1.5, 300, -129]),
    "x": st.sampled_from([0.0, -0.0, 0.5, -1.5, float("inf"), float("nan")]),
    "price": st.sampled_from([decimal.Decimal("1.50"), decimal.Decimal("-2.25"), decimal.Decimal("1.495")]),
    "name": NAMES,
    "tag": NAMES,
    "raw": st.sampled_from([b"", b"a", b"\x00\xff", b"zz"]),
    "flag": st.booleans(),
    "day": st.dates(dt.date(2026, 1, 1), dt.date(2026, 1, 4)),
    "ts": st.sampled_from([dt.datetime(2026, 1, 1, 0, 0, 1, micros) for micros in (0, 500_000, 500_001)]),
}
VALUES = CONSTANTS | {
    "n": st.integers(-3, 3),
    "price": st.sampled_from([decimal.Decimal("1.50"), decimal.Decimal("-2.25"), decimal.Decimal("0.00")]),
    "ts": st.sampled_from([dt.datetime(2026, 1, 1, 0, 0, 1, micros) for micros in (0, 500_000)]),
}
OPS: list[CompareOp] = ["=", "<>", "<", "<=", ">", ">="]
PATTERNS = st.sampled_from(["a", "", "%b%", "a_", "ü", "B%", "ab\\%c", "%_%", "_", "%"])
WORDS = st.sampled_from(["a", "b", "A b", "a_b", "b_A", "", "%", "zz", "ümlaut"])
TEXT = ("name", "tag")


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Some rows of every kind of value, nulls included."""
    count = draw(st.integers(0, 24))
    columns = {}
    for name, type_ in TYPES.items():
        values = draw(st.lists(st.none() | VALUES[name], min_size=count, max_size=count))
        plain = type_.value_type if pa.types.is_dictionary(type_) else type_
        columns[name] = pa.array(values, plain).cast(type_)
    return pa.table(columns)


@st.composite
def specifications(draw: st.DrawFn) -> list[IndexSpec]:
    """Some indexes, of some columns, of sets of columns and of expressions."""
    size = st.integers(1, 7)
    segment_row_count = draw(size)
    ids = {name: place for place, name in enumerate(TYPES, start=1)}
    targets: list[IndexTarget] = [ColumnTarget(column_id=one) for one in ids.values()]
    targets += [ColumnSetTarget(column_ids=one) for one in ((1, 4), (4, 5, 6), (2, 7))]
    targets += [ExpressionTarget.of(one) for one in ("lower(name)", "n + 1", "starts_with(name, 'a')")]
    specs = []
    for target in targets:
        if draw(st.booleans()):
            specs.append(spec(INVERTED, target, segment_row_count=segment_row_count))
        if draw(st.booleans()):
            specs.append(spec(BLOOM, target, granularity=draw(size), false_positive_rate=0.01))
    texts = [name for name in TEXT if draw(st.booleans())]
    return specs + [spec(FULLTEXT, ids[name], granularity=draw(size)) for name in texts]


@st.composite
def leaves(draw: st.DrawFn) -> Expr:
    """A condition on one column or an expression over one."""
    name = draw(st.sampled_from(sorted(TYPES)))
    kinds = ["compare", "swapped", "in", "null", "of expression"]
    kind = draw(
        st.sampled_from(kinds + (["text", "words"] if name == "name" else ["words"] * (name == "tag")))
    )
    constants = CONSTANTS[name]
    if kind == "compare":
        return Compare(draw(st.sampled_from(OPS)), col(name), lit(draw(constants | st.none())))
    if kind == "swapped":
        return Compare(draw(st.sampled_from(OPS)), lit(draw(constants)), col(name))
    if kind == "in":
        return In(col(name), tuple(draw(st.lists(constants | st.none(), min_size=1, max_size=4))))
    if kind == "null":
        return IsNull(col(name))
    if kind == "words":
        return col(name).matches(draw(WORDS))
    if kind == "text":
        pattern = draw(PATTERNS)
        return draw(
            st.sampled_from(
                [
                    col(name).like(pattern),
                    col(name).starts_with(pattern.strip("%")),
                    FunctionCall("ends_with", (col(name), lit(pattern))),
                    FunctionCall("contains", (col(name), lit(pattern))),
                    col(name).regexp(pattern.replace("%", ".*").replace("\\", "")),
                ]
            )
        )
    number = draw(st.integers(-3, 3))
    return draw(
        st.sampled_from(
            [
                col("name").lower() == draw(NAMES),
                col("name").lower().is_in(["a", draw(NAMES)]),
                Not(IsNull(col("name").lower())),
                Compare(draw(st.sampled_from(OPS)), col("n") + 1, lit(number)),
                col("name").starts_with("a"),
                col("flag"),
            ]
        )
    )


EXPRESSIONS = st.recursive(
    leaves(),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(lambda *args: all_of(*args), inner, inner)
        | st.builds(lambda *args: all_of(*args), inner, inner, inner)
        | st.builds(lambda *args: any_of(*args), inner, inner)
    ),
    max_leaves=7,
)


@settings(deadline=None, max_examples=150)
@given(
    rows=tables(),
    specs=specifications(),
    exprs=st.lists(EXPRESSIONS, min_size=1, max_size=4),
    tiny=st.booleans(),
)
def test_no_row_is_lost(rows: pa.Table, specs: list[IndexSpec], exprs: list[Expr], tiny: bool) -> None:
    """Every row that an expression is true of is in the selection, whatever is indexed and how."""

    async def check() -> None:
        limits = IndexSettings(search_whole_bytes=0) if tiny else IndexSettings()
        searcher, _ = await searcher_of(rows, specs, row_count=len(rows), settings=limits)
        plain = rows.set_column(4, "tag", rows["tag"].cast(pa.string()))
        for expr in exprs:
            found = await searcher.may_match(expr)
            assert found.total_rows == len(rows)
            wanted = true_rows(bind(expr, plain.schema), plain)
            assert wanted <= set(np.flatnonzero(found.mask()).tolist())

    anyio.run(check)
