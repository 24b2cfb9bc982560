"""Authority over a warehouse: hidden databases are not there, for names, errors and listings alike."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.catalog.accounts import AuthorityStore
from lakehouse.catalog.sources import Access
from lakehouse.errors import LakehouseError, NotFoundError, PermissionDeniedError
from lakehouse.storage.metadata import TableName
from lakehouse.storage.tables import Names
from lakehouse.testing import RecordingStore, memory_store

_ID = pa.schema({"id": pa.int64()})


async def _warehouse() -> RecordingStore:
    store = RecordingStore(memory_store())
    async with lakehouse.Lake(store) as lake:
        for database in ("hr", "sales"):
            await lake.create_database(database)
            await lake.create_table(f"{database}.people", _ID)
    store.clear()
    return store


def _seen(store: RecordingStore) -> AuthorityStore:
    return AuthorityStore(store, Access.parse(exclude=["h*"]), "acme")


async def test_hidden_databases_are_in_no_listing() -> None:
    """Databases and tables are listed as if the hidden ones were not there."""
    names = Names(_seen(await _warehouse()))
    assert [name async for name in names.databases()] == ["sales"]
    assert [str(name) async for name in names.tables("hr")] == []


async def test_errors_of_a_hidden_database_are_those_of_a_missing_one() -> None:
    """A table of a hidden database is missed with the words for a database that does not exist."""
    names = Names(_seen(await _warehouse()))

    async def failure(database: str) -> tuple[object, ...]:
        with pytest.raises(LakehouseError) as raised:
            await names.resolve(TableName(database, "people"))
        error = raised.value
        facts = {name: str(value).replace(database, "DB") for name, value in error.context.items()}
        return type(error), error.kind, error.message.replace(database, "DB"), facts

    assert await failure("hr") == await failure("hx")


async def test_nothing_is_written_to_a_hidden_database() -> None:
    """Creating a database outside of the authority is refused alike, whether there is one or not."""
    store = await _warehouse()
    names = Names(_seen(store))
    for database in ("hr", "hx"):
        with pytest.raises(PermissionDeniedError, match="may not use a database"):
            await names.create_database(database)
    with pytest.raises(PermissionDeniedError):
        await _seen(store).delete_batch(["sales/x", "hr/x"])
    assert not [call for call in store.calls if call.key.startswith("h")]


async def test_no_request_about_a_hidden_database_is_made() -> None:
    """Reads, listings and writes below a hidden database stay inside the process."""
    store = await _warehouse()
    seen = _seen(store)
    with pytest.raises(NotFoundError):
        await seen.get("hr/x")
    with pytest.raises(NotFoundError):
        await seen.head("hr/x")
    assert (await seen.list_page("hr/")).objects == ()
    with pytest.raises(PermissionDeniedError):
        await seen.put("hr/x", b"1")
    assert store.calls == []


async def test_a_listing_of_all_keys_leaves_hidden_ones_out() -> None:
    """A listing across databases has the keys of those that may be seen."""
    page = await _seen(await _warehouse()).list_page("")
    assert page.objects
    assert {one.key.partition("/")[0] for one in page.objects} == {"sales"}
