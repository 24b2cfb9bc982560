"""Views: names they share with tables, versions, listings and what they cost, drops and what comes back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    UnsupportedVersionError,
)
from lakehouse.format.metadata import NameKind, NamePointer, encode_pointer, name_pointer
from lakehouse.ids import new_uuid
from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.storage.metadata.paths import pointer_key
from lakehouse.storage.metadata.table_name import TableName
from lakehouse.storage.tables.names import Names
from lakehouse.testing import RecordingStore
from tests.kit.worlds import process, restored

SCHEMA = pa.schema({"id": pa.int64()})
SQL = {"spark": "select 1"}
OTHER = {"spark": "select 2"}


async def made() -> tuple[ObjectStore, Lake]:
    """A database with a table and a view."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    await lake.create_table("db.t", SCHEMA)
    await lake.create_view(
        "db.v", SQL, depends_on=["db.t"], columns=["one"], owner="ann", comment="for tests"
    )
    return store, lake


async def test_a_view_is_read_as_it_was_made() -> None:
    """Everything that a view was made with is there for another process, at one request."""
    store, _ = await made()
    recording = RecordingStore(store)
    view = await process(recording).view("db.v")
    assert (view.name, view.version, view.sql, view.dialect) == ("db.v", 1, "select 1", "spark")
    assert (view.columns, view.depends_on, view.owner, view.comment) == (
        ("one",),
        ("db.t",),
        "ann",
        "for tests",
    )
    assert [call.verb for call in recording.calls] == ["get"]


async def test_older_versions_stay_readable() -> None:
    """Each replace makes a version; by its number an older one is what it was, and others do not exist."""
    _, lake = await made()
    second = await lake.create_view("db.v", OTHER, or_replace=True)
    first = await lake.view("db.v", version=1)
    assert (first.sql, first.owner, first.uuid) == ("select 1", "ann", second.uuid)
    assert (second.version, second.owner) == (2, None)
    assert first.created < second.created
    assert [one.version for one in await lake.view_versions("db.v")] == [1, 2]
    for number in (0, 3, -1):
        with pytest.raises(NotFoundError, match="1 to 2"):
            await lake.view("db.v", version=number)


async def test_an_equal_replace_makes_no_version() -> None:
    """A view that says what is asked for already stays as it is, and nothing is written."""
    store, lake = await made()
    await lake.create_view("db.v", OTHER, or_replace=True)
    recording = RecordingStore(store)
    again = await process(recording).create_view("db.v", OTHER, or_replace=True)
    assert again.version == 2
    assert {call.verb for call in recording.calls} == {"get"}


async def test_a_view_that_is_there_is_kept_or_refused() -> None:
    """Without or_replace a second view of a name is an error, or with if_not_exists the one that is there."""
    _, lake = await made()
    with pytest.raises(AlreadyExistsError, match=r"a view 'db.v'"):
        await lake.create_view("db.v", OTHER)
    assert (await lake.create_view("db.v", OTHER, if_not_exists=True)).sql == "select 1"


async def test_tables_and_views_exclude_each_other() -> None:
    """A name is one of the two: making, renaming and undropping the other one onto it is refused."""
    _, lake = await made()
    for taken in (lake.create_table("db.v", SCHEMA), lake.rename_table("db.t", "db.v")):
        with pytest.raises(AlreadyExistsError, match=r"a view 'db.v'"):
            await taken
    for taken in (
        lake.create_view("db.t", SQL),
        lake.create_view("db.t", SQL, or_replace=True),
        lake.create_view("db.t", SQL, if_not_exists=True),
        lake.rename_view("db.v", "db.t"),
    ):
        with pytest.raises(AlreadyExistsError, match=r"a table 'db.t'"):
            await taken
    await lake.drop_table("db.t")
    await lake.create_view("db.t", SQL)
    with pytest.raises(AlreadyExistsError, match=r"a view 'db.t', made since"):
        await lake.undrop_table("db.t")
    await lake.drop_view("db.t")
    assert (await lake.undrop_table("db.t")).name == "db.t"


async def test_calls_on_tables_say_that_a_name_is_a_view() -> None:
    """Opening, dropping and renaming a view as a table, and the other way round, say what it is."""
    _, lake = await made()
    for call in (
        lake.table("db.v"),
        lake.drop_table("db.v", if_exists=True),
        lake.rename_table("db.v", "db.x"),
        lake.create_table("db.v", SCHEMA, if_not_exists=True),
    ):
        with pytest.raises(InvalidInputError, match=r"'db.v' is a view, not a table") as told:
            await call
        assert told.value.kind == "wrong-relation"
    assert not await lake.table_exists("db.v")
    for call in (lake.view("db.t"), lake.drop_view("db.t", if_exists=True), lake.rename_view("db.t", "db.x")):
        with pytest.raises(InvalidInputError, match=r"'db.t' is a table, not a view"):
            await call


async def test_a_missing_view_is_told_with_names_that_are_near() -> None:
    """A view that is not there is a NotFoundError that names what is near; a missing database goes first."""
    _, lake = await made()
    with pytest.raises(NotFoundError, match=r"no view 'db.w'; .*v"):
        await lake.view("db.w")
    with pytest.raises(NotFoundError, match="no database 'dc'"):
        await lake.view("dc.v")
    with pytest.raises(NotFoundError, match="no database 'dc'"):
        await lake.create_view("dc.v", SQL)


async def test_listings_tell_tables_from_views() -> None:
    """Tables are listed as tables and views as views, by prefix and from a name on."""
    _, lake = await made()
    for name in ("db.w", "db.v2"):
        await lake.create_view(name, SQL)
    await lake.drop_view("db.w")
    assert [name async for name in lake.tables("db")] == ["db.t"]
    assert [name async for name in lake.views("db")] == ["db.v", "db.v2"]
    assert [name async for name in lake.views("db", prefix="v", after="db.v")] == ["db.v2"]
    with pytest.raises(NotFoundError, match="no database"):
        _ = [name async for name in lake.views("dc")]


async def test_a_listing_of_views_reads_no_pointers_of_tables() -> None:
    """It costs a list and one read for each name that a view has or had, beside the database's."""
    store, lake = await made()
    for number in range(5):
        await lake.create_table(f"db.t{number}", SCHEMA)
    recording = RecordingStore(store)
    assert [name async for name in process(recording).views("db")] == ["db.v"]
    assert [call.key for call in recording.calls if call.verb == "get"] == ["db/_database", "db/_tables/v"]
    assert [call.verb for call in recording.calls].count("list_page") == 1


async def test_a_rename_keeps_identity_and_versions() -> None:
    """Under the new name, in another database too, a view has its uuid and versions; the old name is free."""
    _, lake = await made()
    before = await lake.create_view("db.v", OTHER, or_replace=True)
    await lake.create_database("other")
    moved = await lake.rename_view("db.v", "other.w")
    assert (moved.name, moved.uuid, moved.version) == ("other.w", before.uuid, 2)
    assert [one.sql for one in await lake.view_versions("other.w")] == ["select 1", "select 2"]
    with pytest.raises(NotFoundError, match=r"called 'other.w' now"):
        await lake.view("db.v")
    await lake.create_view("other.w", SQL, or_replace=True)
    back = await lake.rename_view("other.w", "db.v")
    assert (back.version, back.uuid) == (3, before.uuid)
    with pytest.raises(AlreadyExistsError):
        await lake.rename_view("db.v", "db.v")
    with pytest.raises(NotFoundError, match="no database 'nowhere'"):
        await lake.rename_view("db.v", "nowhere.v")


async def test_a_dropped_view_comes_back_until_its_name_is_taken() -> None:
    """An undrop brings a view back with its versions; not when another relation has the name."""
    _, lake = await made()
    await lake.create_view("db.v", OTHER, or_replace=True)
    dropped = await lake.drop_view("db.v")
    assert dropped is not None
    assert dropped.version == 2
    with pytest.raises(NotFoundError, match="undrop_view"):
        await lake.view("db.v")
    assert await lake.drop_view("db.v", if_exists=True) is None
    assert (await lake.undrop_view("db.v")).uuid == dropped.uuid
    with pytest.raises(AlreadyExistsError, match="not dropped"):
        await lake.undrop_view("db.v")
    await lake.drop_view("db.v")
    await lake.create_view("db.v", SQL)
    assert (await lake.view("db.v")).uuid != dropped.uuid
    with pytest.raises(NotFoundError):
        await lake.undrop_view("db.never")


async def test_a_database_goes_and_comes_back_with_its_views() -> None:
    """Views keep a database; cascade drops them with it, and its undrop brings them back."""
    _, lake = await made()
    await lake.drop_table("db.t")
    with pytest.raises(InvalidInputError, match="has views, such as 'v'"):
        await lake.drop_database("db")
    done = await lake.drop_database("db", cascade=True)
    assert done is not None
    assert done.views == ("db.v",)
    back = await lake.undrop_database("db")
    assert back.views == ("db.v",)
    assert "1 views" in str(back)
    assert (await lake.view("db.v")).sql == "select 1"


async def test_only_a_mebibyte_of_sql_is_stored() -> None:
    """A view that would make every look at its name slow is refused before anything is written."""
    store, lake = await made()
    recording = RecordingStore(store)
    with pytest.raises(InvalidInputError, match="1,048,576"):
        await process(recording).create_view("db.big", {"a": "x" * 600_000, "b": "y" * 600_000})
    assert not [call for call in recording.calls if call.verb.startswith("put")]
    assert [name async for name in lake.views("db")] == ["db.v"]


async def test_another_object_in_the_place_of_a_version_is_corruption() -> None:
    """A version that stands in another's place is named as such, and so is one that is gone."""
    store, lake = await made()
    await lake.create_view("db.w", SQL)
    await lake.create_view("db.w", OTHER, or_replace=True)
    await lake.create_view("db.v", OTHER, or_replace=True)
    keys = sorted([one.key async for one in store.list("db/_history/")])
    await store.put(keys[0], (await store.get(keys[1])).data)
    with pytest.raises(CorruptionError, match="another object stands in its place"):
        await lake.view_versions("db.v")
    await store.delete(keys[0])
    with pytest.raises(CorruptionError, match=r"version 1 of view db.v is lost"):
        await lake.view_versions("db.v")


async def test_tables_of_a_service_are_left_alone() -> None:
    """A name of kind iceberg is neither table nor view, is taken, not listed, and never replaced."""
    store, lake = await made()
    await lake.drop_table("db.t")
    dropped = (await Names(store).look(TableName("db", "t")))[0].dropped
    pointer = NamePointer(
        name="db.ice",
        kind=NameKind.ICEBERG,
        table=new_uuid(),
        path="db/ice",
        token="t",
        time_ms=1,
        before=dropped,
    )
    data = encode_pointer(pointer)
    await store.delete(pointer_key("db", "t"))
    await store.put(pointer_key("db", "ice"), data)
    for call in (
        lake.table("db.ice"),
        lake.drop_table("db.ice"),
        lake.view("db.ice"),
        lake.drop_view("db.ice"),
    ):
        with pytest.raises(InvalidInputError, match="an Iceberg table of a catalog service"):
            await call
    for taken in (lake.create_table("db.ice", SCHEMA), lake.create_view("db.ice", SQL, or_replace=True)):
        with pytest.raises(AlreadyExistsError, match="an Iceberg table"):
            await taken
    assert [name async for name in lake.tables("db")] == []
    assert [name async for name in lake.views("db")] == ["db.v"]
    assert (await lake.purge_dropped(grace_s=0)).tables == ()
    assert (await store.get(pointer_key("db", "ice"))).data == data


async def test_an_older_release_asks_for_an_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that reads pointers up to format 2 takes a view for something newer, not for damage."""
    _, lake = await made()
    older = name_pointer._POINTER.__class__(
        what="name pointer",
        newest=2,
        to_json=name_pointer._POINTER.to_json,
        from_json=name_pointer._POINTER.from_json,
    )
    monkeypatch.setattr(name_pointer, "_POINTER", older)
    with pytest.raises(UnsupportedVersionError, match="Upgrade lakehouse"):
        await lake.table("db.v")
    assert (await lake.table("db.t")).name == "db.t"
