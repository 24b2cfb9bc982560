"""Changes of columns and options as methods of a table: each is one commit, and older rows stay readable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import TableOptions, TableSchema
from lakehouse.storage.schema.evolution import AddColumn, DropColumn, RenameColumn
from lakehouse.storage.table import Table
from lakehouse.storage.tables.commit_result import CommitResult
from tests.kit.worlds import NAME, process, restored

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("n", pa.int32()),
        pa.field("who", pa.struct({"name": pa.string()})),
        pa.field("must", pa.string(), nullable=False),
    ]
)
ROW = {"id": 1, "n": 7, "who": {"name": "p"}, "must": "m"}


async def made() -> Table:
    """A table of one row, in snapshot 2."""
    lake = process(await restored({}))
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    await table.append([ROW])
    return table


def names(schema: TableSchema) -> list[str]:
    """Names of the columns, in order."""
    return list(schema.arrow().names)


Change = tuple[Callable[[Table], Awaitable[CommitResult]], Callable[[TableSchema], object], object]
CHANGES: dict[str, Change] = {
    "add a column": (
        lambda t: t.add_column("b", "bigint", default=5, after="id"),
        names,
        ["id", "b", "n", "who", "must"],
    ),
    "add the first column": (
        lambda t: t.add_column("b", pa.float64(), comment="new", first=True),
        lambda s: (names(s)[0], s.fields[0].comment, s.arrow().types[0]),
        ("b", "new", pa.float64()),
    ),
    "add a required column": (
        lambda t: t.add_column("b", "int", required=True, default=5),
        lambda s: (s.fields[-1].name, s.fields[-1].required, s.fields[-1].write_default),
        ("b", True, 5),
    ),
    "add a field of a struct": (
        lambda t: t.add_column(("who", "age"), "int"),
        lambda s: s.arrow().field("who").type,
        pa.struct({"name": pa.string(), "age": pa.int32()}),
    ),
    "drop a column": (lambda t: t.drop_column("n"), names, ["id", "who", "must"]),
    "rename a column": (lambda t: t.rename_column("n", "m"), names, ["id", "m", "who", "must"]),
    "move a column": (lambda t: t.move_column("must", first=True), names, ["must", "id", "n", "who"]),
    "move a column behind another": (
        lambda t: t.move_column("id", after="n"),
        names,
        ["n", "id", "who", "must"],
    ),
    "widen a column": (
        lambda t: t.widen_column("n", "bigint"),
        lambda s: s.arrow().field("n").type,
        pa.int64(),
    ),
    "make a column optional": (lambda t: t.make_optional("must"), lambda s: s.field("must").required, False),
    "set a default": (lambda t: t.set_default("n", 3), lambda s: s.field("n").write_default, 3),
    "describe the table": (lambda t: t.set_comment("people"), lambda s: s.comment, "people"),
    "describe a column": (
        lambda t: t.set_comment("how many", column="n"),
        lambda s: (s.comment, s.field("n").comment),
        (None, "how many"),
    ),
    "set an option": (
        lambda t: t.set_option("commit.max_retries", 3),
        lambda s: TableOptions.parse(s.options).commit_max_retries,
        3,
    ),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_each_change_is_one_commit(what: str) -> None:
    """One snapshot changes the schema as was asked; the row from before is read, and none is written."""
    table = await made()
    change, seen, wanted = CHANGES[what]
    assert seen(await table.schema()) != wanted
    done = await change(table)
    assert (done.snapshot, done.changed, done.rows, done.files) == (3, True, 0, 0)
    assert seen(await table.schema()) == wanted
    assert [row["id"] for row in await table.scan().to_pylist()] == [1]
    assert await table.scan(snapshot=2).to_pylist() == [ROW]


async def test_an_option_that_is_unset_has_its_default_back() -> None:
    """What was set is not in the schema any more."""
    table = await made()
    await table.set_option("commit.max_retries", 3)
    await table.unset_option("commit.max_retries")
    assert "commit.max_retries" not in (await table.schema()).options


async def test_several_changes_are_one_commit() -> None:
    """Changes that are made together are made in their order, in one snapshot."""
    table = await made()
    done = await table.alter(RenameColumn("n", "m"), AddColumn("n", "string"), DropColumn("who"))
    assert done.snapshot == 3
    assert await table.scan().to_pylist() == [{"id": 1, "m": 7, "must": "m", "n": None}]


async def test_changes_are_made_all_or_not_at_all() -> None:
    """When one of several is refused, none is made."""
    table = await made()
    with pytest.raises(InvalidInputError, match="cannot be dropped"):
        await table.alter(AddColumn("b", "int"), DropColumn("id"))
    assert await table.current_snapshot() == 2
    assert names(await table.schema()) == SCHEMA.names
