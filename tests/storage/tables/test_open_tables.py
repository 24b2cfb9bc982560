"""One open table for each table of a connection, under any name: its listeners, and its deadline."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.format.metadata.snapshot import Ref
from lakehouse.lake import Lake
from lakehouse.storage.commit.changes import ChangeRefs
from lakehouse.storage.commit.committer import Committed
from lakehouse.storage.compact.background import auto_compaction
from lakehouse.storage.table import Table
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from tests.kit.worlds import NAME, process, restored

SCHEMA = pa.schema({"id": pa.int64()})


async def lake_with_table() -> tuple[Lake, Table]:
    """A process, and an empty table of its warehouse."""
    lake = process(await restored({}))
    await lake.create_database("db")
    return lake, await lake.create_table(NAME, SCHEMA, primary_key="id")


class Heard:
    """Remembers which snapshots it was called for."""

    def __init__(self) -> None:
        self.snapshots: list[int] = []

    def on_commit(self, table: OpenTable, view: View, done: Committed) -> None:
        """See :class:`CommitListener`."""
        self.snapshots.append(done.snapshot.id)


async def test_a_renamed_table_goes_on_as_the_table_that_was_open() -> None:
    """Handles from before the rename, from the rename and from after it are of one open table."""
    lake, before = await lake_with_table()
    renamed = await lake.rename_table(NAME, "db.new")
    after = await lake.table("db.new")
    assert before._table is renamed._table is after._table
    assert [table.name for table in (before, renamed, after)] == ["db.new"] * 3


async def test_commits_through_every_name_of_a_table_take_turns() -> None:
    """Handles from before and after a rename do not cost each other their first attempts to commit."""
    lake, before = await lake_with_table()
    renamed = await lake.rename_table(NAME, "db.new")
    for number in range(3):
        for table in (before, renamed):
            done = await table.upsert([{"id": number}])
            assert done.attempts == 1


async def test_a_table_that_is_opened_again_compacts_once() -> None:
    """However often and under whatever name a table is opened, one compaction and one publication listen."""
    lake, table = await lake_with_table()
    await lake.table(NAME)
    renamed = await lake.rename_table(NAME, "db.new")
    _, compaction, publication = renamed._table.listeners  # the registry's is the first
    assert compaction is auto_compaction(table._table)
    assert type(publication).__name__ == "AutoPublication"


async def test_every_listener_hears_of_every_commit() -> None:
    """A listener that is added takes nobody's place."""
    _, table = await lake_with_table()
    first, second = Heard(), Heard()
    before = list(table._table.listeners)
    table._table.listeners += [first, second]
    await table.upsert([{"id": 1}])
    await table.create_tag("v1", snapshot=2)
    assert first.snapshots == second.snapshots == [2, 3]
    assert table._table.listeners == [*before, first, second]


async def test_an_older_view_does_not_bring_its_deadline_back() -> None:
    """A commit under an older view leaves a lower ``commit.deadline_s`` in force."""
    _, table = await lake_with_table()
    core = table._table
    older = await core.newest()
    await table.set_option("commit.deadline_s", 7)
    await table.upsert([{"id": 1}])
    assert core.snapshots.deadline_s == 7
    await core.commit(ChangeRefs(make={"v1": Ref(snapshot=1)}), view=older)
    assert core.snapshots.deadline_s == 7
