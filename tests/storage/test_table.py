"""The table as users hold it: who it is, which state its reads show, and what its calls refuse."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import lakehouse
from lakehouse.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lakehouse.storage.table import Table
from tests.kit.streaming import made, rows_of, some
from tests.kit.table_operations import SCHEMA
from tests.kit.worlds import NAME, table_of

KEYED = "rows move between partitions"


async def filled(layout: str = KEYED) -> Table:
    """A table with a row in snapshot 2, and another value of it in snapshot 3."""
    table = await table_of(await made(layout))
    await table.append(some((1, "a", 1)))
    await table.append(some((1, "a", 2)))
    return table


# --- who it is ------------------------------------------------------------------------


async def test_a_table_tells_who_it_is() -> None:
    """Name, identity and place are told without a request."""
    table = await table_of(await made())
    assert table.name == NAME
    assert table.location.startswith(table.core.env.store.url.rstrip("/") + "/db/")
    assert table.uuid.hex[:8] in table.location
    assert repr(table) == f"<Table {NAME} at {table.location}>"


async def test_a_table_travels_to_other_processes(tmp_path: Path) -> None:
    """A pickled table is the same table where it arrives, and connects when it is used."""
    async with lakehouse.connect(f"file://{tmp_path}") as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, SCHEMA, primary_key="id")
        there: Table = pickle.loads(pickle.dumps(table))
        assert (there.name, there.uuid, there.location) == (table.name, table.uuid, table.location)
        await there.append(some((1, "a", 1)))
        assert await rows_of(table) == [(1, "a", 1)]


# --- which state ----------------------------------------------------------------------


async def test_reads_show_the_state_that_is_named() -> None:
    """By number, tag or time, a scan and lookups of keys find what was there then; without, the newest."""
    table = await filled()
    await table.create_tag("first", snapshot=2)
    times = {row["snapshot"]: row["time"] for row in (await table.snapshots()).to_pylist()}
    named: list[dict[str, Any]] = [{"snapshot": 2}, {"tag": "first"}, {"timestamp": times[2]}]
    for value, state in [*((1, one) for one in named), (2, {})]:
        assert [row["v"] for row in await table.scan(**state).to_pylist()] == [value]
        assert await table.get({"id": 1}, columns=["v"], **state) == {"v": value}
        assert (await table.get_many([{"id": 1}, {"id": 9}], **state))["v"].to_pylist() == [value]


@pytest.mark.parametrize(
    "state",
    [
        {"snapshot": 2, "tag": "first"},
        {"snapshot": 2, "timestamp": 0},
        {"snapshot": 2, "freshness": "wal"},
        {"freshness": "newest"},
    ],
    ids=str,
)
async def test_a_read_is_of_one_state(state: dict[str, Any]) -> None:
    """Two states named at once, and a freshness that means nothing, are refused."""
    table = await filled()
    with pytest.raises(InvalidInputError):
        await table.get({"id": 1}, **state)
    with pytest.raises(InvalidInputError):
        await table.scan(**state).to_pylist()


async def test_a_key_without_a_row_gives_none() -> None:
    """A lookup of a key that is not there, or was deleted, is no error."""
    table = await filled()
    assert await table.get({"id": 7}) is None
    await table.delete(keys=[{"id": 1}])
    assert await table.get({"id": 1}) is None
    assert await table.get({"id": 1}, columns=["v"], snapshot=3) == {"v": 2}


async def test_the_schema_is_that_of_the_snapshot() -> None:
    """Without a number it is the newest one's."""
    table = await filled()
    await table.rename_column("v", "w")
    assert (await table.schema()).arrow().names == ["id", "part", "w"]
    assert (await table.schema(snapshot=3)).arrow().names == ["id", "part", "v"]
    assert await table.current_snapshot() == 4


# --- what is refused ------------------------------------------------------------------

NEEDS_KEY: dict[str, Callable[[Table], Awaitable[object]]] = {
    "upsert": lambda table: table.upsert(some((1, "a", 1))),
    "delete(keys=…)": lambda table: table.delete(keys=[{"id": 1}]),
    "on_conflict='error'": lambda table: table.append(some((1, "a", 1)), on_conflict="error"),
    "missing='keep'": lambda table: table.append([{"id": 1}], missing="keep"),
    "get": lambda table: table.get({"id": 1}),
}


@pytest.mark.parametrize("what", NEEDS_KEY)
async def test_what_goes_by_keys_needs_them(what: str) -> None:
    """A table without a primary key refuses calls that go by it, and says which."""
    table = await filled("append-only")
    with pytest.raises(InvalidInputError) as refused:
        await NEEDS_KEY[what](table)
    assert str(refused.value) == f"{what} needs a primary key, and {NAME} has none"
    assert await table.current_snapshot() == 3


WRONG: dict[str, Callable[[Table], Awaitable[object]]] = {
    "a condition or keys=": lambda table: table.delete(),
    "and one of them only": lambda table: table.delete("id = 1", keys=[{"id": 1}]),
    "on_conflict is 'update' or 'error', not 'ignore'": lambda table: table.append(
        [],
        on_conflict="ignore",  # type: ignore[arg-type]
    ),
    "rollback needs a snapshot, a timestamp or a tag": lambda table: table.rollback(),
    "message must be text": lambda table: table.append([], message="\ud800"),
    "writer must be": lambda table: table.overwrite([], writer=("", 1)),
}


@pytest.mark.parametrize("says", WRONG)
async def test_what_means_nothing_is_refused(says: str) -> None:
    """Arguments that contradict each other, or say nothing, are errors, and nothing is committed."""
    table = await filled()
    with pytest.raises(InvalidInputError, match=says):
        await WRONG[says](table)
    assert await table.current_snapshot() == 3


async def test_changes_go_forward() -> None:
    """From a later snapshot to an earlier one there are no changes: the error says to swap them."""
    table = await filled()
    with pytest.raises(InvalidInputError, match="from snapshot 3 to 2 go back: swap them"):
        [one async for one in table.changes(3, 2)]
    assert [one async for one in table.changes(3, 3) if one.num_rows] == []


async def test_rows_that_are_there_are_not_inserted() -> None:
    """A row whose key is there refuses the whole call; without such a row all are added."""
    table = await filled()
    with pytest.raises(AlreadyExistsError):
        await table.append(some((5, "a", 5), (1, "b", 9)), on_conflict="error")
    assert await rows_of(table) == [(1, "a", 2)]
    await table.append(some((5, "a", 5)), on_conflict="error")
    assert await rows_of(table) == [(1, "a", 2), (5, "a", 5)]


# --- tags, rollback -------------------------------------------------------------------


async def test_a_tag_names_the_newest_snapshot_unless_another_is_said() -> None:
    """A tag stays where it was made, is made anew only with ``replace``, and can be deleted."""
    table = await filled()
    await table.create_tag("now")
    await table.append(some((3, "a", 3)))
    assert await rows_at(table, "now") == [2]
    with pytest.raises(AlreadyExistsError):
        await table.create_tag("now", snapshot=2)
    await table.create_tag("now", snapshot=2, replace=True)
    assert await rows_at(table, "now") == [1]
    await table.delete_tag("now")
    with pytest.raises(NotFoundError, match="'now'"):
        await rows_at(table, "now")


async def rows_at(table: Table, tag: str) -> list[int]:
    """Values of the rows as of a tag."""
    return [row["v"] for row in await table.scan(tag=tag).to_pylist()]


@pytest.mark.parametrize("name", ["", "a/b", "x" * 2_000])
async def test_a_tag_has_a_name(name: str) -> None:
    """What cannot be a name is refused before anything is committed."""
    table = await filled()
    with pytest.raises(InvalidInputError):
        await table.create_tag(name)
    assert await table.current_snapshot() == 3


async def test_a_rollback_is_a_commit() -> None:
    """Rows and schema of the older state are the newest; what came between can be read still."""
    table = await filled()
    await table.rename_column("v", "w")
    done = await table.rollback(snapshot=2)
    assert (done.snapshot, done.changed) == (5, True)
    assert await rows_of(table) == [(1, "a", 1)]
    assert [row["w"] for row in await table.scan(snapshot=4).to_pylist()] == [2]


async def test_a_log_without_rows_needs_no_flush() -> None:
    """A flush of a table that has no rows in the log changes nothing."""
    table = await filled()
    assert not (await table.flush()).changed
    assert await table.current_snapshot() == 3


async def test_a_compaction_that_is_estimated_is_not_made() -> None:
    """A dry run counts the work; the real one does it, and the rows are the same."""
    table = await filled()
    would = await table.compact(full=True, dry_run=True)
    assert (would.units, would.changed, await table.current_snapshot()) == (1, False, 3)
    done = await table.compact(full=True)
    assert (done.units, done.rows_in, done.rows_out, done.changed) == (1, 2, 1, True)
    assert await rows_of(table) == [(1, "a", 2)]
