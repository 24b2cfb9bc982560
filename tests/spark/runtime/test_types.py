"""Types of columns in Spark, both ways."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs
from pyspark.sql import types as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.format.schema.types import PRIMITIVES
from lakehouse.spark.runtime.types import arrow_for_spark, as_spark, schema_of, struct_of, struct_of_arrow

_SIMPLE = hs.sampled_from([*PRIMITIVES.values(), pa.string(), pa.binary()]) | hs.integers(1, 38).flatmap(
    lambda digits: hs.integers(0, digits).map(lambda scale: pa.decimal128(digits, scale))
)


def _nested(inner: hs.SearchStrategy[pa.DataType]) -> hs.SearchStrategy[pa.DataType]:
    fields = hs.builds(lambda kind, null: pa.field("element", kind, nullable=null), inner, hs.booleans())
    return (
        fields.map(pa.list_)
        | hs.tuples(inner, fields).map(
            lambda both: pa.map_(pa.field("key", both[0], nullable=False), both[1].with_name("value"))
        )
        | hs.lists(fields, min_size=1, max_size=3).map(
            lambda parts: pa.struct([part.with_name(f"f{at}") for at, part in enumerate(parts)])
        )
    )


_TYPES = hs.recursive(_SIMPLE, _nested, max_leaves=4)


@settings(deadline=None)
@given(kinds=hs.lists(hs.tuples(_TYPES, hs.booleans()), min_size=1, max_size=4))
def test_a_table_made_for_the_columns_of_a_table_has_the_same_columns(
    kinds: list[tuple[pa.DataType, bool]],
) -> None:
    """Types, nullability at every depth, and order survive the way to Spark and back."""
    arrow = pa.schema([pa.field(f"c{at}", kind, nullable=null) for at, (kind, null) in enumerate(kinds)])
    schema = schema_from_arrow(arrow)
    again = schema_from_arrow(schema_of(struct_of(schema)))
    assert again.fields == schema.fields


@settings(deadline=None)
@given(kinds=hs.lists(_TYPES, min_size=1, max_size=3))
def test_rows_have_exactly_the_schema_that_spark_checks(kinds: list[pa.DataType]) -> None:
    """Whatever the types are."""
    schema = schema_from_arrow(pa.schema([(f"c{at}", kind) for at, kind in enumerate(kinds)]))
    wanted = arrow_for_spark(struct_of(schema))
    assert as_spark(schema.arrow().empty_table(), wanted).schema.equals(wanted)


def test_only_times_are_copied() -> None:
    """Other columns are the buffers that were read, nested ones included."""
    schema = schema_from_arrow(
        pa.schema(
            [("a", pa.int64()), ("b", pa.list_(pa.struct([("x", pa.string())]))), ("t", pa.time64("us"))]
        )
    )
    rows = pa.Table.from_pylist([{"a": 1, "b": [{"x": "y"}], "t": 5}], schema.arrow())
    found = as_spark(rows, arrow_for_spark(struct_of(schema)))

    def addresses(table: pa.Table, name: str) -> list[int]:
        chunk = table.column(name).chunk(0)
        return [buffer.address for buffer in chunk.buffers() if buffer is not None]

    assert addresses(found, "a") == addresses(rows, "a")
    assert addresses(found, "b") == addresses(rows, "b")
    assert found.column("t").type == pa.time64("ns")


def test_comments_are_shown_in_spark() -> None:
    """As Spark's own catalog has them."""
    schema = schema_from_arrow(pa.schema([("a", pa.int64())]))
    import dataclasses

    [field] = schema.fields
    noted = dataclasses.replace(schema, fields=(dataclasses.replace(field, comment="what it is"),))
    assert struct_of(noted)["a"].metadata == {"comment": "what it is"}


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (st.NullType(), "cast it to the type it is meant to have"),
        (st.DayTimeIntervalType(), "microseconds"),
        (st.YearMonthIntervalType(), "months"),
        (st.VariantType(), "to_json"),
        (st.StringType("UTF8_LCASE"), "collate UTF8_BINARY"),
    ],
)
def test_types_that_no_column_has_are_refused(kind: st.DataType, says: str) -> None:
    """By the path of the column, with what to do."""
    struct = st.StructType([st.StructField("a", st.ArrayType(st.StructType([st.StructField("b", kind)])))])
    with pytest.raises(InvalidInputError, match=says) as caught:
        schema_of(struct)
    assert caught.value.context["column"] == "a.element.b"


def test_text_with_a_length_is_text() -> None:
    """char and varchar are strings to a new table."""
    struct = st.StructType([st.StructField("a", st.VarcharType(5)), st.StructField("b", st.CharType(5))])
    assert schema_of(struct) == pa.schema([("a", pa.string()), ("b", pa.string())])


def test_columns_of_relations_have_spark_types_too() -> None:
    """Milliseconds and lists included."""
    struct = struct_of_arrow(pa.schema([("at", pa.timestamp("ms", "UTC")), ("names", pa.list_(pa.string()))]))
    assert [field.dataType for field in struct] == [st.TimestampType(), st.ArrayType(st.StringType())]
