"""Text that UTF-8 does not have, and names that a path has no room for, are refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.lake import Lake
from lakehouse.storage.schema.evolution import AddColumn
from lakehouse.storage.table import Table
from lakehouse.testing import memory_store
from tests.kit.worlds import NAME, process, saved

HALF = "a\ud800"
SCHEMA = pa.schema({"id": pa.string(), "v": pa.int64()})
ROW = {"id": "x", "v": 1}


async def put(table: Table, row: dict[str, Any]) -> None:
    """Writes a row through the log."""
    async with table.writer() as writer:
        await (await writer.put([row]))


CALLS: dict[str, Callable[[Lake, Table], Awaitable[Any]]] = {
    "comment of a database": lambda lake, table: lake.create_database("d2", comment=HALF),
    "name of a database": lambda lake, table: lake.create_database(HALF),
    "name of a table": lambda lake, table: lake.create_table(f"db.{HALF}", SCHEMA),
    "open": lambda lake, table: lake.table(f"db.{HALF}"),
    "rename": lambda lake, table: lake.rename_table(NAME, f"db.{HALF}"),
    "comment of a table": lambda lake, table: lake.create_table("db.u", SCHEMA, comment=HALF),
    "option": lambda lake, table: lake.create_table("db.u", SCHEMA, options={"sequence.field": HALF}),
    "primary key": lambda lake, table: lake.create_table("db.u", SCHEMA, primary_key=HALF),
    "index": lambda lake, table: lake.create_table("db.u", SCHEMA, indexes={HALF: "bloom"}),
    "message": lambda lake, table: table.upsert([ROW], message=HALF),
    "message of a delete": lambda lake, table: table.delete(where="v = 1", message=HALF),
    "message of an overwrite": lambda lake, table: table.overwrite([ROW], message=HALF),
    "writer": lambda lake, table: table.upsert([ROW], writer=(HALF, 1)),
    "row": lambda lake, table: table.upsert([{"id": HALF, "v": 1}]),
    "put": lambda lake, table: put(table, {"id": HALF, "v": 1}),
    "key to delete": lambda lake, table: table.delete(keys=[{"id": HALF}]),
    "key to get": lambda lake, table: table.get({"id": HALF}),
    "keys to get": lambda lake, table: table.get_many([{"id": HALF}]),
    "where": lambda lake, table: table.scan(where=f"id = '{HALF}'").to_arrow(),
    "where, a name": lambda lake, table: table.scan(where=f'"{HALF}" = 1').to_arrow(),
    "expression": lambda lake, table: table.scan(where=lakehouse.col("id") == HALF).to_arrow(),
    "delete where": lambda lake, table: table.delete(where=f"id = '{HALF}'"),
    "columns": lambda lake, table: table.scan(columns=[HALF]).to_arrow(),
    "tag": lambda lake, table: table.create_tag(HALF),
    "tag to read": lambda lake, table: table.scan(tag=HALF).to_arrow(),
    "column": lambda lake, table: table.add_column(HALF, "int"),
    "comment of a column": lambda lake, table: table.alter(AddColumn("c", "int", comment=HALF)),
    "default": lambda lake, table: table.alter(AddColumn("c", "string", default=HALF)),
    "type": lambda lake, table: table.add_column("c", f"struct<`{HALF}`: int>"),
    "new name": lambda lake, table: table.rename_column("v", HALF),
    "table comment": lambda lake, table: table.set_comment(HALF),
    "option of a table": lambda lake, table: table.set_option("fields.v.delimiter", HALF),
    "index to add": lambda lake, table: table.add_index("lower(" + HALF + ")", "bloom"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_halves_of_surrogate_pairs_are_refused(name: str) -> None:
    """A text that is no UTF-8 is refused wherever a text is taken, before anything is stored."""
    store = memory_store()
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id")
    await table.append([ROW])
    before = set(await saved(store))
    with pytest.raises((InvalidInputError, NotFoundError)):
        await CALLS[name](lake, table)
    after = set(await saved(store))
    # A writer that was opened has begun the log.
    assert after == before or name == "put"


def paths_below(folder: Path) -> set[Path]:
    """Every file and folder in a folder."""
    return set(folder.rglob("*"))


@pytest.mark.parametrize("what", ["database", "table", "tag"])
async def test_names_are_bounded_in_bytes(what: str, tmp_path: Path) -> None:
    """A name that a path has no room for is refused before anything is stored; the longest one works."""
    good, bad = "ä" * 80, "ä" * 127
    async with lakehouse.connect(tmp_path.as_uri()) as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, SCHEMA, primary_key="id")
        await table.append([ROW])
        before = paths_below(tmp_path)
        makers: dict[str, Callable[[str], Awaitable[Any]]] = {
            "database": lake.create_database,
            "table": lambda name: lake.create_table(f"db.{name}", SCHEMA, primary_key="id"),
            "tag": table.create_tag,
        }
        with pytest.raises(InvalidInputError, match="160 bytes"):
            await makers[what](bad)
        assert paths_below(tmp_path) == before
        await makers[what](good)
        if what == "table":
            made = await lake.table(f"db.{good}")
            await made.append([ROW])
            assert await made.scan().count() == 1
        if what == "database":
            assert good in await lake.databases()


async def test_longer_names_that_are_there_already_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer name from an earlier release is opened, listed, dropped, brought back, renamed and deleted."""
    long, store = "ä" * 127, memory_store()
    name = f"{long}.{long}"
    with monkeypatch.context() as earlier:
        earlier.setattr("lakehouse.storage.metadata.table_name._NAME_BYTES_MAX", 1_000)
        lake = process(store)
        await lake.create_database(long)
        table = await lake.create_table(name, SCHEMA, primary_key="id")
        await table.append([ROW])
        await table.create_tag(long)
    lake = process(store)
    assert await lake.databases() == [long]
    assert [one async for one in lake.tables(long)] == [name]
    table = await lake.table(name)
    assert await table.scan(tag=long).count() == 1
    await table.delete_tag(long)
    await lake.drop_table(name)
    await lake.undrop_table(name)
    with pytest.raises(InvalidInputError, match="160 bytes"):
        await lake.rename_table(name, f"{long}.{long[1:]}")
    await lake.rename_table(name, f"{long}.short")
    await lake.create_table(f"{long}.second", SCHEMA, primary_key="id")
    await lake.drop_database(long, cascade=True)
    assert await lake.databases() == []


async def test_a_long_name_that_nothing_has_is_not_found(tmp_path: Path) -> None:
    """On a file system a name that no path has room for is one that nothing has."""
    async with lakehouse.connect(tmp_path.as_uri()) as lake:
        await lake.create_database("db")
        with pytest.raises(NotFoundError):
            await lake.table("db." + "ä" * 127)


@pytest.mark.parametrize("name", [None, 5, b"db.t", "", "t", "db.", ".t"])
async def test_what_is_no_name_is_refused(name: Any) -> None:
    """A name of another kind is refused with an error of ours."""
    lake = process(memory_store())
    with pytest.raises(InvalidInputError):
        await lake.table(name)
