"""Tables of rows for tests of Parquet runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lakehouse.format.parquet.run_footer import RunFooter
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive, StringType, arrow_type
from tests.kit.type_strategies import column_sets, values_of

__all__ = ["FIELDS", "KEYED", "footer_of", "keyed_rows", "many_rows"]

FIELDS = (
    Field(id=1, name="id", type=Primitive("int64"), required=True),
    Field(id=2, name="amount", type=Primitive("double")),
    Field(id=3, name="city", type=StringType()),
    Field(id=4, name="note", type=StringType()),
)
KEYED = TableSchema(id=2, fields=FIELDS, primary_key=("id",), highest_field_id=4)
"""A table whose key is ``id``."""

_KEY = Field(id=1_000, name="_key", type=Primitive("int64"), required=True)


def many_rows(count: int, *, first: int = 0) -> pa.Table:
    """Rows of :data:`KEYED` with every third id from ``first`` on; notes are unique."""
    ids = first + 3 * np.arange(count)
    return pa.table(
        [
            pa.array(ids),
            pa.array(np.sqrt(ids)),
            pa.array(np.char.add("city-", (ids % 7).astype("U"))),
            pa.array(np.char.add("note of row ", ids.astype("U"))),
        ],
        schema=KEYED.arrow(),
    )


@st.composite
def keyed_rows(draw: st.DrawFn) -> tuple[TableSchema, pa.Table]:
    """A schema of any columns behind a key, and some rows of it."""
    fields = (_KEY, *draw(column_sets()))
    schema = TableSchema(fields=fields, primary_key=("_key",), highest_field_id=1_000)
    count = draw(st.integers(1, 12))
    columns: list[Any] = [pa.array(range(count), pa.int64())]
    for field in fields[1:]:
        one = values_of(field.type, required=field.required)
        values = draw(st.lists(one, min_size=count, max_size=count))
        columns.append(pa.array(values, arrow_type(field.type)))
    return schema, pa.table(columns, schema=schema.arrow())


def footer_of(file: pa.Buffer) -> RunFooter:
    """The footer of a whole file."""
    footer = RunFooter.parse(file.to_pybytes(), len(file))
    assert isinstance(footer, RunFooter)
    return footer
