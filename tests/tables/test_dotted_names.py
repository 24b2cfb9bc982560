"""Names with dots: paths into structs where there is one, whole names in backticks, never a guess."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from lakehouse import AddColumn, col
from lakehouse.errors import InvalidInputError
from lakehouse.format.schema.column_path import column_steps
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.storage.schema.evolution import DropColumn, evolve
from lakehouse.storage.table import Table
from tests.kit.worlds import NAME, process, restored

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "st": pa.struct({"a": pa.int32(), "deep": pa.struct({"x": pa.string()})}),
        "tags": pa.list_(pa.struct({"k": pa.string()})),
        "net.amount": pa.int64(),
    }
)
ROW: dict[str, Any] = {
    "id": 1,
    "st": {"a": 7, "deep": {"x": "y"}},
    "tags": [{"k": "v"}],
    "net.amount": 5,
}


async def made(schema: pa.Schema = SCHEMA, **more: Any) -> Table:
    """A table with one row."""
    lake = process(await restored({}))
    await lake.create_database("db")
    table = await lake.create_table(NAME, schema, primary_key="id", **more)
    await table.append([{name: ROW[name] for name in schema.names}])
    return table


async def names_of(table: Table) -> dict[str, Any]:
    """Columns, and what is inside of structs."""

    def names(kind: pa.DataType) -> Any:
        return [(one.name, names(one.type)) for one in kind] if pa.types.is_struct(kind) else str(kind)

    return {one.name: names(one.type) for one in (await table.schema()).arrow()}


async def test_a_dotted_text_is_a_path_into_a_struct() -> None:
    """Every change of a schema goes to the field that the text leads to, at any depth."""
    table = await made()
    await table.add_column("st.b", "string", default="new")
    await table.add_column("st.deep.z", "int", after="x")
    await table.rename_column("st.deep.x", "w")
    await table.widen_column("st.a", "bigint")
    await table.move_column("st.b", first=True)
    await table.set_comment("of b", column="st.b")
    await table.set_default("st.b", "later")
    await table.make_optional("st.a")
    await table.add_column("tags.element.n", "int")
    assert (await names_of(table))["st"] == [
        ("b", "string"),
        ("a", "int64"),
        ("deep", [("w", "string"), ("z", "int32")]),
    ]
    assert await table.get({"id": 1}) == {
        **ROW,
        "st": {"b": "new", "a": 7, "deep": {"w": "y", "z": None}},
        "tags": [{"k": "v", "n": None}],
    }
    schema = await table.schema()
    assert schema.fields[1].type.fields[0].comment == "of b"  # type: ignore[union-attr]
    await table.drop_column("st.deep")
    assert (await names_of(table))["st"] == [("b", "string"), ("a", "int64")]


async def test_a_whole_name_goes_in_backticks() -> None:
    """A column whose name holds a dot is added, renamed and dropped in backticks or as a tuple."""
    table = await made()
    await table.add_column("`a.b`", "int")
    await table.add_column(("c.d",), "int", after="`a.b`")
    await table.add_column("st.`e.f`", "int")
    await table.rename_column("`a.b`", "`x.y`")
    await table.rename_column(("c.d",), "cd")
    assert list(await names_of(table)) == ["id", "st", "tags", "net.amount", "x.y", "cd"]
    assert [name for name, _ in (await names_of(table))["st"]] == ["a", "deep", "e.f"]
    await table.drop_column("`x.y`")
    await table.drop_column(("st", "e.f"))
    await table.rename_column("net.amount", "amount")  # there is nothing else that it could mean
    assert list(await names_of(table)) == ["id", "st", "tags", "amount", "cd"]


async def test_a_new_dotted_name_is_not_made_by_chance() -> None:
    """Without backticks, a name with a dot that leads nowhere is refused with the way out."""
    table = await made()
    with pytest.raises(InvalidInputError, match=r"no column 'sst' to add a field to\..*`sst\.b`"):
        await table.add_column("sst.b", "string")
    with pytest.raises(InvalidInputError, match=r"'x\.y' is a path and no name\..*`x\.y`"):
        await table.rename_column("id", "x.y")
    with pytest.raises(InvalidInputError, match="only structs have named fields"):
        await table.add_column("id.b", "string")
    with pytest.raises(InvalidInputError, match=r"'st\.q' is not there: there is no 'q'"):
        await table.drop_column("st.q")


async def test_no_column_can_be_taken_for_a_field() -> None:
    """A change or a new table that would make a name mean two things is refused."""
    table = await made()
    for call in (
        table.add_column("`st.a`", "int"),
        table.rename_column("net.amount", "`st.a`"),
        table.alter(AddColumn("net", "struct<amount:int>")),
    ):
        with pytest.raises(InvalidInputError, match="could not be told from the field"):
            await call
    with pytest.raises(InvalidInputError, match="could not be told from the field 'a' of column 'st'"):
        schema_from_arrow(SCHEMA.append(pa.field("st.a", pa.int32())))


def test_a_table_that_has_both_asks_which() -> None:
    """Of tables made before, the column is reached in backticks, and renamed, and then the field by path."""
    made = schema_from_arrow(SCHEMA.append(pa.field("other", pa.int32())), primary_key="id")
    fields = (*made.fields[:-1], dataclasses.replace(made.fields[-1], name="st.a"))
    both = dataclasses.replace(made, fields=fields)
    with pytest.raises(InvalidInputError, match=r"'st\.a' is a column of that name and the field 'a'"):
        evolve(both, [DropColumn("st.a")])
    assert evolve(both, [AddColumn("n", "int")]).arrow().names[-1] == "n"
    without = evolve(both, [DropColumn("`st.a`")])
    assert column_steps(without.fields, "st.a") == ("st", "a")


async def test_conditions_columns_and_indexes_go_by_the_same_rules() -> None:
    """A scan's condition, the columns it returns, a lookup's, and what an index is on."""
    table = await made(
        indexes={"st.deep.x": "bloom", "`net.amount`": "inverted"}, options={"index.min_rows": 1}
    )
    assert await table.scan("st.a = 7").count() == 1
    assert await table.scan("st.deep.x = 'y' and `net.amount` = 5").count() == 1
    assert await table.scan('"net.amount" = 6').count() == 0
    assert await table.scan(col("`net.amount`") == 5).count() == 1
    assert await table.delete("net.amount = 4") is not None
    for name in ("net.amount", "`net.amount`"):
        assert (await table.scan(columns=[name]).to_arrow()).column_names == ["net.amount"]
        assert await table.get({"id": 1}, columns=[name]) == {"net.amount": 5}
    with pytest.raises(InvalidInputError, match=r"column 'st\.a' is inside 'st': columns are read whole"):
        await table.scan(columns=["st.a"]).to_arrow()
    with pytest.raises(InvalidInputError, match="is named twice"):
        await table.scan(columns=["net.amount", "`net.amount`"]).to_arrow()
    await table.add_index("lower(st.deep.x)", "bloom")
    await table.add_index("st.a, `net.amount`", "bloom")
    with pytest.raises(InvalidInputError, match="which is no column"):
        await table.add_index("st.q", "bloom")


async def test_partitions_may_have_dotted_names() -> None:
    """A condition on a partition column in backticks takes whole partitions, as it does without a dot."""
    schema = pa.schema([("id", pa.int64()), ("net.amount", pa.int64())])
    table = await made(schema, partition_by="net.amount")
    assert (await table.overwrite([], "`net.amount` = 5")).changed
    assert await table.scan().count() == 0
