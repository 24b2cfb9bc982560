"""Databases and names of tables: who gets a name, and what is said about names that are not there."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid

import pytest

from lakehouse.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from lakehouse.format.metadata.name_pointer import NamePointer, NameState
from lakehouse.ids import new_token
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.open import stacked
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.names import Names
from lakehouse.testing import memory_store
from tests.kit.blob_samples import spec_bytes

ORDERS = TableName("sales", "orders")


def pointer(number: int = 1, name: TableName = ORDERS) -> NamePointer:
    """Of some table."""
    return NamePointer(
        name=str(name), table=uuid.UUID(int=number), path=f"sales/t-{number}", token=new_token(), time_ms=1
    )


async def names() -> Names:
    """Of a warehouse with a database."""
    found = Names(stacked(memory_store()))
    await found.create_database("sales")
    return found


async def test_a_database_is_made_once_and_again_after_it_was_dropped() -> None:
    """Making a database twice is an error; a dropped one can be made again."""
    found = await names()
    with pytest.raises(AlreadyExistsError, match="'sales'"):
        await found.create_database("sales")
    await found.drop_database("sales")
    assert not await found.has_database("sales")
    with pytest.raises(NotFoundError):
        await found.drop_database("sales")
    await found.create_database("sales")
    assert [one async for one in found.databases()] == ["sales"]


async def test_databases_are_listed_in_order() -> None:
    """Databases come in the order of their names; directories without a marker are none."""
    store = memory_store()
    found = Names(stacked(store))
    for name in ("b", "a", "c"):
        await found.create_database(name)
    await store.put("d/x", b"")
    assert [one async for one in found.databases()] == ["a", "b", "c"]


async def test_a_database_with_tables_is_kept() -> None:
    """Dropping a database that has tables is an error that names one."""
    found = await names()
    await found.claim(ORDERS, pointer())
    with pytest.raises(InvalidInputError, match="'orders'"):
        await found.drop_database("sales")


async def test_one_of_many_gets_a_name() -> None:
    """Of sixteen tables that claim one name at once, one gets it and the others are told."""
    found = await names()
    told = await asyncio.gather(*(found.claim(ORDERS, pointer(n)) for n in range(16)), return_exceptions=True)
    assert sum(one is None for one in told) == 1
    assert sum(isinstance(one, AlreadyExistsError) for one in told) == 15
    assert (await found.resolve(ORDERS)).table.int == told.index(None)


async def test_a_released_name_can_be_claimed_by_one() -> None:
    """A dropped table's name goes to one of those that claim it."""
    found = await names()
    mine = pointer(99)
    await found.claim(ORDERS, mine)
    await found.release(ORDERS, mine, state=NameState.DROPPED, time_ms=2)
    with pytest.raises(NotFoundError, match="was dropped"):
        await found.resolve(ORDERS)
    told = await asyncio.gather(*(found.claim(ORDERS, pointer(n)) for n in range(8)), return_exceptions=True)
    assert sum(one is None for one in told) == 1


async def test_a_name_is_released_by_its_table_only() -> None:
    """Releasing a name that another table has by now changes nothing."""
    found = await names()
    await found.claim(ORDERS, pointer(1))
    await found.release(ORDERS, pointer(2), state=NameState.DROPPED, time_ms=2)
    assert (await found.resolve(ORDERS)).table.int == 1


async def test_a_moved_table_says_where() -> None:
    """Asking for the old name of a renamed table names the new one."""
    found = await names()
    mine = pointer()
    await found.claim(ORDERS, mine)
    await found.release(ORDERS, mine, state=NameState.MOVED, time_ms=2, moved_to="sales.invoices")
    with pytest.raises(NotFoundError, match=r"'sales\.invoices'"):
        await found.resolve(ORDERS)


async def test_claiming_again_is_no_error() -> None:
    """A table that has the name already gets it again, so that a rename can be repeated."""
    found = await names()
    mine = pointer()
    await found.claim(ORDERS, mine)
    await found.claim(ORDERS, dataclasses.replace(mine, token=new_token()))


async def test_tables_are_listed_in_pages() -> None:
    """Live tables come in order, by prefix and behind a name; dropped ones are left out."""
    found = await names()
    for number, table in enumerate(("a1", "a2", "a3", "b1")):
        name = TableName("sales", table)
        await found.claim(name, pointer(number, name))
    await found.release(TableName("sales", "a2"), pointer(1), state=NameState.DROPPED, time_ms=2)
    assert [one.table async for one in found.tables("sales")] == ["a1", "a3", "b1"]
    assert [one.table async for one in found.tables("sales", prefix="a", after="a1")] == ["a3"]


async def test_a_near_name_is_suggested() -> None:
    """A misspelt table or database is an error that says which one was probably meant."""
    found = await names()
    await found.claim(ORDERS, pointer())
    with pytest.raises(NotFoundError, match="did you mean 'orders'"):
        await found.resolve(TableName("sales", "order"))
    with pytest.raises(NotFoundError, match="did you mean 'sales'"):
        await found.resolve(TableName("sale", "orders"))


async def test_the_example_of_the_specification_is_a_database() -> None:
    """The marker that the specification shows makes a database exist."""
    store = memory_store()
    await store.put("sales/_database", spec_bytes("table.md", "database"))
    assert [one async for one in Names(stacked(store)).databases()] == ["sales"]


async def test_objects_in_anothers_place_are_noticed() -> None:
    """A pointer or a marker that was copied over another one is an error that names the object."""
    store = memory_store()
    found = Names(stacked(store))
    other = TableName("sales", "invoices")
    for database in ("sales", "stock"):
        await found.create_database(database)
    for number, name in enumerate((ORDERS, other)):
        await found.claim(name, pointer(number, name))
    await store.put("sales/_tables/orders", (await store.get("sales/_tables/invoices")).data)
    with pytest.raises(CorruptionError, match="sales/_tables/orders"):
        await found.resolve(ORDERS)
    for source in ("stock/_database", "sales/_tables/invoices"):
        await store.put("sales/_database", (await store.get(source)).data)
        with pytest.raises(CorruptionError, match="sales/_database"):
            await found.has_database("sales")


async def test_a_dropped_database_takes_no_tables() -> None:
    """A name that was used in a database and is free again is of no use once the database is dropped."""
    found = await names()
    mine = pointer()
    await found.claim(ORDERS, mine)
    await found.release(ORDERS, mine, state=NameState.DROPPED, time_ms=2)
    await found.drop_database("sales")
    with pytest.raises(NotFoundError, match="no database 'sales'"):
        await found.find(ORDERS)


async def test_a_table_keeps_its_name_when_it_is_renamed_to_it() -> None:
    """Renaming a table to the name it has is an error, and it still has it."""
    found = await names()
    mine = pointer()
    await found.claim(ORDERS, mine)
    with pytest.raises(AlreadyExistsError, match=r"'sales\.orders'"):
        await found.move(ORDERS, ORDERS, mine, time_ms=2)
    assert await found.resolve(ORDERS) == mine


async def test_a_table_renamed_at_once_gets_one_name() -> None:
    """Of many that rename one table to different names one succeeds, and no other name stands for it."""
    store = memory_store()
    found = Names(stacked(store))
    await found.create_database("sales")
    mine = pointer()
    await found.claim(ORDERS, mine)
    targets = [TableName("sales", f"t{number}") for number in range(8)]
    told = await asyncio.gather(
        *(found.move(ORDERS, name, mine, time_ms=2) for name in targets), return_exceptions=True
    )
    won = [name for name, one in zip(targets, told, strict=True) if isinstance(one, NamePointer)]
    assert len(won) == 1
    assert all(isinstance(one, ConflictError) for one in told if not isinstance(one, NamePointer))
    assert [one async for one in found.tables("sales")] == won


async def test_a_table_renamed_twice_to_the_same_name_has_it() -> None:
    """Two that rename a table to one name at once both succeed."""
    found = await names()
    mine, there = pointer(), TableName("sales", "invoices")
    await found.claim(ORDERS, mine)
    await asyncio.gather(*(found.move(ORDERS, there, mine, time_ms=2) for _ in range(2)))
    assert [one async for one in found.tables("sales")] == [there]


async def test_a_table_can_be_renamed_back() -> None:
    """A name that a table had before is free for it."""
    found = await names()
    mine, there = pointer(), TableName("sales", "invoices")
    await found.claim(ORDERS, mine)
    await found.move(there, ORDERS, await found.move(ORDERS, there, mine, time_ms=2), time_ms=3)
    assert [one async for one in found.tables("sales")] == [ORDERS]


@pytest.mark.parametrize("end", [NameState.DROPPED, NameState.MOVED])
async def test_a_new_table_that_was_ended_meanwhile_stays_so(end: NameState) -> None:
    """A create whose answer is lost does not bring back a table that others dropped or renamed since."""
    inner = memory_store()
    found = Names(stacked(inner))
    await found.create_database("sales")
    mine = pointer()

    class EndedBeforeTheAnswer(StoreDecorator):
        async def put_if_absent(self, key, data, *, token=None, timed=True):  # type: ignore[no-untyped-def]
            await super().put_if_absent(key, data, token=token)
            await found.release(ORDERS, mine, state=end, time_ms=2)
            raise UnavailableError("no answer", kind="timeout")

    await Names(stacked(EndedBeforeTheAnswer(inner))).claim(ORDERS, mine, first=True)
    with pytest.raises(NotFoundError):
        await found.resolve(ORDERS)
