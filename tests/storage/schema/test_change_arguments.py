"""Arguments of changes of a schema: whatever they are, the table stays one that can be read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import anyio
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
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
from lakehouse.io import ObjectStore
from lakehouse.storage.schema.evolution import AddColumn, SchemaChange, SetDefault, SetOptions, WidenColumn
from lakehouse.testing import memory_store
from tests.kit.worlds import NAME, World, process, restored, saved, table_of

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "v": pa.int32(),
        "s": pa.string(),
        "st": pa.struct([("a", pa.int32()), ("b", pa.string())]),
        "l": pa.list_(pa.int8()),
    }
)
ROW = {"id": 1, "v": 1, "s": "x", "st": {"a": 1, "b": "y"}, "l": [1]}
CHANGES = get_args(SchemaChange)
DEEP: Any = pa.int64()
for _ in range(70):
    DEEP = pa.list_(DEEP)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.decimals(allow_nan=True),
    st.dates(),
    st.datetimes(),
    st.sampled_from(["\ud800", object(), object, int, "\x00", "x" * 300, 10**400, Ellipsis, NotImplemented]),
)
junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)
paths = st.sampled_from(["id", "v", "s", "st", "l", "new", ("st", "a"), ("st", "new"), ("l", "element")])
types = st.sampled_from(
    [
        *("double", "bigint", "string", "array<struct<a: int>>", "map<string, int>", "varchar(3)", "nothing"),
        *(pa.float64(), pa.int64(), pa.string(), pa.null(), pa.uint64(), pa.list_(pa.int8()), DEEP),
        *(
            pa.struct([("a", pa.int8())]),
            pa.dictionary(pa.int8(), pa.string()),
            pa.map_(pa.string(), pa.int8()),
        ),
        *(Primitive("double"), Primitive("nothing"), Primitive(5), DecimalType("a", 2), DecimalType(50, 2)),
        *(StringType(-1), StringType("x"), ListType("x"), ListType(Field(id=1, name="e", type=int))),
        StructType((Field(id=1, name=5, type=Primitive("int64")),)),
        StructType("ab"),
        StructType(()),
        MapType(Field(id=0, name="key", type=StringType()), None),
        ListType(Field(id=0, name="element", type=StringType(), initial_default=object())),
        ListType(Field(id=0, name="element", type=StringType(), comment=b"c")),
    ]  # type: ignore[arg-type]
)
texts = (
    st.none() | st.text(max_size=4) | st.sampled_from(["\udfff", "id", "v", "bloom", "inverted", "fulltext"])
)
flags = st.booleans()
options = st.dictionaries(
    st.sampled_from(
        ["sst.codec", "index.min_rows", "fields.v.delimiter", "point_reads", "granularity", "no"]
    ),
    junk | st.sampled_from(["lz4", "5", True, 100]),
    max_size=2,
)
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "path": paths,
    "type": types,
    "required": flags,
    "first": flags,
    "default": junk | st.sampled_from([1, "x", {"a": 1}, [1]]),
    "comment": texts,
    "after": texts,
    "name": texts,
    "options": options,
    "names": st.lists(st.sampled_from(["sst.codec", "no"]), max_size=2),
    "target": st.sampled_from(["v", "s", "st.a", "lower(s)", ("v", "s"), "s#/a", "\ud800", "no(", ""]),
    "kind": texts,
}


@st.composite
def changes(draw: st.DrawFn) -> Any:
    """A change of any class whose arguments are likely ones, but for one or two that may be anything."""
    kind = draw(st.sampled_from(CHANGES))
    names = [one.name for one in dataclasses.fields(kind)]
    odd = draw(st.sets(st.sampled_from(names), max_size=2))
    return kind(**{name: draw(junk if name in odd else LIKELY[name]) for name in names})


def made() -> World:
    """A table with a row."""

    async def make() -> World:
        store = memory_store()
        lake = process(store)
        await lake.create_database("db")
        table = await lake.create_table(NAME, SCHEMA, primary_key="id")
        await table.append([ROW])
        return await saved(store)

    return anyio.run(make)


WORLD = made()


async def is_readable(store: ObjectStore) -> bool:
    """Whether a process of its own reads the row, writes another and reads both."""
    table = await table_of(store)
    before = await table.scan().to_arrow()
    rows = [{**one, (await table.schema()).primary_key[0]: 2} for one in before.to_pylist()]
    await table.append(pa.Table.from_pylist(rows, before.schema))
    return before.num_rows == 1 and (await (await table_of(store)).scan().to_arrow()).num_rows == 2


async def outcome(change: Any) -> str:
    """``refused`` or ``done``; an assertion fails where the table is neither as it was nor readable."""
    store = await restored(WORLD)
    table = await table_of(store)
    try:
        await table.alter(change)
    except InvalidInputError:
        assert await saved(store) == WORLD, "a refused change left objects behind"
        return "refused"
    assert await is_readable(store)
    return "done"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes())
def test_any_change_is_refused_or_leaves_a_readable_table(change: Any) -> None:
    """A change of a schema is refused and stores nothing, or the table can be read and written."""
    anyio.run(outcome, change)


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.string(), pa.list_(pa.int8()), Primitive("double"), "double"], ids=str
)
async def test_a_type_may_be_arrows(kind: Any) -> None:
    """A column is added with an Arrow type, a type of the package, or SQL text."""
    assert await outcome(AddColumn("price", kind)) == "done"


async def test_a_column_is_widened_to_an_arrow_type() -> None:
    """A column is widened to an Arrow type that holds more."""
    store = await restored(WORLD)
    table = await table_of(store)
    await table.widen_column("v", pa.int64())
    assert (await (await table_of(store)).scan().to_arrow()).schema.field("v").type == pa.int64()


@pytest.mark.parametrize("kind", [int, str, 5, None, b"int", [], {}, pa.field("a", pa.int8())], ids=repr)
@pytest.mark.parametrize("change", [AddColumn, WidenColumn])
async def test_what_is_no_type_is_refused_and_says_what_is(change: type, kind: Any) -> None:
    """A value that stands for no type is refused; the message lists what does, and nothing is stored."""
    store = await restored(WORLD)
    with pytest.raises(
        InvalidInputError, match=r"column 'v.*no type of a column: give SQL text .* Arrow type"
    ):
        await (await table_of(store)).alter(change("v" if change is WidenColumn else "v2", kind))
    assert await saved(store) == WORLD


async def test_what_is_no_change_is_refused() -> None:
    """A value of another class is refused by alter."""
    table = await table_of(await restored(WORLD))
    for junk_change in ("add", None, SetOptions, object()):
        with pytest.raises(InvalidInputError, match="no change of a schema"):
            await table.alter(junk_change)  # type: ignore[arg-type]


async def test_a_create_with_what_is_no_schema_is_refused() -> None:
    """Columns that are no Arrow schema, and schemas whose parts are of other kinds, make no table."""
    store = await restored(WORLD)
    lake = process(store)
    odd = Field(id=1, name="a", type=pa.int64())  # type: ignore[arg-type]
    for schema in ({"id": "bigint"}, None, TableSchema(fields=(odd,), highest_field_id=1)):
        with pytest.raises(InvalidInputError):
            await lake.create_table("db.u", schema)  # type: ignore[arg-type]
    assert await saved(store) == WORLD


async def test_a_damaged_schema_names_the_way_out() -> None:
    """The error about a schema that cannot be read ends with the command that salvages the table."""
    from lakehouse.errors import CorruptionError
    from lakehouse.format.metadata.sealed_json import seal

    key = next(key for key in WORLD if "/schema/" in key)
    document = json.loads(WORLD[key])
    del document["crc32c"]
    document["fields"][0]["type"] = None
    store = await restored({**WORLD, key: seal(document)})
    with pytest.raises(CorruptionError, match=r"type must be an object, not None.*`lakehouse table repair`"):
        await (await table_of(store)).scan().to_arrow()


async def test_a_default_that_nobody_can_store_is_refused() -> None:
    """Half of a surrogate pair in a default is refused by name."""
    assert await outcome(SetDefault("s", "\ud800")) == "refused"
