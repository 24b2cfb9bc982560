"""Values of every type of ours through DuckDB and back: some types arrive changed, and no value does."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.schema import Field, TableSchema, arrow_schema, schema_from_arrow, type_text, walk
from lakehouse.sql.engine.loop_bridge import LoopBridge
from lakehouse.sql.providers import ArrowProvider, arrow_source, select_list
from lakehouse.storage.rows import conform
from tests.kit.sql_sources import bridge_to_a_loop
from tests.kit.type_strategies import column_sets, values_of


@pytest.fixture(scope="module")
def bridge() -> Iterator[LoopBridge]:
    """One bridge for all examples."""
    with bridge_to_a_loop() as made:
        yield made


@pytest.fixture(scope="module")
def instance() -> Iterator[duckdb.DuckDBPyConnection]:
    """One DuckDB for all examples."""
    with duckdb.connect(config={"threads": 2}) as connection:
        yield connection


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[Field, ...], pa.Table]:
    """Columns of any types of ours, and rows of them."""
    fields = draw(column_sets())
    values = {field.name: values_of(field.type, required=field.required) for field in fields}
    rows = draw(st.lists(st.fixed_dictionaries(values), max_size=4))
    return fields, pa.Table.from_pylist(rows, arrow_schema(fields))


@settings(max_examples=25, deadline=None)
@given(tables())
def test_rows_come_back_as_they_were(
    instance: duckdb.DuckDBPyConnection, bridge: LoopBridge, sample: tuple[tuple[Field, ...], pa.Table]
) -> None:
    """Rows of a table that are read by SQL and written into one like it are the same rows."""
    fields, table = sample
    with instance.cursor() as cursor:
        cursor.register("t", arrow_source(ArrowProvider(table), bridge))
        found = cursor.sql(f"SELECT {select_list(table.schema.names)} FROM t").to_arrow_table()
    highest = max(field.id for _, field in walk(fields))
    written = conform(found, TableSchema(fields=fields, highest_field_id=highest))
    assert written.to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("kind", "arrives"),
    [
        (pa.list_(pa.field("element", pa.int32(), nullable=False)), pa.list_(pa.int32())),
        (pa.struct([pa.field("a", pa.int32(), nullable=False)]), pa.struct({"a": pa.int32()})),
        (pa.large_string(), pa.string()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.time32("s"), pa.time64("us")),
        (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.large_list(pa.int8()), pa.list_(pa.int8())),
    ],
)
def test_types_that_arrive_changed(
    instance: duckdb.DuckDBPyConnection, bridge: LoopBridge, kind: pa.DataType, arrives: pa.DataType
) -> None:
    """DuckDB makes parts nullable, knows one layout of each type, and labels moments with its own zone."""
    table = pa.table([pa.nulls(1, kind)], pa.schema([("c", kind)]))
    with instance.cursor() as cursor:
        cursor.execute("SET TimeZone = 'UTC'")
        cursor.register("t", arrow_source(ArrowProvider(table), bridge))
        assert cursor.sql("SELECT c FROM t").to_arrow_table().schema.field("c").type == arrives


@pytest.mark.parametrize(
    ("value", "arrives", "ours"),
    [
        ("sum(1::BIGINT)", pa.decimal128(38, 0), "decimal(38,0)"),
        ("sum(1.5::DECIMAL(9, 2))", pa.decimal128(38, 2), "decimal(38,2)"),
        ("count(*)", pa.int64(), "bigint"),
        ("1 / 2", pa.float64(), "double"),
        ("uuid()", pa.string(), "string"),
        ("'a'::ENUM ('a')", pa.dictionary(pa.uint8(), pa.string()), "string"),
        ("'10'::BIT", pa.binary(), "binary"),
        ("'{}'::JSON", pa.string(), "string"),
        ("[1]", pa.list_(pa.int32()), "array<int>"),
        ("MAP {'a': 1}", pa.map_(pa.string(), pa.int32()), "map<string,int>"),
    ],
)
def test_types_that_duckdb_makes(
    instance: duckdb.DuckDBPyConnection, value: str, arrives: pa.DataType, ours: str
) -> None:
    """A result of DuckDB's own types has Arrow types that tables of ours can have."""
    found = instance.sql(f"SELECT {value} AS c").to_arrow_table().schema
    assert found.field("c").type == arrives
    assert type_text(schema_from_arrow(found).field("c").type) == ours
