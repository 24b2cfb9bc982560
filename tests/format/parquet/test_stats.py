"""Bounds of row groups: those that the values have, in bytes that compare."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.keys.column_stats import stats_of
from lakehouse.format.keys.order_value import NAN_BYTES, encode_value
from lakehouse.format.metadata.file_entry import ColumnStats
from lakehouse.format.parquet.file_footer import FileFooter
from lakehouse.format.parquet.leaf_columns import LeafColumns
from lakehouse.format.parquet.stats import GroupStats
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import DataType, Field, ListType, Primitive, StringType
from tests.kit.parquet_samples import footer_of
from tests.kit.typed_values import ORDERED_KINDS, VALUES, column


@st.composite
def columns(draw: st.DrawFn) -> tuple[DataType, list[Any]]:
    """Some values of a type, nulls among them."""
    kind = draw(st.sampled_from(ORDERED_KINDS))
    return kind, draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=12))


def stats(kind: DataType, values: list[Any], group_rows: int = 100) -> list[GroupStats]:
    """What the row groups of a file with one column say."""
    schema = TableSchema(fields=(Field(id=5, name="x", type=kind),), highest_field_id=5)
    rows = pa.table([column(kind, values)], schema=schema.arrow())
    footer = footer_of(encode_parquet(rows, schema, ParquetOptions(row_group_rows=group_rows)))
    found = LeafColumns(footer.metadata.schema.to_arrow_schema())
    return [GroupStats(footer, found, group) for group in range(len(footer.pieces.rows))]


@given(columns(), st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_bounds_are_those_of_the_values(found: tuple[DataType, list[Any]], group_rows: int) -> None:
    """Every row group has the bounds and the count of nulls that its values have, NaN included."""
    kind, values = found
    fields = [Field(id=5, name="x", type=kind)]
    for group, said in enumerate(stats(kind, values, group_rows)):
        held = values[group * group_rows : (group + 1) * group_rows]
        exact = stats_of(pa.table({"x": column(kind, held)}), fields, text_bytes=4096)[5]
        only_nans = all(value is None or value != value for value in held)
        assert said[5] == (ColumnStats(nulls=exact.nulls) if only_nans else exact)


def test_a_nan_is_the_highest_of_its_row_group_alone() -> None:
    """A row group with a NaN among its floats has it as its high bound, the next one its own numbers."""
    first, second = stats(Primitive("double"), [1.0, float("nan"), 2.0, 3.0], group_rows=2)
    assert (first[5].low, first[5].high) == (encode_value(1.0, Primitive("double")), NAN_BYTES)
    assert second[5].high == encode_value(3.0, Primitive("double"))


def test_bounds_of_widened_columns_compare_with_new_ones() -> None:
    """An old file's bounds of an int32 column have the bytes of an int64's."""
    (old,) = stats(Primitive("int32"), [-3, 4])
    (new,) = stats(Primitive("int64"), [-3, 4])
    assert old[5] == new[5]


def test_long_text_has_no_bounds() -> None:
    """Bounds that Parquet does not store are not known; the nulls are."""
    (said,) = stats(StringType(), ["a" * 5_000, None])
    assert said[5] == ColumnStats(nulls=1)


def test_nested_columns_have_no_stats() -> None:
    """A list has no bounds, and no entry."""
    (said,) = stats(ListType(Field(id=6, name="element", type=Primitive("int32"))), [[1]])
    assert len(said) == 0
    assert list(said) == []
    assert 5 not in said


def test_statistics_of_others_are_used_where_they_are_certain() -> None:
    """Columns without a count of nulls are left out; bounds are not called exact, and floats may be NaNs."""
    ids = [{"PARQUET:field_id": str(number)} for number in (1, 2, 3)]
    fields = [
        pa.field(name, kind, metadata=id_)
        for name, kind, id_ in zip("abc", (pa.int64(), pa.float64(), pa.string()), ids, strict=True)
    ]
    rows = pa.table([[3, None], [0.0, 2.5], ["x", "y"]], schema=pa.schema(fields))
    sink = io.BytesIO()
    pq.write_table(rows, sink, write_statistics=["a", "b"])
    file = sink.getvalue()
    footer = FileFooter.parse(file, len(file))
    assert isinstance(footer, FileFooter)
    told = GroupStats(footer, LeafColumns(footer.metadata.schema.to_arrow_schema()), 0)
    assert (list(told), len(told), 3 in told) == ([1, 2], 2, False)
    assert told[1] == ColumnStats(
        nulls=1, low=encode_value(3, Primitive("int64")), high=encode_value(3, Primitive("int64"))
    )
    assert told[2] == ColumnStats(nulls=0, low=encode_value(-0.0, Primitive("double")), high=NAN_BYTES)
