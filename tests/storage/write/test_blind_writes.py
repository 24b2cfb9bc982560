"""Writes that add rows without a look at older ones: which row of a key stays, and what is read."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import CommitKind
from lakehouse.storage.table import Table
from lakehouse.storage.write.blind_writes import BlindWrite
from lakehouse.testing import RecordingStore
from tests.kit.streaming import made, rows_of, some
from tests.kit.table_operations import LAYOUTS, SCHEMA
from tests.kit.worlds import NAME, process, restored, table_of

FIRST = some((1, "a", 10), (2, "a", 20), (3, "b", 30))
KEYED = [layout for layout in LAYOUTS if layout != "append-only"]


async def filled(layout: str = "rows move between partitions") -> tuple[Table, RecordingStore]:
    """A table of three rows, and the store that notes its requests."""
    store = RecordingStore(await made(layout))
    table = await table_of(store)
    await table.append(FIRST)
    store.clear()
    return table, store


async def write(table: Table, data: object, **how: Any) -> Any:
    """Makes a blind write, of appended rows unless something else is said."""
    return await BlindWrite(table.core, data, **{"kind": CommitKind.APPEND, **how}).run()


async def newest(table: Table) -> dict[str, Any]:
    """What the snapshots relation tells of the newest snapshot."""
    return (await table.snapshots()).to_pylist()[-1]


@pytest.mark.parametrize("layout", KEYED)
async def test_the_last_row_of_a_key_stays(layout: str) -> None:
    """Of the rows of a key in one call, and in calls after each other, the last one is read."""
    table, _ = await filled(layout)
    done = await write(table, some((2, "a", 1), (4, "b", 4), (2, "a", 2)), kind=CommitKind.UPSERT)
    assert (done.changed, done.rows) == (True, 3)
    assert await rows_of(table) == [(1, "a", 10), (2, "a", 2), (3, "b", 30), (4, "b", 4)]
    await write(table, some((2, "a", 3)))
    assert (2, "a", 3) in await rows_of(table)


async def test_rows_without_a_key_are_all_there() -> None:
    """A table without a key has every row that was added, the same ones too."""
    table, _ = await filled("append-only")
    await write(table, FIRST)
    assert await rows_of(table) == sorted([*(tuple(row.values()) for row in FIRST)] * 2)


async def test_no_older_row_is_read() -> None:
    """Rows are added, and keys deleted, without a request for a data file that is there."""
    table, store = await filled()
    await write(table, some((1, "b", 11)), kind=CommitKind.UPSERT)
    await write(table, [{"id": 2}], kind=CommitKind.DELETE, deletes=True)
    assert {call.verb for call in store.calls if "/data/" in call.key} == {"put"}


async def test_keys_are_deleted_whatever_partition_they_are_in() -> None:
    """Rows of the keys are gone, keys that are not there change nothing, and the commit is a delete."""
    table, _ = await filled()
    await write(table, [{"id": 3}, {"id": 1}, {"id": 77}], kind=CommitKind.DELETE, deletes=True)
    assert await rows_of(table) == [(2, "a", 20)]
    assert (await newest(table))["kind"] == "delete"


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_older_rows_are_replaced_in_one_commit(layout: str) -> None:
    """A write that clears leaves its own rows alone, and older snapshots as they are."""
    table, _ = await filled(layout)
    before = await table.current_snapshot()
    done = await write(table, some((9, "b", 9)), kind=CommitKind.OVERWRITE, clears=True)
    assert done.snapshot == before + 1
    assert await rows_of(table) == [(9, "b", 9)]
    assert await table.scan(snapshot=before).count() == 3


async def merged(**options: str) -> tuple[Table, RecordingStore]:
    """The same rows in a table with a merge engine."""
    store = RecordingStore(await restored({}))
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key="id", options=options)
    await table.append(FIRST)
    store.clear()
    return table, store


async def test_an_engine_that_keeps_values_is_not_read_for_them() -> None:
    """Where the engine itself takes null for no change, values are kept without a look at older rows."""
    table, store = await merged(merge_engine="partial-update")
    await write(table, [{"id": 2, "v": 5}], kind=CommitKind.UPSERT, missing="keep")
    assert {call.verb for call in store.calls if "/data/" in call.key} == {"put"}
    assert (2, "a", 5) in await rows_of(table)


async def test_an_engine_that_would_store_null_refuses_to_keep() -> None:
    """A column in which the engine takes null for a value is named, and nothing is written."""
    options = {"merge_engine": "aggregation", "fields.v.aggregate": "last_value"}
    table, store = await merged(**options)
    with pytest.raises(InvalidInputError, match="'v'"):
        await write(table, [{"id": 2, "part": "a"}], kind=CommitKind.UPSERT, missing="keep")
    assert not [call for call in store.calls if call.verb.startswith("put")]


async def test_values_are_kept_by_a_look_at_older_rows() -> None:
    """In a plain table a write that keeps values reads the rows of its keys."""
    table, store = await filled()
    await write(table, [{"id": 2, "v": 5}], kind=CommitKind.UPSERT, missing="keep")
    assert (2, "a", 5) in await rows_of(table)
    assert {call.verb for call in store.calls if "/data/" in call.key} > {"put"}


async def test_columns_that_rows_lack_are_null_where_nothing_else_is_said() -> None:
    """A row that comes without a column has null there, also in place of an older value."""
    table, _ = await filled()
    await write(table, [{"id": 2, "part": "a"}])
    assert (2, "a", None) in await rows_of(table)


async def test_a_write_is_made_once_for_its_sequence_and_keeps_its_message() -> None:
    """A repetition of a sequence that is committed adds nothing; people find the message in the history."""
    table, store = await filled()
    first = await write(table, some((4, "a", 4)), writer=("loader", 1), message="from the loader")
    again = await write(await table_of(store), some((4, "a", 5)), writer=("loader", 1))
    assert (again.snapshot, again.changed, again.rows) == (first.snapshot, False, 0)
    assert (await newest(table))["message"] == "from the loader"
    assert (4, "a", 4) in await rows_of(table)
