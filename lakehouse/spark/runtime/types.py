"""Column types as Spark has them, and rows as Spark takes them.

==================  =====================  =========================================================
table               Spark                  note
==================  =====================  =========================================================
int8 … int64        byte … long
float, double       the same               NaN, infinities and -0.0 stay what they are
decimal(p, s)       decimal(p, s)
string, varchar(n)  string                 lengths are rules for writers, who check them
binary              binary
date                date
time                time(6)                microseconds; SQL on it needs spark.sql.timeType.enabled
timestamp           timestamp              a moment; the session's time zone only shows it
timestamp_ntz       timestamp_ntz          what a clock on a wall shows
array, map, struct  the same               nulls inside as the table says
==================  =====================  =========================================================

Invariant: every value of a table has exactly one value in Spark and comes back as itself. Spark types that
no column can hold (intervals, variants, collated text, geometry) are refused by name, not converted.
"""

from __future__ import annotations

import itertools

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import (
    PRIMITIVES,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    TableSchema,
    from_arrow,
)

__all__ = ["arrow_for_spark", "as_spark", "schema_of", "spark_type", "struct_of", "struct_of_arrow"]

_SPARK: dict[str, st.DataType] = {
    "boolean": st.BooleanType(),
    "int8": st.ByteType(),
    "int16": st.ShortType(),
    "int32": st.IntegerType(),
    "int64": st.LongType(),
    "float": st.FloatType(),
    "double": st.DoubleType(),
    "date": st.DateType(),
    "time": st.TimeType(6),
    "timestamp": st.TimestampType(),
    "timestamp_ntz": st.TimestampNTZType(),
}
_ARROW: dict[type[st.DataType], pa.DataType] = {
    **{type(kind): PRIMITIVES[name] for name, kind in _SPARK.items()},
    **dict.fromkeys((st.VarcharType, st.CharType), pa.string()),
    st.BinaryType: pa.binary(),
}
_COMMENT = "comment"


def spark_type(kind: DataType) -> st.DataType:
    """Returns the Spark type of a column's type."""
    match kind:
        case Primitive(name):
            return _SPARK[name]
        case DecimalType(precision, scale):
            return st.DecimalType(precision, scale)
        case StringType():
            return st.StringType()
        case BinaryType():
            return st.BinaryType()
        case ListType(element):
            return st.ArrayType(spark_type(element.type), not element.required)
        case MapType(key, value):
            return st.MapType(spark_type(key.type), spark_type(value.type), not value.required)
        case StructType(fields):
            return st.StructType([_spark_field(field) for field in fields])


def _spark_field(field: Field) -> st.StructField:
    metadata = {} if field.comment is None else {_COMMENT: field.comment}
    return st.StructField(field.name, spark_type(field.type), not field.required, metadata)


def struct_of(schema: TableSchema) -> st.StructType:
    """Returns the columns of a table as Spark has them: names, types, nullability, comments."""
    return st.StructType([_spark_field(field) for field in schema.fields])


def arrow_for_spark(struct: st.StructType) -> pa.Schema:
    """Returns the Arrow schema that batches of these columns must have exactly."""
    return to_arrow_schema(struct, timezone="UTC")


def as_spark(table: pa.Table, arrow: pa.Schema) -> pa.Table:
    """Returns the columns, in their places, as :func:`arrow_for_spark` has them; only times are copied."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, arrow, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=arrow)


def schema_of(struct: st.StructType) -> pa.Schema:
    """Returns the Arrow schema of a new table for rows of a data frame.

    Raises:
        InvalidInputError: no column holds a type; names the column, and says what to cast it to.
    """
    return pa.schema([_arrow_field(field.name, field, field.name) for field in struct.fields])


def _arrow_field(name: str, field: st.StructField, path: str) -> pa.Field:
    return pa.field(name, _arrow_type(field.dataType, path), nullable=field.nullable)


def _arrow_type(kind: st.DataType, path: str) -> pa.DataType:
    if isinstance(kind, st.StringType) and not kind.isUTF8BinaryCollation():
        raise InvalidInputError(
            f"column {path!r} is {kind.simpleString()}, and tables compare text by its bytes: cast it to "
            "string collate UTF8_BINARY",
            column=path,
        )
    if type(kind) in _ARROW:
        return _ARROW[type(kind)]
    if isinstance(kind, st.StringType):
        return pa.string()
    if isinstance(kind, st.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, st.ArrayType):
        element = _arrow_type(kind.elementType, f"{path}.element")
        return pa.list_(pa.field("element", element, nullable=kind.containsNull))
    if isinstance(kind, st.MapType):
        key = pa.field("key", _arrow_type(kind.keyType, f"{path}.key"), nullable=False)
        value = _arrow_type(kind.valueType, f"{path}.value")
        return pa.map_(key, pa.field("value", value, nullable=kind.valueContainsNull))
    if isinstance(kind, st.StructType):
        return pa.struct([_arrow_field(field.name, field, f"{path}.{field.name}") for field in kind.fields])
    advice = {
        st.NullType: "cast it to the type it is meant to have",
        st.VariantType: "cast it to string with to_json",
        st.DayTimeIntervalType: "cast it to a number of microseconds (bigint)",
        st.YearMonthIntervalType: "cast it to a number of months (int)",
    }.get(type(kind), "cast it to a type that tables have")
    raise InvalidInputError(
        f"column {path!r} is {kind.simpleString()}, which no table column can be: {advice}", column=path
    )


def struct_of_arrow(schema: pa.Schema) -> st.StructType:
    """Returns the Spark columns of Arrow columns that are no table's, such as those of a relation."""
    numbers = itertools.count(1).__next__
    kinds = [from_arrow(field.type, numbers) for field in schema]
    return st.StructType(
        [
            st.StructField(field.name, spark_type(kind), field.nullable)
            for field, kind in zip(schema, kinds, strict=True)
        ]
    )
