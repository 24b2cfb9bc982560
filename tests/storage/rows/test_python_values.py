"""Python values go into columns of any shape and come back as they were."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import (
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
)
from lakehouse.storage.rows.fit_to_schema import conform
from lakehouse.storage.rows.python_values import column_of

ITEM = StructType(
    (
        Field(id=3, name="count", type=Primitive("int8")),
        Field(id=4, name="price", type=DecimalType(9, 2)),
        Field(id=5, name="day", type=Primitive("date"), write_default=dt.date(2026, 1, 1)),
        Field(
            id=6,
            name="tags",
            type=MapType(
                key=Field(id=7, name="key", type=StringType(), required=True),
                value=Field(id=8, name="value", type=Primitive("double")),
            ),
        ),
    )
)
FIELD = Field(id=1, name="items", type=ListType(Field(id=2, name="element", type=ITEM)))
SCHEMA = TableSchema(fields=(FIELD,), highest_field_id=8)

VALUES = st.lists(
    st.none()
    | st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "count": st.none() | st.integers(-128, 127),
                "price": st.none() | st.decimals(-1000, 1000, places=2),
                "day": st.none() | st.dates(),
                "tags": st.none()
                | st.dictionaries(st.text(max_size=3), st.none() | st.floats(allow_nan=False)),
            }
        ),
        max_size=3,
    ),
    max_size=8,
)


def _stored(values: list[Any]) -> list[Any]:
    column = column_of("items", values, FIELD, first_row=0)
    return conform(pa.table({"items": column}), SCHEMA)["items"].to_pylist(maps_as_pydicts="strict")


@settings(deadline=None)
@given(VALUES)
def test_nested_values_come_back(values: list[Any]) -> None:
    """Lists of structs of maps, with nulls at every level, conform to the column and are unchanged."""
    assert _stored(values) == values


def test_a_missing_part_of_a_struct_has_its_write_default() -> None:
    """A dict need not name every part."""
    (items,) = _stored([[{"count": 1}]])
    assert items == [{"count": 1, "price": None, "day": dt.date(2026, 1, 1), "tags": None}]


@pytest.mark.parametrize(
    "value",
    [
        {"count": 300},
        {"count": 1.5},
        {"price": decimal.Decimal("1.005")},
        {"day": dt.datetime(2026, 1, 1, 5)},
    ],
)
def test_a_nested_value_that_would_be_cut_is_refused(value: dict[str, Any]) -> None:
    """Nothing is rounded or truncated on the way; the row is named."""
    with pytest.raises(InvalidInputError) as caught:
        _stored([None, [{"count": 1}], [value], [{"count": 2}], None])
    assert caught.value.context["row"] == 2
