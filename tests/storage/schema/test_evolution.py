"""Changes of schemas: what is allowed, what is refused, and what older files look like afterwards."""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.projection import project
from lakehouse.format.schema.schema_object import SchemaObject, decode_schema, encode_schema
from lakehouse.format.schema.table_schema import TableSchema, check_schema
from lakehouse.format.schema.type_notation import parse_type, type_text
from lakehouse.format.schema.types import (
    DataType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    arrow_schema,
    children,
    walk,
)
from lakehouse.storage.schema.evolution import (
    AddColumn,
    DropColumn,
    MakeOptional,
    MakeRequired,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetOptions,
    SetTableComment,
    UnsetOptions,
    WidenColumn,
    evolve,
)
from tests.kit.type_strategies import column_sets, names, nested_types, values_of


def created(*columns: tuple[str, str], **about: Any) -> TableSchema:
    """A schema of columns given by name and SQL type, with ``not null`` at its end where it is so."""
    numbers = iter(range(1, 100))
    fields = []
    for name, text in columns:
        number = next(numbers)
        kind = parse_type(text.removesuffix(" not null"), lambda: next(numbers))
        fields.append(Field(id=number, name=name, type=kind, required=text.endswith(" not null")))
    highest = max(one.id for _, one in walk(tuple(fields)))
    made = TableSchema(fields=tuple(fields), highest_field_id=highest, **about)
    check_schema(made)
    return made


ORDERS = created(
    ("id", "int not null"),
    ("day", "date not null"),
    ("amount", "decimal(9,2)"),
    ("who", "struct<name: varchar(20) not null, age: tinyint>"),
    ("tags", "array<struct<word: string, weight: float>>"),
    ("notes", "map<string,int>"),
    ("code", "binary(4)"),
    primary_key=("id",),
    partition_by=("day",),
    options={"point_reads": "true"},
)


def shown(schema: TableSchema) -> list[str]:
    """The columns as text."""
    return [f"{one.id} {one.name} {type_text(one.type)}{' not null' * one.required}" for one in schema.fields]


def after(*changes: SchemaChange) -> TableSchema:
    """The orders' schema after these changes."""
    return evolve(ORDERS, changes)


def line(schema: TableSchema, name: str) -> str:
    """One column as text."""
    return next(text for text in shown(schema) if text.split()[1] == name)


def test_a_change_makes_the_next_schema() -> None:
    """Changes are applied one after another and make one new schema; the old one stays."""
    before = repr(ORDERS)
    changed = after(AddColumn("x", "int"), RenameColumn("x", "y"), DropColumn("code"))
    assert (changed.id, changed.highest_field_id) == (1, 15)
    assert [one.name for one in changed.fields] == ["id", "day", "amount", "who", "tags", "notes", "y"]
    assert repr(ORDERS) == before


def test_added_columns_get_new_ids() -> None:
    """A new column and the fields inside it get ids that no field ever had."""
    dropped = evolve(after(AddColumn("x", "array<int>")), [DropColumn("x")])
    changed = evolve(dropped, [AddColumn("x", "struct<a: int, b: map<int,int>>")])
    assert [one.id for _, one in walk((changed.field("x"),))] == [17, 18, 19, 20, 21]
    assert (changed.id, changed.highest_field_id) == (3, 21)


def test_a_default_is_for_old_and_new_rows() -> None:
    """The default of a new column is what old rows show and new rows get."""
    field = after(AddColumn("x", "decimal(4,2)", required=True, default=1, comment="c")).field("x")
    one = decimal.Decimal("1.00")
    assert (field.initial_default, field.write_default, field.required, field.comment) == (
        one,
        one,
        True,
        "c",
    )


@pytest.mark.parametrize(
    ("about", "order"),
    [
        ({}, "id day amount who tags notes code x"),
        ({"first": True}, "x id day amount who tags notes code"),
        ({"after": "amount"}, "id day amount x who tags notes code"),
        ({"after": "code"}, "id day amount who tags notes code x"),
    ],
)
def test_where_a_column_is_added(about: dict[str, Any], order: str) -> None:
    """A new column stands last, first or behind another one."""
    assert " ".join(one.name for one in after(AddColumn("x", "int", **about)).fields) == order


@pytest.mark.parametrize(
    ("change", "order"),
    [
        (MoveColumn("code", first=True), "code id day amount who tags notes"),
        (MoveColumn("id", after="code"), "day amount who tags notes code id"),
        (MoveColumn("notes", after="day"), "id day notes amount who tags code"),
    ],
)
def test_columns_move(change: SchemaChange, order: str) -> None:
    """A column moves to the front or behind another one, the others keep their order."""
    assert " ".join(one.name for one in after(change).fields) == order


@pytest.mark.parametrize(
    ("change", "name", "line_after"),
    [
        (
            AddColumn(("who", "x"), "int", first=True),
            "who",
            "4 who struct<x: int, name: varchar(20) not null, age: tinyint>",
        ),
        (DropColumn(("who", "age")), "who", "4 who struct<name: varchar(20) not null>"),
        (
            RenameColumn(("who", "age"), "years"),
            "who",
            "4 who struct<name: varchar(20) not null, years: tinyint>",
        ),
        (
            MoveColumn(("who", "age"), first=True),
            "who",
            "4 who struct<age: tinyint, name: varchar(20) not null>",
        ),
        (
            WidenColumn(("who", "age"), "int"),
            "who",
            "4 who struct<name: varchar(20) not null, age: int>",
        ),
        (MakeOptional(("who", "name")), "who", "4 who struct<name: varchar(20), age: tinyint>"),
        (
            SetComment(("who", "age"), "in years"),
            "who",
            "4 who struct<name: varchar(20) not null, age: tinyint comment 'in years'>",
        ),
        (
            AddColumn(("tags", "element", "x"), "date"),
            "tags",
            "7 tags array<struct<word: string, weight: float, x: date>>",
        ),
        (
            WidenColumn(("tags", "element", "weight"), "double"),
            "tags",
            "7 tags array<struct<word: string, weight: double>>",
        ),
        (WidenColumn(("notes", "value"), "bigint"), "notes", "11 notes map<string,bigint>"),
        (MakeOptional("amount"), "amount", "3 amount decimal(9,2)"),
        (MakeRequired("id"), "id", "1 id int not null"),
        (WidenColumn("id", "bigint"), "id", "1 id bigint not null"),
        (WidenColumn("amount", "decimal(38,2)"), "amount", "3 amount decimal(38,2)"),
        (WidenColumn("code", "binary(8)"), "code", "14 code binary(8)"),
        (WidenColumn("code", "binary"), "code", "14 code binary"),
        (
            WidenColumn(("who", "name"), StringType()),
            "who",
            "4 who struct<name: string not null, age: tinyint>",
        ),
        (WidenColumn("day", "date"), "day", "2 day date not null"),
    ],
)
def test_changes(change: SchemaChange, name: str, line_after: str) -> None:
    """A change does to its field, at any depth, what it says, and ids stay."""
    assert line(after(change), name) == line_after


def test_key_columns_are_renamed_everywhere() -> None:
    """A key or partition column that is renamed is the key under its new name."""
    changed = after(RenameColumn("id", "number"), RenameColumn("day", "ID"))
    assert (changed.primary_key, changed.partition_by) == (("number",), ("ID",))
    assert changed.key_fields[0].id == 1


def test_case_may_change() -> None:
    """A column may get its own name in another case."""
    assert after(RenameColumn("amount", "Amount")).fields[2].name == "Amount"


def test_options_change() -> None:
    """Options are set and unset by name and kept as text."""
    changed = after(SetOptions({"commit.max_retries": 3}), UnsetOptions(["point_reads", "sst.codec"]))
    assert changed.options == {"commit.max_retries": "3"}


def test_a_fixed_option_may_be_said_again() -> None:
    """Setting a fixed option to what it is changes nothing and is allowed."""
    assert after(SetOptions({"merge_engine": "deduplicate"})).options["merge_engine"] == "deduplicate"


def test_comments_and_write_defaults_change() -> None:
    """Comments and the default of new rows change, what old rows show does not."""
    first = after(AddColumn("x", "int", default=1), SetTableComment("orders"), SetComment("id", "key"))
    changed = evolve(first, [SetDefault("x", 2), SetComment("id", None)])
    field = changed.field("x")
    assert (field.initial_default, field.write_default, changed.comment) == (1, 2, "orders")
    assert changed.field("id").comment is None
    assert evolve(changed, [SetDefault("x", None)]).field("x").write_default is None


def test_defaults_of_structs_follow_their_fields() -> None:
    """When the fields of a struct change, its default has their names, and their defaults for new ones."""
    first = after(AddColumn("s", "struct<a: tinyint, b: string>", default={"a": 1, "b": "x"}))
    changed = evolve(
        first,
        [
            RenameColumn(("s", "a"), "A1"),
            DropColumn(("s", "b")),
            AddColumn(("s", "c"), "double", default=5),
            WidenColumn(("s", "A1"), "int"),
        ],
    )
    assert changed.field("s").initial_default == {"A1": 1, "c": 5.0}
    assert changed.field("s").write_default == {"A1": 1, "c": 5.0}


def test_defaults_inside_a_new_type_are_kept() -> None:
    """A type that is given with defaults of its fields keeps them, as the fields hold them."""
    kind = StructType((Field(id=0, name="a", type=parse_type("decimal(4,2)"), write_default=3),))
    inner = children(after(AddColumn("s", kind)).field("s").type)[0]
    three = decimal.Decimal("3.00")
    assert (inner.initial_default, inner.write_default) == (three, three)


REFUSED: list[tuple[SchemaChange, str]] = [
    (DropColumn("id"), "column 'id' is a primary key column and cannot be dropped"),
    (DropColumn("day"), "column 'day' is a partition column and cannot be dropped"),
    (DropColumn("amuont"), "column 'amuont' is not there.*did you mean 'amount'"),
    (DropColumn(("who", "agee")), "column 'who.agee' is not there.*did you mean 'age'"),
    (DropColumn(("amount", "x")), "column 'amount.x' is not there: there is no 'x'"),
    (DropColumn(("tags", "element")), "column 'tags.element' is part of array<.*stay as they are"),
    (DropColumn(()), "names that lead to a field"),
    (RenameColumn("id", "DAY"), "column 'id' cannot have the name 'DAY': 'day' is there"),
    (RenameColumn("id", ""), "name is empty"),
    (RenameColumn("id", "_VALUE_KIND"), "reserved"),
    (RenameColumn(("notes", "key"), "k"), "column 'notes.key' is part of map<"),
    (RenameColumn(("who", "age"), "Name"), "'who.age' cannot have the name 'Name': 'name' is there"),
    (AddColumn("AMOUNT", "int"), "column 'AMOUNT' cannot have the name 'AMOUNT': 'amount' is there"),
    (AddColumn("x", "int", required=True), "column 'x' must not be null, so it needs a default"),
    (AddColumn("x", "tinyint", default=300), "the default of column 'x': 300 does not fit tinyint"),
    (AddColumn("x", "strinng"), "did you mean 'string'"),
    (AddColumn("x", Primitive("int46")), "column 'x': there is no type 'int46'"),
    (AddColumn("x", "struct<a: int, A: int>"), "the struct 'x' has columns 'a' and 'A'"),
    (AddColumn("x\n", "int"), "no control characters"),
    (AddColumn("x", "int", after="amuont"), "there is no 'amuont'; did you mean 'amount'"),
    (AddColumn("x", "int", first=True, after="id"), "goes first or behind another column"),
    (AddColumn(("amount", "x"), "int"), "column 'amount.x' cannot be added to decimal.*only structs"),
    (AddColumn(("tags", "x"), "int"), "column 'tags.x' cannot be added to array<"),
    (AddColumn(("whoo", "x"), "int"), "did you mean 'who'"),
    (MoveColumn("id"), "column 'id' goes first or behind another column: say one of the two"),
    (MoveColumn("id", after="x"), "there is no 'x'"),
    (WidenColumn("id", Primitive("int46")), "column 'id': there is no type 'int46'; did you mean 'int64'"),
    (WidenColumn("id", "smallint"), "column 'id' is int and cannot become smallint: a type only widens"),
    (WidenColumn("id", "double"), "cannot become double"),
    (WidenColumn("id", "string"), "cannot become string"),
    (WidenColumn("amount", "decimal(8,2)"), r"cannot become decimal\(8,2\)"),
    (WidenColumn("amount", "decimal(12,3)"), r"cannot become decimal\(12,3\)"),
    (WidenColumn("day", "timestamp"), "cannot become timestamp"),
    (WidenColumn(("who", "name"), "varchar(19)"), r"'who.name' is varchar\(20\) and cannot become"),
    (WidenColumn("code", "binary(3)"), r"cannot become binary\(3\)"),
    (WidenColumn("code", "string"), "cannot become string"),
    (WidenColumn(("tags", "element", "weight"), "bigint"), "float and cannot become bigint"),
    (WidenColumn("who", "struct<name: string>"), "cannot become struct"),
    (MakeOptional("id"), "column 'id' is a primary key column and cannot become optional"),
    (MakeOptional("day"), "column 'day' is a partition column and cannot become optional"),
    (MakeOptional(("notes", "key")), "column 'notes.key' is the key of a map, which is never null"),
    (MakeRequired("amount"), "column 'amount' is optional and cannot become required"),
    (MakeRequired(("who", "age")), "column 'who.age' is optional and cannot become required"),
    (SetDefault("id", "x"), "the default of column 'id': 'x' is string"),
    (SetDefault(("tags", "element"), None), "'tags.element' is part of a list or a map.*no defaults"),
    (SetComment("x", "c"), "column 'x' is not there"),
    (SetOptions({"merge_engine": "aggregation"}), "'merge_engine': it is said when the table is created"),
    (SetOptions({"primary_key": "day"}), "the primary key of a table is no option: .* cannot change"),
    (SetOptions({"partition_by": "day"}), "the partitioning of a table is no option"),
    (SetOptions({"buckets": 8}), "the number of buckets of a table is no option"),
    (UnsetOptions(["bucket"]), "the number of buckets of a table is no option"),
    (SetOptions({"sst.codek": "lz4"}), "no table option 'sst.codek'; did you mean 'sst.codec'"),
    (SetOptions({"sst.codec": "gzip"}), "must be one of none, snappy, lz4, zstd"),
    (UnsetOptions(["sst.codek"]), "no table option 'sst.codek'; did you mean 'sst.codec'"),
]


@pytest.mark.parametrize(("change", "says"), REFUSED, ids=lambda part: repr(part)[:60])
def test_what_may_not_change(change: SchemaChange, says: str) -> None:
    """A change that would break older files, keys or the layout is refused by name."""
    with pytest.raises(InvalidInputError, match=says):
        after(change)


def test_the_last_column_stays() -> None:
    """A table keeps a column, and a struct a field."""
    one = created(("a", "struct<x: int>"))
    with pytest.raises(InvalidInputError, match="the table has no columns"):
        evolve(one, [DropColumn("a")])
    with pytest.raises(InvalidInputError, match="the struct 'a' has no columns"):
        evolve(one, [DropColumn(("a", "x"))])


def test_changes_are_all_or_nothing() -> None:
    """A change that is refused takes those before it along, and no change is an error."""
    with pytest.raises(InvalidInputError, match="'id' is a primary key column"):
        after(AddColumn("x", "int"), DropColumn("id"))
    with pytest.raises(InvalidInputError, match="no changes were given"):
        evolve(ORDERS, [])


WIDER = {
    "tinyint": ["smallint", "int", "bigint"],
    "smallint": ["int", "bigint"],
    "int": ["bigint"],
    "float": ["double"],
}


def wider(kind: DataType) -> list[str]:
    """Types that a type may become."""
    text = type_text(kind)
    if text.startswith("decimal"):
        return [text.replace(text[8 : text.index(",")], "38", 1)]
    if "(" in text:
        return [text.partition("(")[0].replace("varchar", "string")]
    return WIDER.get(text, [])


@st.composite
def some_change(draw: st.DrawFn, schema: TableSchema) -> SchemaChange:
    """A change that may be allowed."""
    path, field = draw(st.sampled_from(list(walk(schema.fields))))

    def new(*above: str) -> SchemaChange:
        kind = draw(nested_types)
        default = draw(values_of(kind))
        required, first = default is not None and above == path[:-1], draw(st.booleans())
        return AddColumn((*above, draw(names)), kind, default=default, required=required, first=first)

    # What only some changes need is drawn for these alone: it is most of the work.
    made: list[Callable[[], SchemaChange]] = [
        lambda: new(*path[:-1]),
        lambda: new(*path),
        lambda: RenameColumn(path, draw(names)),
        lambda: MoveColumn(path, first=True),
        lambda: MoveColumn(path, after=draw(st.sampled_from([one.name for one in schema.fields]))),
        lambda: MakeOptional(path),
        lambda: DropColumn(path),
        *(partial(WidenColumn, path, text) for text in wider(field.type)),
    ]
    return draw(st.sampled_from(made))()


@st.composite
def histories(draw: st.DrawFn) -> list[TableSchema]:
    """Schemas that follow each other."""
    fields = draw(column_sets())
    found = [TableSchema(fields=fields, highest_field_id=max(one.id for _, one in walk(fields)))]
    for _ in range(draw(st.integers(1, 4))):
        try:
            found.append(evolve(found[-1], [draw(some_change(found[-1]))]))
        except InvalidInputError:
            continue
    return found


def as_seen(value: Any, old: DataType, new: DataType) -> Any:
    """A value written under one type as it is read under another: fields by id, one value at a time."""
    if value is None:
        return None
    match old, new:
        case ListType(before), ListType(now):
            return [as_seen(one, before.type, now.type) for one in value]
        case MapType(_, before), MapType(_, now):
            return [(key, as_seen(one, before.type, now.type)) for key, one in value]
        case StructType(before_fields), StructType(now_fields):
            return row_as_seen(value, before_fields, now_fields)
    return value


def row_as_seen(row: dict[str, Any], old: Sequence[Field], new: Sequence[Field]) -> dict[str, Any]:
    """A row written with some fields as it is read with others."""
    known = {field.id: field for field in old}
    return {
        field.name: as_seen(row[known[field.id].name], known[field.id].type, field.type)
        if field.id in known
        else field.initial_default
        for field in new
    }


@given(histories(), st.data())
def test_old_files_are_read_through_every_later_schema(
    history: list[TableSchema], data: st.DataObject
) -> None:
    """Rows written under any schema read under any later one as a model reads them value by value."""
    written = data.draw(st.sampled_from(history))
    row = st.fixed_dictionaries(
        {one.name: values_of(one.type, required=one.required) for one in written.fields}
    )
    rows = data.draw(st.lists(row, min_size=1, max_size=4))
    schema = arrow_schema(written.fields)
    arrays = [pa.array([one[part.name] for one in rows], part.type) for part in schema]
    start = data.draw(st.integers(0, 2))
    file = pa.Table.from_arrays(arrays, schema=schema).slice(start)
    for later in history[history.index(written) :]:
        found = project(file, later.fields)
        found.validate(full=True)
        assert found.schema.equals(later.arrow(), check_metadata=True)
        assert found.to_pylist() == [row_as_seen(one, written.fields, later.fields) for one in rows[start:]]


@given(histories())
def test_ids_are_never_used_again(history: list[TableSchema]) -> None:
    """A field that comes later has an id above all that there ever were, and initial defaults stay."""
    seen: dict[int, DataType] = {}
    highest = 0
    for number, schema in enumerate(history):
        check_schema(schema)
        ids = {one.id: type(one.type) for _, one in walk(schema.fields)}
        assert all(one in seen or one > highest or number == 0 for one in ids)
        assert all(seen.get(one, kind) == kind for one, kind in ids.items())
        seen |= ids  # type: ignore[arg-type]
        highest = max(highest, *ids)
        assert (schema.id, schema.highest_field_id) == (number, max(highest, schema.highest_field_id))


@settings(max_examples=40)
@given(histories())
def test_every_schema_can_be_stored(history: list[TableSchema]) -> None:
    """What evolution makes, defaults included, is read back as it was."""
    about = SchemaObject(schema=history[-1], table=uuid.UUID(int=1), token="t", time_ms=0)
    assert decode_schema(encode_schema(about), key="k") == about


def test_widening_is_for_any_number_of_steps() -> None:
    """A type widens from schema to schema and never back."""
    schema = created(("a", "tinyint"))
    for kind in ("smallint", "int", "bigint"):
        schema = evolve(schema, [WidenColumn("a", kind)])
    assert shown(schema) == ["1 a bigint"]
    with pytest.raises(InvalidInputError):
        evolve(replace(schema, id=9), [WidenColumn("a", "int")])
