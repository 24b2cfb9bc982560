"""One write is one upload and one commit, whatever its kind and whatever stands in its way."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.expr import parse_where
from lakehouse.storage.commit.changes import AddFiles
from lakehouse.storage.table import Table
from lakehouse.storage.write.conditional_writes import InsertingWrite, ReplacingWrite
from lakehouse.storage.write.distributed_writes import commit_uploaded
from lakehouse.testing.stores import RecordingStore
from tests.kit.table_operations import LAYOUTS, SCHEMA
from tests.kit.worlds import NAME, process, restored


def some(*numbers: int, value: int = 0, part: str = "a") -> list[dict[str, Any]]:
    """Rows with these ids."""
    return [{"id": number, "part": part, "v": value} for number in numbers]


async def made(layout: str) -> tuple[Table, RecordingStore]:
    """An empty table, and the store that counts its requests."""
    store = RecordingStore(await restored({}))
    lake = process(store)
    await lake.create_database("db")
    return await lake.create_table(NAME, SCHEMA, **LAYOUTS[layout]), store


def data_puts(store: RecordingStore) -> int:
    """Data files that were uploaded."""
    return len([call for call in store.calls if call.verb == "put" and "/data/" in call.key])


async def test_rows_of_the_log_that_are_replaced_are_flushed_and_nothing_is_uploaded_twice() -> None:
    """The new rows' file stays while the log is flushed, as that of another process would."""
    table, store = await made("key holds partition")
    async with table.writer() as writer:
        await (await writer.put(some(1, value=1)))
        store.calls.clear()
        done = await table.overwrite(some(3, value=9), where="part = 'a'")
    assert (done.rows, done.files) == (1, 1)
    assert data_puts(store) == 2  # one for the new row, one for the row of the log
    assert {row["id"]: row["v"] for row in await table.scan().to_pylist()} == {3: 9}


@pytest.mark.parametrize("kind", ["append", "upsert", "overwrite", "delete", "insert", "overwrite where"])
async def test_a_sequence_that_is_known_to_be_committed_costs_no_upload(kind: str) -> None:
    """A process that has seen the commit of a sequence repeats the answer, whatever was to be written."""
    table, store = await made("key holds partition")
    writer = ("job", 1)
    calls = {
        "append": lambda: table.append(some(1), writer=writer),
        "upsert": lambda: table.upsert(some(1), writer=writer),
        "overwrite": lambda: table.overwrite(some(1), writer=writer),
        "overwrite where": lambda: table.overwrite(some(1), where="id = 1", writer=writer),
        "delete": lambda: table.delete("id = 1", writer=writer),
        "insert": lambda: table.append(some(1), on_conflict="error", writer=writer),
    }
    first = await calls[kind]()
    store.calls.clear()
    again = await calls[kind]()
    assert (again.snapshot, again.changed, again.rows) == (first.snapshot, False, 0)
    assert data_puts(store) == 0


async def test_a_local_write_and_one_of_a_single_task_make_the_same_requests() -> None:
    """Who has uploaded the files makes no difference to the commit."""
    table, store = await made("key holds partition")
    view = await table.core.newest()
    written = await table.core.write(view, some(1))
    kinds = []
    for write in (
        lambda: commit_uploaded(table.core, AddFiles(kind=view.snapshot.kind, written=written)),
        lambda: table.upsert(some(2)),
    ):
        store.calls.clear()
        await write()
        kinds.append([call.verb for call in store.calls if "/data/" not in call.key])
    assert kinds[0] == kinds[1]


async def test_partitions_are_replaced_by_rows_of_theirs_alone() -> None:
    """A row of another partition is refused, and no file stays."""
    table, store = await made("key holds partition")
    await table.append(some(1))
    write = ReplacingWrite(table.core, some(2, part="b"), where=parse_where("part = 'a'"))
    with pytest.raises(InvalidInputError, match="do not all lie in the partitions"):
        await write.run()
    assert len([one async for one in store.list(f"{table.core.root}/data/")]) == 1


async def test_values_cannot_be_kept_of_rows_that_must_not_be_there() -> None:
    """An insert of new keys alone refuses to keep older values before anything is read."""
    table, store = await made("key holds partition")
    store.calls.clear()
    with pytest.raises(InvalidInputError, match="on_conflict='error'"):
        InsertingWrite(table.core, some(1), missing="keep")
    assert store.calls == []
