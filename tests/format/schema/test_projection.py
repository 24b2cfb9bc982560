"""Columns of files as the fields of a schema."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import CorruptionError
from lakehouse.format.schema.projection import constant_column, project
from lakehouse.format.schema.types import (
    FIELD_ID,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    arrow_schema,
)

INT, LONG, TEXT = Primitive("int32"), Primitive("int64"), StringType()


def field(number: int, name: str, kind: DataType = INT, **about: Any) -> Field:
    """A field."""
    return Field(id=number, name=name, type=kind, **about)


def rows(fields: list[Field], *values: tuple[Any, ...]) -> pa.Table:
    """A file with these fields and rows."""
    columns = [list(column) for column in zip(*values, strict=True)]
    schema = arrow_schema(tuple(fields))
    arrays = [pa.array(column, part.type) for column, part in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


FILE = rows([field(1, "a"), field(2, "b", TEXT)], (1, "x"), (2, None))


def address(table: pa.Table, column: int) -> int:
    """Where a column's values are."""
    found: int = table.column(column).chunk(0).buffers()[1].address
    return found


def test_what_is_the_same_is_passed_on() -> None:
    """A table that has the fields already is returned as it is."""
    assert project(FILE, [field(1, "a"), field(2, "b", TEXT)]) is FILE


def test_columns_are_found_by_id() -> None:
    """A column is found whatever its name and place were, and is not copied."""
    found = project(FILE, [field(2, "a", TEXT), field(1, "B")])
    assert found.to_pydict() == {"a": ["x", None], "B": [1, 2]}
    assert (address(found, 0), address(found, 1)) == (address(FILE, 1), address(FILE, 0))


def test_the_result_has_the_schema() -> None:
    """The result has exactly the fields asked for, ids included, and no other metadata."""
    fields = (field(2, "c", TEXT, required=False), field(9, "d", LONG))
    noisy = FILE.replace_schema_metadata({"pandas": "{}"})
    assert project(noisy, fields).schema.equals(arrow_schema(fields), check_metadata=True)


def test_a_reused_name_is_another_column() -> None:
    """A field that took over the name of a dropped one shows nothing of its values."""
    assert project(FILE, [field(3, "a")]).to_pydict() == {"a": [None, None]}


def test_columns_without_field_are_dropped() -> None:
    """Row kinds and other columns without an id do not come along."""
    kinds = FILE.append_column("_VALUE_KIND", pa.array([0, 2], pa.int8()))
    assert project(kinds, [field(1, "a")]).column_names == ["a"]


def test_missing_fields_have_their_initial_default() -> None:
    """A field the file does not know has the default it was added with, not the one for new rows."""
    fields = [field(3, "n"), field(4, "d", required=True, initial_default=7, write_default=8)]
    assert project(FILE, fields).to_pydict() == {"n": [None, None], "d": [7, 7]}


def test_a_file_without_any_of_the_fields_has_rows() -> None:
    """The number of rows is known even where no column was read."""
    assert project(FILE.select([]), [field(3, "n", initial_default=1)]).to_pydict() == {"n": [1, 1]}
    assert project(FILE, []).num_rows == 2


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (Primitive("int8"), Primitive("int16"), -128),
        (Primitive("int8"), LONG, 127),
        (INT, LONG, -(2**31)),
        (Primitive("float"), Primitive("double"), 0.1),
        (DecimalType(4, 2), DecimalType(38, 2), decimal.Decimal("-12.34")),
        (StringType(3), StringType(), "abc"),
        (BinaryType(3), BinaryType(9), b"abc"),
    ],
)
def test_types_widen(old: DataType, new: DataType, value: Any) -> None:
    """Values of a narrower type are shown as the wider one, exactly."""
    file = rows([field(1, "a", old)], (value,), (None,))
    assert project(file, [field(1, "a", new)]).column(0).to_pylist() == file.column(0).to_pylist()


@pytest.mark.parametrize(
    "arrow", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_layouts_of_text(arrow: pa.DataType) -> None:
    """Text that a reader gives in another layout comes out as text."""
    part = pa.field("b", arrow, metadata={FIELD_ID: b"2"})
    file = pa.table([pa.array(["x", None, "x"]).cast(arrow)], schema=pa.schema([part]))
    found = project(file, [field(2, "b", TEXT)]).column(0)
    assert (found.type, found.to_pylist()) == (pa.string(), ["x", None, "x"])


@pytest.mark.parametrize("arrow", [pa.binary(16), pa.uuid(), pa.large_binary()], ids=str)
def test_layouts_of_bytes(arrow: pa.DataType) -> None:
    """Bytes of a fixed length, and those that stand for something, come out as bytes."""
    part = pa.field("b", arrow, metadata={FIELD_ID: b"2"})
    file = pa.table([pa.array([bytes(16), None], arrow)], schema=pa.schema([part]))
    found = project(file, [field(2, "b", BinaryType(16))]).column(0)
    assert (found.type, found.to_pylist()) == (pa.binary(), [bytes(16), None])


POINT = StructType((field(2, "x", INT, required=True), field(3, "y")))


def test_fields_of_structs_are_found_by_id() -> None:
    """Fields of a struct are renamed, widened, moved, added and dropped as columns are."""
    file = rows([field(1, "p", POINT)], ({"x": 1, "y": 2},), (None,), ({"x": 3, "y": None},))
    added = field(4, "w", TEXT, required=True, initial_default="new")
    wide = StructType((added, field(2, "X", LONG, required=True)))
    found = project(file, [field(1, "p", wide)]).column(0)
    assert found.to_pylist() == [{"w": "new", "X": 1}, None, {"w": "new", "X": 3}]


def test_lists_and_maps_are_projected_inside() -> None:
    """What is in lists and maps follows the schema too, in slices of larger arrays as well."""
    lists, maps = (
        ListType(field(2, "element", StructType((field(3, "x"),)))),
        MapType(field(5, "key", TEXT, required=True), field(6, "value", INT)),
    )
    file = rows(
        [field(1, "l", lists), field(4, "m", maps)],
        ([{"x": 0}], [("z", 0)]),
        ([{"x": 1}, None], [("a", 1), ("b", None)]),
        (None, None),
        ([], []),
        ([{"x": 2}], [("c", 3)]),
    ).slice(1)
    wide_lists = ListType(field(2, "element", StructType((field(7, "n"), field(3, "X", LONG)))))
    wide_maps = MapType(field(5, "key", TEXT, required=True), field(6, "value", LONG))
    found = project(file, [field(1, "l", wide_lists), field(4, "m", wide_maps)])
    assert found.to_pylist() == [
        {"l": [{"n": None, "X": 1}, None], "m": [("a", 1), ("b", None)]},
        {"l": None, "m": None},
        {"l": [], "m": []},
        {"l": [{"n": None, "X": 2}], "m": [("c", 3)]},
    ]
    found.validate(full=True)


def test_chunks_stay() -> None:
    """Columns in several chunks are projected chunk by chunk."""
    two = pa.concat_tables([FILE, FILE])
    found = project(two, [field(1, "a", LONG), field(2, "b", TEXT)])
    assert [column.num_chunks for column in found.columns] == [2, 2]
    assert found.column("a").to_pylist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LONG, INT),
        (TEXT, INT),
        (INT, TEXT),
        (Primitive("double"), Primitive("float")),
        (INT, Primitive("double")),
        (DecimalType(5, 2), DecimalType(5, 1)),
        (DecimalType(5, 2), DecimalType(4, 2)),
        (Primitive("timestamp"), Primitive("timestamp_ntz")),
        (Primitive("date"), Primitive("timestamp_ntz")),
        (INT, POINT),
        (POINT, INT),
        (ListType(field(2, "element")), POINT),
    ],
)
def test_a_type_that_never_was_is_damage(old: DataType, new: DataType) -> None:
    """A file whose column has a type that no evolution leads from is damaged."""
    with pytest.raises(CorruptionError, match=r"field id 1.* in the file, which never was"):
        project(rows([field(1, "a", old)], (None,)), [field(1, "a", new)])


def test_a_missing_required_field_is_damage() -> None:
    """A file without a field that always was required is damaged."""
    with pytest.raises(CorruptionError, match="no column of field id 3"):
        project(FILE, [field(3, "c", required=True)])


def test_an_id_stands_for_one_column() -> None:
    """A file with two columns of one id is damaged."""
    with pytest.raises(CorruptionError, match="two columns have field id 1: 'b' is the second"):
        project(rows([field(1, "a"), field(1, "b")], (1, 2)), [field(1, "c")])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, pa.int32()),
        (5, pa.int8()),
        ("é", pa.string()),
        ([1, None], pa.list_(pa.int64())),
        ({"a": None}, pa.struct([("a", pa.struct([pa.field("b", pa.int8(), nullable=False)]))])),
        ([("k", 1)], pa.map_(pa.string(), pa.int64())),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 65_536, 150_000])
def test_constants(value: Any, kind: pa.DataType, count: int) -> None:
    """A constant column has the value in every row."""
    column = constant_column(value, kind, count)
    assert (len(column), column.type) == (count, kind)
    assert column.slice(max(count - 2, 0)).to_pylist() == [value] * min(count, 2)


def test_a_constant_exists_once() -> None:
    """A long constant column takes the memory of a short one."""
    column = constant_column("x" * 1000, pa.string(), 10_000_000)
    assert len({chunk.buffers()[2].address for chunk in column.chunks}) == 1
