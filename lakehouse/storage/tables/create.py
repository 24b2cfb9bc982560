"""Tables opened by name, and made; names that a drop left behind are freed."""

from __future__ import annotations

from lakehouse.format.metadata import CommitKind, NameKind, NamePointer, NameState, Snapshot
from lakehouse.format.schema import TableSchema
from lakehouse.ids import new_token, new_uuid
from lakehouse.storage.metadata.paths import table_directory
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.names import Names, name_taken_error
from lakehouse.storage.tables.open_tables import Environment, OpenTable, is_dropped, shared_table

__all__ = ["create_table", "holder_of", "open_table"]


async def open_table(env: Environment, names: Names, name: TableName) -> OpenTable:
    """Opens the table that a name refers to."""
    return shared_table(env, name, await names.resolve(name))


async def holder_of(env: Environment, names: Names, name: TableName) -> NamePointer | None:
    """Returns the pointer of what has a name; None when the name may be claimed. The database must exist."""
    holder = await names.find(name)
    if holder is None or holder.kind is not NameKind.TABLE:
        return holder
    if not await is_dropped(OpenTable(env, name, holder)):
        return holder
    # A drop that ended before it gave the name back.
    now_ms = env.time.now_ms()
    await names.release(name, holder, state=NameState.DROPPED, time_ms=now_ms, token=holder.token)
    return None


async def create_table(env: Environment, names: Names, name: TableName, schema: TableSchema) -> OpenTable:
    """Creates a table under a free name; AlreadyExistsError when the name is not free."""
    env.expect_commit()
    table_id, now_ms = new_uuid(), env.time.now_ms()
    holder = await holder_of(env, names, name)
    if holder is not None:
        raise name_taken_error(name, holder.kind)
    pointer = NamePointer(
        name=str(name),
        table=table_id,
        path=table_directory(name.database, name.table, table_id.hex),
        token=new_token(),
        time_ms=now_ms,
    )
    table = OpenTable(env, name, pointer)
    written = await table.schemas.write(schema, time_ms=now_ms)
    first = Snapshot(
        id=1,
        token=new_token(),
        parent=None,
        kind=CommitKind.CREATE,
        time_ms=env.time.now_ms(),  # the store has told it now
        table=table_id,
        schema=written,
    )
    await table.before_write()
    began = env.clock.steady()
    stored = await table.snapshots.append(first)
    table.snapshots.time.learn(stored.store_time_ms)
    await names.claim(name, pointer, first=True)
    table.snapshots.note(first, began)
    env.opened[table_id] = table
    return table
