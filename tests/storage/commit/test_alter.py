"""Changes of a schema as commits: each follows the schema of its head, and no id is given out twice."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.format.metadata import CommitKind, Snapshot
from lakehouse.format.schema import schema_from_arrow
from lakehouse.ids import new_token
from lakehouse.io import ObjectStore
from lakehouse.storage.commit.alter import Alter, restored_schema
from lakehouse.storage.metadata.caches import TableCaches
from lakehouse.storage.metadata.schemas import Schemas
from lakehouse.storage.schema.evolution import AddColumn, DropColumn, RenameColumn, SchemaChange
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.committers import ROOT, TestTable
from tests.kit.table_samples import TABLE
from tests.kit.worlds import StepIn

SCHEMA = schema_from_arrow(pa.schema({"id": pa.int64(), "v": pa.int32()}), primary_key="id")


def schemas_of(store: ObjectStore) -> Schemas:
    """The schema objects of the table, as a process that has read none of them sees them."""
    return Schemas(store, ROOT, TABLE, TableCaches(CacheBudget()).schemas)


async def opened(store: ObjectStore) -> TestTable:
    """An empty table that has a schema, in snapshot 1."""
    ref = await schemas_of(store).write(SCHEMA, time_ms=1_000)
    table = TestTable(store)
    first = Snapshot(
        id=1, token=new_token(), parent=None, kind=CommitKind.CREATE, time_ms=1_000, table=TABLE, schema=ref
    )
    await table.snapshots.append(first)
    return table


def alter(table: TestTable, *changes: SchemaChange) -> Alter:
    """The changes, as a commit of this table."""
    return Alter(schemas_of(table.store), table.snapshots, changes)


async def altered(table: TestTable, *changes: SchemaChange) -> Snapshot:
    """The snapshot of a commit that makes the changes."""
    return (await table.committer.commit(alter(table, *changes))).snapshot


async def test_a_changed_schema_follows_the_one_before() -> None:
    """A change makes a schema with the next id, which names every schema before it."""
    table = await opened(memory_store())
    before = (await table.snapshots.head()).snapshot
    first = await altered(table, AddColumn("w", "int"), RenameColumn("v", "u"))
    second = await altered(table, DropColumn("u"))
    stored = await schemas_of(table.store).read(second.schema)
    assert (second.kind, second.schema.id, stored.schema.id) == (CommitKind.ALTER, 2, 2)
    assert stored.ancestors == (before.schema, first.schema)
    assert [(field.id, field.name) for field in stored.schema.fields] == [(1, "id"), (3, "w")]


async def test_changes_that_come_to_nothing_write_nothing() -> None:
    """A change that says what is so already makes neither a snapshot nor a schema object."""
    store = RecordingStore(memory_store())
    table = await opened(store)
    await table.snapshots.head()
    store.clear()
    done = await table.committer.commit(alter(table, RenameColumn("v", "v")))
    assert (done.changed, done.snapshot.id) == (False, 1)
    assert "put" not in store.kinds()


async def test_a_change_that_comes_second_is_made_to_the_schema_of_the_first() -> None:
    """After a lost race the schema is written anew: both columns are there, each with an id of its own."""
    store = memory_store()
    await opened(store)
    hooked = StepIn(store)
    table = TestTable(hooked)

    async def theirs() -> None:
        await altered(TestTable(store), AddColumn("theirs", "int"))

    hooked.before(0, "/snapshot/", theirs, verb="put_if_absent")
    done = await altered(table, AddColumn("mine", "int"))
    stored = await schemas_of(store).read(done.schema)
    assert [(field.id, field.name) for field in stored.schema.fields[2:]] == [(3, "theirs"), (4, "mine")]
    assert (done.id, stored.schema.id, len(stored.ancestors)) == (3, 2, 2)


async def test_a_restored_schema_gives_no_id_out_again() -> None:
    """It has the columns of the target, the id after the head's, and the highest ids of the head."""
    table = await opened(memory_store())
    target = (await table.snapshots.head()).snapshot
    head = await altered(table, AddColumn("w", "int"))
    schemas = schemas_of(table.store)
    ref = await restored_schema(schemas, table.snapshots, head, target)
    assert ref is not None
    again = (await schemas.read(ref)).schema
    assert again.fields == SCHEMA.fields
    assert (again.id, again.highest_field_id) == (2, 3)


async def test_a_restored_schema_descends_from_its_target() -> None:
    """The schema that a rollback undoes is no ancestor, so that files written with it are refused."""
    table = await opened(memory_store())
    target = (await table.snapshots.head()).snapshot
    head = await altered(table, AddColumn("w", "int"))
    schemas = schemas_of(table.store)
    ref = await restored_schema(schemas, table.snapshots, head, target)
    assert ref is not None
    assert (await schemas.read(ref)).ancestors == (target.schema,)


async def test_the_same_schema_is_not_restored() -> None:
    """A rollback between snapshots of one schema needs no other, and writes nothing."""
    store = RecordingStore(memory_store())
    table = await opened(store)
    target = (await table.snapshots.head()).snapshot
    head = await table.add("a")
    store.clear()
    assert await restored_schema(schemas_of(store), table.snapshots, head, target) is None
    assert store.calls == []
