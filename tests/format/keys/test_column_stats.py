"""Bounds of columns: never wrong, exact where they say so, short for text."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.keys.column_stats import merge_stats, stats_of
from lakehouse.format.keys.order_value import NAN_BYTES, encode_value
from lakehouse.format.metadata.file_entry import KIND_COLUMN, ColumnStats, RowKind
from lakehouse.format.schema.types import (
    BinaryType,
    DataType,
    Field,
    ListType,
    Primitive,
    StringType,
    arrow_type,
)
from tests.kit.blob_samples import spec_block
from tests.kit.typed_values import ORDERED_KINDS, column, spec_value, values_of

TEXT, RAW = StringType(), BinaryType()
LONG_TEXT = st.text("ab\u07ff\ud7ff\uffff\U0010ffff", max_size=24)


def stats(kind: DataType, array: pa.Array, *, kinds: list[int] | None = None) -> ColumnStats:
    """The stats of one column."""
    table = pa.table({"v": array})
    if kinds is not None:
        table = table.append_column(KIND_COLUMN, pa.array(kinds, pa.int8()))
    return stats_of(table, [Field(id=7, name="v", type=kind)])[7]


@st.composite
def columns(draw: st.DrawFn) -> tuple[DataType, list[Any]]:
    """A type and values of it, some of them null."""
    kind = draw(st.sampled_from(ORDERED_KINDS))
    values = values_of(kind)
    if kind == TEXT:
        values |= LONG_TEXT
    elif kind == RAW:
        values |= st.lists(st.sampled_from([b"a", b"\xff"]), max_size=24).map(b"".join)
    return kind, draw(st.lists(values | st.none(), max_size=8))


@given(columns(), st.integers(0, 8))
def test_bounds_hold_all_values(found: tuple[DataType, list[Any]], cut: int) -> None:
    """No value lies outside the bounds, and bounds that are called exact are values, chunked or not."""
    kind, values = found
    array = column(kind, values)
    known = stats(kind, array)
    encoded = [encode_value(value, kind) for value in values if value is not None]
    assert known.nulls == len(values) - len(encoded)
    for value in encoded:
        assert known.low is not None
        assert known.low <= value
        assert known.high is None or value <= known.high
    assert known.exact == (known.low in encoded and known.high in encoded)
    assert stats(kind, pa.chunked_array([array.slice(0, cut), array.slice(cut)], array.type)) == known


@given(columns())
def test_bounds_are_short_and_text_stays_text(found: tuple[DataType, list[Any]]) -> None:
    """A bound of text has 16 bytes, one more where a raised character takes it, and is text."""
    kind, values = found
    known = stats(kind, column(kind, values))
    for bound in (known.low, known.high):
        if bound is not None and kind == TEXT:
            bound.decode()
        assert bound is None or len(bound) <= 17


@given(st.lists(st.tuples(st.integers(-3, 3) | st.none(), st.sampled_from(RowKind)), max_size=8))
def test_deleted_rows_do_not_count(rows: list[tuple[int | None, RowKind]]) -> None:
    """Rows of kind DELETE have no part in bounds and nulls; operands have."""
    kind = Primitive("int64")
    live = [value for value, how in rows if how is not RowKind.DELETE]
    values = [value for value, _ in rows]
    assert stats(kind, column(kind, values), kinds=[how for _, how in rows]) == stats(
        kind, column(kind, live)
    )


@pytest.mark.parametrize("name", ["float", "double"])
@pytest.mark.parametrize("values", [[math.nan, 1.0, None], [1.0, math.nan], [math.nan]])
def test_a_nan_is_the_high_bound(name: str, values: list[float | None]) -> None:
    """A column with a NaN has it as its high bound, and its least number as the low one."""
    kind = Primitive(name)
    known = stats(kind, column(kind, values))
    assert known.high == NAN_BYTES
    assert known.low == (encode_value(1.0, kind) if 1.0 in values else NAN_BYTES)


def test_nested_columns_have_null_counts() -> None:
    """Of a list only the nulls are counted."""
    kind = ListType(Field(id=8, name="element", type=Primitive("int64")))
    assert stats(kind, pa.array([[1], None, []], arrow_type(kind))) == ColumnStats(nulls=1)


def test_missing_columns_are_left_out() -> None:
    """Of a column that the rows do not have nothing is said."""
    fields = [Field(id=at, name=name, type=Primitive("int64")) for at, name in ((1, "a"), (2, "b"))]
    assert set(stats_of(pa.table({"b": [1]}), fields)) == {2}


def test_no_rows() -> None:
    """Of no rows there are no bounds."""
    assert stats(TEXT, pa.array([], pa.string())) == ColumnStats(nulls=0)
    assert stats(TEXT, pa.array(["a"]), kinds=[RowKind.DELETE]) == ColumnStats(nulls=0)


def test_the_specified_bounds() -> None:
    """The examples of the specification are what is written."""
    for line in spec_block("row-key.md", "bounds").splitlines():
        name, text, low, high = re.split(r"\s{2,}", line)
        kind, value = spec_value(name, text)
        known = stats(kind, column(kind, [value]))
        assert known.low == bytes.fromhex(low), line
        assert known.high == (None if high == "(missing)" else bytes.fromhex(high)), line


@given(columns(), st.lists(st.integers(0, 8), max_size=3))
def test_merged_stats_are_those_of_all_rows(found: tuple[DataType, list[Any]], cuts: list[int]) -> None:
    """What is known of parts, merged, is what is known of the whole, though it may say exact less often."""
    kind, values = found
    places = sorted({0, len(values), *(min(cut, len(values)) for cut in cuts)})
    parts = [values[low:high] for low, high in itertools.pairwise(places)]
    merged = merge_stats((len(part), {7: stats(kind, column(kind, part))}) for part in parts)
    whole = stats(kind, column(kind, values))
    if not values:
        assert merged == {}
        return
    assert (merged[7].nulls, merged[7].low) == (whole.nulls, whole.low)
    assert merged[7].high == whole.high or merged[7].high is None
    assert whole.exact or not merged[7].exact


def test_what_a_part_does_not_know_nobody_knows() -> None:
    """A field that one part says nothing of is left out; one bound that is missing is missing in all."""
    known = ColumnStats(nulls=0, low=b"a", high=b"b", exact=True)
    open_above = ColumnStats(nulls=0, low=b"b")
    assert merge_stats([(1, {1: known}), (1, {})]) == {}
    assert merge_stats([(0, {}), (1, {1: known})]) == {1: known}
    assert merge_stats([(2, {1: known}), (2, {1: open_above})]) == {1: ColumnStats(nulls=0, low=b"a")}
    assert merge_stats([(2, {1: known}), (2, {1: ColumnStats(nulls=2)})]) == {
        1: ColumnStats(nulls=2, low=b"a", high=b"b", exact=True)
    }
