"""Schema objects: stored once, read by anybody, and never taken for another's."""

from __future__ import annotations

import dataclasses
import uuid

import pytest

from lakehouse.cache import CacheBudget
from lakehouse.errors import CorruptionError
from lakehouse.io import ObjectStore
from lakehouse.storage.metadata.caches import TableCaches
from lakehouse.storage.metadata.paths import ObjectKind, object_kind
from lakehouse.storage.metadata.schemas import Schemas
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.table_logs import ROOT
from tests.kit.table_samples import TABLE
from tests.kit.written_files import schema_of

SCHEMA = dataclasses.replace(schema_of(), id=0)
NEXT = dataclasses.replace(SCHEMA, id=1, comment="changed")


def schemas_on(store: ObjectStore, table: uuid.UUID = TABLE) -> Schemas:
    """Returns the schemas as a process sees them that has read none."""
    return Schemas(store, ROOT, table, TableCaches(CacheBudget()).schemas)


async def test_a_schema_is_read_as_it_was_written() -> None:
    """A process that knows the reference alone reads schema, table and time."""
    store = memory_store()
    ref = await schemas_on(store).write(SCHEMA, time_ms=5)
    found = await schemas_on(store).read(ref)
    assert (found.schema, found.table, found.time_ms, found.ancestors) == (SCHEMA, TABLE, 5, ())
    assert (ref.id, object_kind(ref.path)) == (0, ObjectKind.SCHEMA)


async def test_a_schema_knows_those_before_it() -> None:
    """The schema that follows another lists that one's reference behind all earlier ones."""
    store = memory_store()
    schemas = schemas_on(store)
    refs = [await schemas.write(SCHEMA, time_ms=1)]
    for number in (1, 2):
        before = (await schemas.read(refs[-1]), refs[-1])
        following = dataclasses.replace(SCHEMA, id=number)
        refs.append(await schemas.write(following, time_ms=number, before=before))
    assert (await schemas_on(store).read(refs[2])).ancestors == tuple(refs[:2])


async def test_every_write_has_a_path_of_its_own() -> None:
    """The same schema written twice is two objects, so that no write replaces another's."""
    store = memory_store()
    schemas = schemas_on(store)
    first, second = [await schemas.write(SCHEMA, time_ms=1) for _ in range(2)]
    assert first.path != second.path
    assert len([one async for one in store.list(ROOT)]) == 2


async def test_a_known_schema_costs_no_request() -> None:
    """What was written here is not read, and what was read is read once."""
    store = RecordingStore(memory_store())
    writer, reader = schemas_on(store), schemas_on(store)
    ref = await writer.write(SCHEMA, time_ms=1)
    store.clear()
    await writer.read(ref)
    assert store.kinds() == {}
    await reader.read(ref)
    await reader.read(ref)
    assert store.kinds() == {"get": 1}


async def test_a_missing_schema_is_damage() -> None:
    """A schema object that is gone is an error with its key."""
    store = memory_store()
    ref = await schemas_on(store).write(SCHEMA, time_ms=1)
    await store.delete(f"{ROOT}/{ref.path}")
    with pytest.raises(CorruptionError, match=r"is missing; a snapshot refers to it") as caught:
        await schemas_on(store).read(ref)
    assert caught.value.context["key"] == f"{ROOT}/{ref.path}"


@pytest.mark.parametrize("cached", [False, True])
async def test_a_schema_of_another_number_is_not_taken(cached: bool) -> None:
    """A reference with another id than its object has is damage, also where the object is known."""
    store = memory_store()
    schemas = schemas_on(store)
    ref = dataclasses.replace(await schemas.write(NEXT, time_ms=1), id=0)
    with pytest.raises(CorruptionError, match=r"holds schema 1 of table .* asks for schema 0"):
        await (schemas if cached else schemas_on(store)).read(ref)


async def test_a_schema_of_another_table_is_not_taken() -> None:
    """An object that says another table's uuid is damage."""
    store = memory_store()
    ref = await schemas_on(store, uuid.UUID(int=1)).write(SCHEMA, time_ms=1)
    with pytest.raises(CorruptionError, match=f"the snapshot asks for schema 0 of {TABLE}"):
        await schemas_on(store).read(ref)
