"""Tables whose schema changes: what older rows look like, what writers that do not know it yet do."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import AlreadyExistsError, ConflictError, InvalidInputError
from lakehouse.io import ObjectStore
from lakehouse.storage.schema.evolution import AddColumn, DropColumn, MakeRequired, RenameColumn, WidenColumn
from lakehouse.storage.table import Table
from lakehouse.testing import RecordingStore
from tests.kit.worlds import NAME, Row, StepIn, process, restored, table_of

PERSON = pa.struct([pa.field("name", pa.string()), pa.field("age", pa.int8())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("day", pa.date32()),
        pa.field("n", pa.int32()),
        pa.field("x", pa.float32()),
        pa.field("price", pa.decimal128(6, 2)),
        pa.field("who", PERSON),
        pa.field("tags", pa.list_(PERSON)),
        pa.field("must", pa.string(), nullable=False),
    ]
)
DAY = dt.date(2026, 1, 31)


def row(number: int, **about: Any) -> Row:
    """A row."""
    full = {
        "id": number,
        "day": DAY,
        "n": number * 10,
        "x": number / 2,
        "price": decimal.Decimal(number),
        "who": {"name": f"p{number}", "age": number},
        "tags": [{"name": f"t{number}", "age": None}],
        "must": "m",
    }
    return {**full, **about}


def renamed(given: Row, **names: str | None) -> Row:
    """The row with other names for some columns, and without those that have none."""
    return {
        names.get(name, name): value  # type: ignore[misc]
        for name, value in given.items()
        if names.get(name, name) is not None
    }


@pytest.fixture(params=["parquet", "sst"])
async def table(request: pytest.FixtureRequest) -> Table:
    """A table of two rows, in snapshot 2."""
    lake = process(await restored({}))
    await lake.create_database("db")
    made = await lake.create_table(
        NAME,
        SCHEMA,
        primary_key=["id", "day"],
        partition_by="day",
        bucket=2,
        options={"file.format.level0": request.param},
    )
    await made.append([row(1), row(2)])
    return made


async def rows_of(table: Table, *columns: str, **at: Any) -> list[tuple[Any, ...]]:
    """Values of these columns by key."""
    found = await table.scan(**at).to_pylist()
    keyed = sorted(found, key=lambda one: next(iter(one.values())))
    return [tuple(one[name] for name in columns) for one in keyed]


async def test_every_snapshot_reads_with_its_own_schema(table: Table) -> None:
    """Columns, their names, types and order are those of the snapshot, whatever came later."""
    await table.rename_column("n", "m")
    await table.widen_column("m", "bigint")
    await table.drop_column("x")
    await table.move_column("who", first=True)
    await table.append([renamed(row(3, n=2**40), n="m", x=None)])
    names = {number: (await table.scan(snapshot=number).to_arrow()).schema for number in range(2, 8)}
    assert names[2].names == SCHEMA.names
    assert names[3].names == ["id", "day", "m", "x", "price", "who", "tags", "must"]
    assert [names[n].field("m").type for n in (3, 4)] == [pa.int32(), pa.int64()]
    assert names[5].names == ["id", "day", "m", "price", "who", "tags", "must"]
    assert names[7].names == ["who", "id", "day", "m", "price", "tags", "must"]
    assert await rows_of(table, "n", "x", snapshot=2) == [(10, 0.5), (20, 1.0)]
    assert sorted(one["m"] for one in await table.scan().to_pylist()) == [10, 20, 2**40]


async def test_every_snapshot_has_its_schema(table: Table) -> None:
    """``schema(snapshot=…)`` says what that snapshot reads with; ``schemas()`` lists them in order."""
    await table.rename_column("n", "m")
    await table.drop_column("x")
    assert (await table.schema(snapshot=2)).arrow().names == SCHEMA.names
    assert "m" in (await table.schema(snapshot=3)).arrow().names
    assert [one["schema"] for one in (await table.schemas()).to_pylist()] == [0, 1, 2]


async def test_a_new_column_has_its_default_in_old_rows(table: Table) -> None:
    """Rows from before have the default the column was added with, also after it changes for new ones."""
    await table.add_column("c", "varchar(5)", default="old", required=True)
    await table.set_default("c", "new")
    await table.append([row(3)])
    assert await rows_of(table, "c") == [("old",), ("old",), ("new",)]
    assert (await table.get({"id": 1, "day": DAY}))["c"] == "old"
    assert await rows_of(table, "id", where="c = 'old'") == [(1,), (2,)]
    await table.set_default("c", None)
    with pytest.raises(InvalidInputError, match="'c'"):
        await table.append([row(4)])


async def test_a_dropped_column_does_not_come_back(table: Table) -> None:
    """A column added under the name of a dropped one is another column, of whatever type."""
    await table.drop_column("n")
    await table.add_column("n", "string")
    assert await rows_of(table, "n") == [(None,), (None,)]
    await table.upsert([row(1, n="again")])
    assert await rows_of(table, "n") == [("again",), (None,)]
    assert await rows_of(table, "id", where="n IS NULL") == [(2,)]
    assert await rows_of(table, "n", snapshot=2) == [(10,), (20,)]


async def test_wider_types_hold_old_values(table: Table) -> None:
    """Values written under a narrower type are the same under the wider one, and are found by it."""
    await table.alter(
        WidenColumn("n", "bigint"),
        WidenColumn("x", "double"),
        WidenColumn("price", "decimal(20,2)"),
        WidenColumn(("who", "age"), "int"),
        WidenColumn(("tags", "element", "age"), "bigint"),
    )
    big = row(3, n=2**50, x=1e300, price=decimal.Decimal(10**17), who={"name": "x", "age": 2**30})
    await table.append([big])
    assert await rows_of(table, "n", "x") == [(10, 0.5), (20, 1.0), (2**50, 1e300)]
    assert await rows_of(table, "id", where="n > 10") == [(2,), (3,)]
    assert await rows_of(table, "id", where="x = 0.5") == [(1,)]
    assert await rows_of(table, "id", where="price <= 2.00") == [(1,), (2,)]
    assert [one[0]["age"] for one in await rows_of(table, "who")] == [1, 2, 2**30]


async def test_key_columns_widen_and_are_renamed(table: Table) -> None:
    """Old files are found by the key under its new name and type, and new rows replace old ones."""
    await table.alter(WidenColumn("id", "bigint"), RenameColumn("id", "number"), RenameColumn("day", "date"))
    later = [row(2, n=-1), {**row(3, n=0), "id": 2**40}]
    await table.upsert([renamed(one, id="number", day="date") for one in later])
    assert await rows_of(table, "number", "n") == [(1, 10), (2, -1), (2**40, 0)]
    assert (await table.get({"number": 1, "date": DAY}))["n"] == 10
    assert (await table.get({"number": 2, "date": DAY}))["n"] == -1
    await table.delete(keys=[{"number": 1, "date": DAY}])
    await table.delete("number = 2")
    assert await rows_of(table, "number") == [(2**40,)]
    assert (await table.get({"id": 1, "day": DAY}, snapshot=2))["n"] == 10
    assert (await table.partitions()).num_rows == 1


async def test_nested_fields_come_and_go(table: Table) -> None:
    """Fields of structs, also inside lists, are added, renamed and dropped like columns."""
    await table.add_column(("who", "mail"), "string", default="none")
    await table.add_column(("tags", "element", "weight"), "int", default=7)
    await table.rename_column(("who", "age"), "years")
    await table.drop_column(("tags", "element", "name"))
    await table.append([row(3, who={"name": "c", "years": 3, "mail": "c@d"}, tags=[{"age": 1, "weight": 2}])])
    assert await rows_of(table, "who", "tags") == [
        ({"name": "p1", "years": 1, "mail": "none"}, [{"age": None, "weight": 7}]),
        ({"name": "p2", "years": 2, "mail": "none"}, [{"age": None, "weight": 7}]),
        ({"name": "c", "years": 3, "mail": "c@d"}, [{"age": 1, "weight": 2}]),
    ]
    assert (await rows_of(table, "who", snapshot=2))[0] == ({"name": "p1", "age": 1},)


async def test_an_optional_column_takes_nulls(table: Table) -> None:
    """A required column takes nulls once it is optional, and not before."""
    with pytest.raises(InvalidInputError, match="'must'"):
        await table.append([row(3, must=None)])
    await table.make_optional("must")
    await table.append([row(3, must=None)])
    assert await rows_of(table, "must") == [("m",), ("m",), (None,)]


async def test_comments_are_kept(table: Table) -> None:
    """Comments of the table, of a column and of a field stand in the schema."""
    await table.set_comment("people")
    await table.set_comment("how many", column="n")
    await table.set_comment("in years", column=("who", "age"))
    schema = await table.schema()
    assert (schema.comment, schema.field("n").comment) == ("people", "how many")
    assert schema.field("who").type.fields[1].comment == "in years"


REFUSED: list[tuple[Callable[[Table], Awaitable[object]], str]] = [
    (lambda t: t.drop_column("id"), "'id' is a primary key column and cannot be dropped"),
    (lambda t: t.drop_column("day"), "'day' is a (primary key|partition) column and cannot be dropped"),
    (lambda t: t.drop_column("nn"), "'nn' is not there.*did you mean 'n'"),
    (lambda t: t.drop_column(("tags", "element")), "part of array<"),
    (lambda t: t.rename_column("n", "X"), "cannot have the name 'X': 'x' is there"),
    (lambda t: t.rename_column("n", "_VALUE_KIND"), "reserved"),
    (lambda t: t.add_column("N", "int"), "cannot have the name 'N': 'n' is there"),
    (lambda t: t.add_column("c", "int", required=True), "must not be null, so it needs a default"),
    (lambda t: t.add_column("c", "int", default="x"), "default of column 'c'"),
    (lambda t: t.add_column("c", "intt"), "did you mean 'int'"),
    (lambda t: t.widen_column("n", "smallint"), "'n' is int and cannot become smallint"),
    (lambda t: t.widen_column("n", "string"), "'n' is int and cannot become string"),
    (lambda t: t.widen_column("price", "decimal(8,3)"), r"cannot become decimal\(8,3\)"),
    (lambda t: t.make_optional("id"), "'id' is a primary key column and cannot become optional"),
    (lambda t: t.alter(MakeRequired("n")), "'n' is optional and cannot become required"),
    (lambda t: t.move_column("n"), "say one of the two"),
    (lambda t: t.set_default("n", "x"), "default of column 'n'"),
    (lambda t: t.set_comment("c", column="nn"), "'nn' is not there"),
    (lambda t: t.set_option("merge_engine", "aggregation"), "'merge_engine'"),
    (lambda t: t.set_option("primary_key", "n"), "the primary key of a table is no option"),
    (lambda t: t.set_option("partition_by", "n"), "the partitioning of a table is no option"),
    (lambda t: t.set_option("buckets", 3), "the number of buckets of a table is no option"),
    (lambda t: t.set_option("sst.codek", "zstd"), "did you mean 'sst.codec'"),
    (lambda t: t.set_option("sst.codec", "gzip"), "must be one of none, snappy, lz4, zstd"),
    (lambda t: t.unset_option("bucket"), "the number of buckets of a table is no option"),
    (lambda t: t.alter(), "no changes were given"),
    (lambda t: t.alter(AddColumn("c", "int"), DropColumn("id")), "cannot be dropped"),
]


@pytest.mark.parametrize(("call", "says"), REFUSED, ids=[says[:40] for _, says in REFUSED])
async def test_what_may_not_change(call: Callable[[Table], Awaitable[object]], says: str) -> None:
    """A change that is refused names what it is about, makes no snapshot and leaves no object."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    made = await lake.create_table(NAME, SCHEMA, primary_key=["id", "day"], partition_by="day")
    before = [one.key async for one in store.list("")]
    with pytest.raises(InvalidInputError, match=says):
        await call(made)
    assert await made.current_snapshot() == 1
    assert [one.key async for one in store.list("")] == before


async def test_a_change_that_changes_nothing_makes_no_snapshot(table: Table) -> None:
    """Saying again what is so already leaves the newest snapshot as it is."""
    await table.set_option("sst.codec", "zstd")
    for done in (
        await table.set_option("sst.codec", "zstd"),
        await table.unset_option("point_reads"),
        await table.make_optional("n"),
        await table.rename_column("n", "n"),
    ):
        assert not done.changed
    assert await table.current_snapshot() == 3


async def test_options_take_effect_with_the_next_write(table: Table) -> None:
    """An option that is set changes what is written from then on, until it is unset; files stay."""
    first = {one["format"] for one in (await table.files()).to_pylist()}.pop()
    other = {"sst": "parquet", "parquet": "sst"}[first]
    await table.set_option("file.format.level0", other)
    await table.append([row(3)])
    await table.unset_option("file.format.level0")
    await table.append([row(4)])
    found = {one["snapshot"]: one["format"] for one in (await table.files()).to_pylist()}
    assert [found[number] for number in sorted(found)] == [first, other, "parquet"]
    assert len(await rows_of(table, "id")) == 4


async def test_a_layout_option_may_be_said_again(table: Table) -> None:
    """An option that is fixed may be set to what it is."""
    await table.set_option("merge_engine", "deduplicate")
    with pytest.raises(InvalidInputError, match="'merge_engine'"):
        await table.set_option("merge_engine", "aggregation")


# --- others at the same time ----------------------------------------------------------


async def raced(store: ObjectStore, act: Callable[[Table], Awaitable[object]], *, number: int = 0) -> Table:
    """The table of a process whose snapshot is created right after another process has acted."""
    hooked = StepIn(store)
    table, other = await table_of(hooked), await table_of(store)
    await table.current_snapshot()

    async def step_in() -> None:
        await act(other)

    hooked.before(number, "/snapshot/", step_in, verb="put_if_absent")
    return table


async def small() -> ObjectStore:
    """A table of two columns and one row, in snapshot 2."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    made = await lake.create_table(NAME, pa.schema({"id": pa.int64(), "v": pa.int32()}), primary_key="id")
    await made.append([{"id": 1, "v": 1}])
    return store


async def test_two_changes_at_once_are_both_made() -> None:
    """A change that comes second is made to the schema that the first one made."""
    store = await small()
    table = await raced(store, lambda other: other.add_column("theirs", "int"))
    done = await table.add_column("mine", "int")
    assert done.attempts == 2
    schema = await table.schema()
    assert schema.arrow().names == ["id", "v", "theirs", "mine"]
    assert [field.id for field in schema.fields] == [1, 2, 3, 4]
    assert schema.id == 2


async def test_a_change_that_does_not_fit_any_more_is_refused() -> None:
    """Of two processes that add a column of one name, the second one is told that it is there."""
    store = await small()
    table = await raced(store, lambda other: other.add_column("c", "int"))
    with pytest.raises(InvalidInputError, match="'c' is there"):
        await table.add_column("c", "string")
    assert (await table.schema()).id == 1


async def test_many_changes_at_once_are_all_made() -> None:
    """Eight processes that add a column each: all are there, each with an id of its own."""
    store = await small()
    tables = [await table_of(store) for _ in range(8)]
    await asyncio.gather(*(one.add_column(f"c{n}", "int") for n, one in enumerate(tables)))
    schema = await (await table_of(store)).schema()
    assert sorted(schema.arrow().names) == sorted(["id", "v", *(f"c{n}" for n in range(8))])
    assert sorted(field.id for field in schema.fields) == list(range(1, 11))


CHANGES: dict[str, tuple[Callable[[Table], Awaitable[object]], list[Row]]] = {
    "add": (
        lambda other: other.add_column("c", "int", default=5),
        [{"id": 1, "v": 1, "c": 5}, {"id": 2, "v": 2, "c": 5}],
    ),
    "drop": (lambda other: other.drop_column("v"), [{"id": 1}, {"id": 2}]),
    "rename": (lambda other: other.rename_column("v", "w"), [{"id": 1, "w": 1}, {"id": 2, "w": 2}]),
    "rename key": (lambda other: other.rename_column("id", "k"), [{"k": 1, "v": 1}, {"k": 2, "v": 2}]),
    "widen": (lambda other: other.widen_column("v", "bigint"), [{"id": 1, "v": 1}, {"id": 2, "v": 2}]),
    "exchange": (
        lambda other: other.alter(DropColumn("v"), AddColumn("v", "string", default="-")),
        [{"id": 1, "v": "-"}, {"id": 2, "v": "-"}],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_rows_written_under_the_schema_before_are_committed(change: str) -> None:
    """Rows that were prepared when a change was made are read through it, like all older ones."""
    act, wanted = CHANGES[change]
    store = await small()
    table = await raced(store, act)
    await table.upsert([{"id": 2, "v": 2}])
    found = await (await table_of(store)).scan().to_pylist()
    assert sorted(found, key=str) == wanted


async def test_a_writer_learns_of_a_change_by_its_next_commit() -> None:
    """A process that does not know of a new column writes it as soon as it has seen the change."""
    store = await small()
    table = await table_of(store)
    await table.current_snapshot()
    await (await table_of(store)).add_column("c", "int", default=5)
    await table.upsert([{"id": 2, "v": 2, "c": 2}])
    await table.upsert([{"id": 3, "v": 3, "c": 3}])
    assert await rows_of(table, "id", "c") == [(1, 5), (2, 2), (3, 3)]


async def test_rows_under_a_schema_that_was_undone_are_written_again() -> None:
    """When a rollback undoes the schema that rows were written with, they are written with the newest."""
    store = await small()
    await (await table_of(store)).add_column("c", "int", default=5)
    table = await raced(store, lambda other: other.rollback(snapshot=2))
    calls = RecordingStore(store)
    await table.upsert([{"id": 2, "v": 2}])
    found = await (await table_of(calls)).scan().to_pylist()
    assert sorted(found, key=str) == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]
    assert {one["schema"] for one in (await table.files()).to_pylist()} == {0, 2}


async def test_rows_that_can_be_read_once_are_refused_under_a_schema_that_was_undone() -> None:
    """Rows of a stream cannot be written again: ConflictError says so, and nothing of them is left."""
    store = await small()
    await (await table_of(store)).add_column("c", "int", default=5)
    table = await raced(store, lambda other: other.rollback(snapshot=2))
    before = {one.key async for one in store.list("") if "/data/" in one.key}

    def stream() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"id": 2, "v": 2, "c": 3}])

    with pytest.raises(ConflictError, match="a rollback has undone it"):
        await table.upsert(stream())
    assert await rows_of(table, "id", "v") == [(1, 1)]
    assert {one.key async for one in store.list("") if "/data/" in one.key} == before


async def test_a_column_after_a_rollback_is_a_new_one() -> None:
    """Ids of columns that a rollback undid are not given out again: late files cannot be misread."""
    store = await small()
    table = await table_of(store)
    await table.add_column("c", "int", default=5)
    await table.upsert([{"id": 2, "v": 2, "c": 22}])
    late = await table.current_snapshot()
    await table.rollback(snapshot=2)
    await table.add_column("d", "int", default=6)
    schema = await table.schema()
    assert (schema.id, schema.field("d").id) == (3, 4)
    assert await rows_of(table, "id", "d") == [(1, 6)]
    assert await rows_of(table, "id", "c", snapshot=late) == [(1, 5), (2, 22)]
    await table.rollback(snapshot=late)
    assert await rows_of(table, "id", "c") == [(1, 5), (2, 22)]
    assert (await table.schema()).id == 4


async def test_a_delete_is_decided_again_under_a_new_schema() -> None:
    """A condition speaks of the columns there are when it is committed."""
    store = await small()
    exchange = RenameColumn("v", "w"), AddColumn("v", "int", default=9)
    table = await raced(store, lambda other: other.alter(*exchange))
    done = await table.delete("v = 1")
    assert not done.changed
    table = await raced(store, lambda other: other.rename_column("v", "u"))
    with pytest.raises(InvalidInputError, match="'v'"):
        await table.delete("v = 9")
    assert await rows_of(await table_of(store), "id", "w", "u") == [(1, 1, 9)]


async def test_an_insert_is_decided_again_under_a_new_key_name() -> None:
    """An insert that meets a rename of the key column does not miss the keys that come with it."""
    store = await small()

    async def act(other: Table) -> None:
        await other.rename_column("id", "k")
        await other.upsert([{"k": 2, "v": 2}])

    table = await raced(store, act)
    with pytest.raises((AlreadyExistsError, InvalidInputError)):
        await table.append([{"id": 2, "v": 3}], on_conflict="error")
    assert await rows_of(await table_of(store), "k", "v") == [(1, 1), (2, 2)]
