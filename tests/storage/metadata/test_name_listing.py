"""Listings of names: which pointers they read, and what they show."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakehouse
from lakehouse.format.metadata import NamePointer, encode_pointer
from lakehouse.ids import new_token, new_uuid
from lakehouse.io import measure
from lakehouse.lake import Lake
from lakehouse.storage.metadata import TableName
from lakehouse.storage.metadata.name_listing import plain_size
from lakehouse.storage.metadata.paths import table_directory

_SCHEMA = pa.schema({"id": pa.int64()})
_NAMES = st.from_regex(r"[^\W_][\w-]{0,30}", fullmatch=True)


async def _lake(name: str, tables: list[str]) -> Lake:
    lake = lakehouse.connect(f"memory://name-listing-{name}")
    await lake.__aenter__()
    await lake.create_database("db")
    for table in tables:
        await lake.create_table(f"db.{table}", _SCHEMA)
    return lake


async def test_a_page_of_plain_tables_costs_one_list() -> None:
    """Names of tables that were never renamed are listed without a look at their pointers."""
    lake = await _lake("plain", ["a", "bb", "ccc"])
    with measure() as cost:
        page, after = await lake._state.listing().page("db", limit=10)
    assert [one.name.table for one in page] == ["a", "bb", "ccc"]
    assert after is None
    assert cost.by_kind() == {"list": 1}
    await lake.__aexit__(None, None, None)


async def test_dropped_and_renamed_names_are_not_listed() -> None:
    """A name that stands for nothing any more is left out; one that a table moved to is shown."""
    lake = await _lake("gone", ["a", "b", "c"])
    await lake.drop_table("db.a")
    await lake.rename_table("db.b", "db.z")
    listing = lake._state.listing()
    page, _ = await listing.page("db", limit=10)
    assert [one.name.table for one in page] == ["c", "z"]
    with measure() as cost:
        await listing.page("db", limit=10)
    # Each version of a pointer is read once.
    assert cost.by_kind() == {"list": 1}
    await lake.__aexit__(None, None, None)


async def test_pages_follow_one_another() -> None:
    """A page begins behind the name that the one before gave as its end."""
    lake = await _lake("pages", [f"t{number}" for number in range(5)])
    listing, seen, after = lake._state.listing(), list[str](), None
    while True:
        page, after = await listing.page("db", after=after, limit=2)
        seen += [one.name.table for one in page]
        if after is None:
            break
    assert seen == [f"t{number}" for number in range(5)]
    page, _ = await listing.page("db", prefix="t3", limit=2)
    assert [one.name.table for one in page] == ["t3"]
    await lake.__aexit__(None, None, None)


@settings(max_examples=50, deadline=None)
@given(_NAMES, _NAMES)
def test_the_size_of_a_plain_pointer_follows_from_its_name(database: str, table: str) -> None:
    """Two pointers of one name that was never moved have one size, which its bytes alone decide."""
    number = new_uuid()
    pointer = NamePointer(
        name=f"{database}.{table}",
        table=number,
        path=table_directory(database, table, number.hex),
        token=new_token(),
        time_ms=1_800_000_000_000,
    )
    assert len(encode_pointer(pointer)) == plain_size(TableName(database, table))
    spare = plain_size(TableName(database, "x")) - 2
    assert plain_size(TableName(database, table)) == spare + 2 * len(table.encode())


@pytest.mark.parametrize("prefix", ["", "nothing"])
async def test_an_empty_database_has_one_empty_page(prefix: str) -> None:
    """A listing of nothing ends at once."""
    lake = await _lake(f"empty{prefix}", [])
    assert await lake._state.listing().page("db", prefix=prefix, limit=2) == ([], None)
    await lake.__aexit__(None, None, None)
