"""Catalogs attached to a lake: names, lists, tables, lifetimes."""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakehouse
from lakehouse.errors import AlreadyExistsError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.iceberg import IcebergTable
from lakehouse.io import measure
from lakehouse.lake import Lake
from tests.iceberg.catalogs.test_through_pyiceberg import ROWS, sql_table
from tests.kit.expiring_store import expiring_store
from tests.kit.iceberg_plans import three_days
from tests.kit.iceberg_rest import rest_catalog
from tests.kit.iceberg_tables import table_files

_SCHEMA = pa.schema({"id": pa.int64()})


@contextlib.asynccontextmanager
async def _lake(directory: Path) -> AsyncIterator[Lake]:
    """A lake with a table of its own and an attached catalog with one."""
    properties = sql_table(directory, f"file://{directory}/warehouse")
    async with lakehouse.connect(f"memory://lake-catalogs/{directory.name}") as lake:
        await lake.create_database("own")
        await lake.create_table("own.t", _SCHEMA)
        await lake.attach_catalog("ice", properties)
        yield lake


async def test_names_of_three_parts_are_tables_of_catalogs(tmp_path: Path) -> None:
    """``lake.table`` opens tables of the lake by two parts and of catalogs by more, in one call."""
    async with _lake(tmp_path) as lake:
        ours, theirs = await lake.table("own.t"), await lake.table("ice.web.events")
        assert isinstance(ours, lakehouse.Table)
        assert isinstance(theirs, IcebergTable)
        assert theirs.name == "ice.web.events"
        assert (await theirs.schema()).names == ROWS.schema.names
        assert (await theirs.scan().to_arrow()).sort_by("id").to_pydict() == ROWS.to_pydict()
        assert await lake.table_exists("own.t")
        assert await lake.table_exists("ice.web.events")
        assert not await lake.table_exists("ice.web.other")


async def test_attaching_contacts_no_catalog(tmp_path: Path) -> None:
    """Attaching costs one request of the lake's own store, which says whether a database has the name."""
    async with lakehouse.connect(f"memory://lake-catalogs/{tmp_path.name}") as lake:
        with measure() as cost:
            await lake.attach_catalog("down", {"type": "rest", "uri": "http://127.0.0.1:9"})
        assert cost.by_kind() == {"get": 1}
        assert await lake.catalogs() == ["down"]


async def test_lists_reach_into_catalogs(tmp_path: Path) -> None:
    """Namespaces and tables of a catalog are listed by the calls that list our own."""
    async with _lake(tmp_path) as lake:
        assert await lake.databases() == ["own"]
        assert await lake.databases("ice") == ["ice.web"]
        assert [name async for name in lake.tables("own")] == ["own.t"]
        assert [name async for name in lake.tables("ice.web")] == ["ice.web.events"]
        assert [name async for name in lake.tables("ice.web", prefix="x")] == []
        assert [name async for name in lake.tables("ice.web", after="ice.web.events")] == []
        with pytest.raises(InvalidInputError, match=r"listed by namespace.*lake.databases\('ice'\)"):
            _ = [name async for name in lake.tables("ice")]
        with pytest.raises(NotFoundError, match="no such namespace"):
            _ = [name async for name in lake.tables("ice.wev")]


async def test_a_catalog_and_a_database_of_one_name_are_refused(tmp_path: Path) -> None:
    """Whichever comes second is refused, by an error that lists both."""
    async with _lake(tmp_path) as lake:
        with pytest.raises(InvalidInputError, match=r"both a database .* own.table.* own.namespace.table"):
            await lake.attach_catalog("own", {"type": "directory", "warehouse": str(tmp_path)})
        with pytest.raises(InvalidInputError, match=r"both a database .* ice.table.* ice.namespace.table"):
            await lake.create_database("ice")
        await lake.detach_catalog("ice")
        await lake.create_database("ice")
        await lake.drop_database("ice")
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": str(tmp_path)})
        with pytest.raises(InvalidInputError, match="both a database"):
            await lake.undrop_database("ice")
        assert await lake.catalogs() == ["ice"]


async def test_two_parts_are_ours_whatever_is_attached(tmp_path: Path) -> None:
    """A namespace of a catalog is not opened as a table; the error says how its tables are named."""
    async with _lake(tmp_path) as lake:
        with pytest.raises(NotFoundError) as missing:
            await lake.table("ice.web")
        assert "three parts: ice.web.table" in missing.value.__notes__[0]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("icy.web.events", NotFoundError, "no catalog 'icy' is attached; did you mean 'ice'"),
        ("ice.web.event", NotFoundError, "did you mean 'events'"),
        ("ice.wev.events", NotFoundError, "did you mean 'web'"),
        ("ice..events", InvalidInputError, "has an empty part"),
    ],
)
async def test_names_that_are_not_there_are_said(
    tmp_path: Path, name: str, kind: type[LakehouseError], said: str
) -> None:
    """Each part of a name that is wrong is named, with the nearest there is."""
    async with _lake(tmp_path) as lake:
        with pytest.raises(kind, match=said):
            await lake.table(name)


@pytest.mark.parametrize("name", ["", "a.b", "_x", "a/b"])
async def test_a_catalog_has_a_name_of_one_part(tmp_path: Path, name: str) -> None:
    """A name that could not be told from others is refused."""
    async with _lake(tmp_path) as lake:
        with pytest.raises(InvalidInputError, match="cannot be the name of a catalog"):
            await lake.attach_catalog(name, {"type": "rest", "uri": "http://127.0.0.1:9"})


async def test_a_name_is_attached_once(tmp_path: Path) -> None:
    """A second catalog of a name is refused until the first is detached."""
    async with _lake(tmp_path) as lake:
        other = {"type": "directory", "warehouse": str(tmp_path / "warehouse")}
        with pytest.raises(AlreadyExistsError, match="detach it first"):
            await lake.attach_catalog("ice", other)
        await lake.detach_catalog("ice")
        await lake.attach_catalog("ice", other)
        with pytest.raises(NotFoundError, match="no catalog 'ise'"):
            await lake.detach_catalog("ise")


async def test_detaching_closes_tables_of_the_catalog(tmp_path: Path) -> None:
    """What a detached catalog gave out is refused, and its name is unknown."""
    async with _lake(tmp_path) as lake:
        table = await lake.table("ice.web.events")
        await lake.detach_catalog("ice")
        with pytest.raises(InvalidInputError, match="closed"):
            await table.files()
        with pytest.raises(NotFoundError, match="no catalog"):
            await lake.table("ice.web.events")
        assert await lake.catalogs() == []


async def test_leaving_the_lake_closes_tables_of_catalogs(tmp_path: Path) -> None:
    """Tables of catalogs are open as long as their lake."""
    async with _lake(tmp_path) as lake:
        table = await lake.table("ice.web.events")
    with pytest.raises(InvalidInputError, match="closed"):
        await table.files()


async def test_tables_of_a_lake_share_what_planning_keeps(tmp_path: Path) -> None:
    """A table that is opened again plans without reading its manifests again."""
    async with _lake(tmp_path) as lake:
        first = await lake.table("ice.web.events")
        plan = await first.plan()
        again = await lake.table("ice.web.events")
        with measure() as cost:
            assert len(await again.plan("id > 1")) == len(plan) == 1
    assert cost.requests == 0


async def test_credentials_that_expire_in_the_middle_of_a_plan_are_asked_for_again() -> None:
    """A table of a REST catalog is planned on when the keys it was opened with are good no more."""
    keys = ["k1", "k2"]
    metadata, contents = table_files(three_days(), "s3://bucket/wh/t")
    with rest_catalog() as rest, expiring_store() as files:
        files.objects = {f"bucket/wh/t/{name}": data for name, data in contents.items()}
        files.keys = {"k1"}

        def answer() -> dict[str, Any]:
            config = {"s3.endpoint": files.url, "s3.access-key-id": keys[0], "s3.region": "us-east-1"}
            return {
                "metadata-location": f"s3://bucket/wh/t/{metadata}",
                "metadata": json.loads(contents[metadata]),
                "config": {**config, "s3.secret-access-key": f"secret of {keys[0]}"},
            }

        rest.tables[("db", "t")] = answer
        async with lakehouse.connect("memory://lake-catalogs/expiring") as lake:
            await lake.attach_catalog("ice", {"type": "rest", "uri": rest.url})
            table = await lake.table("ice.db.t")
            keys.pop(0)
            files.keys = {"k2"}
            asked = len(rest.asked)
            assert len(await table.plan("id < 150")) == 15
            assert rest.asked[asked:] == ["GET /v1/namespaces/db/tables/t"]
            assert {key for key, _, status in files.asked if status == 200} == {"k1", "k2"}


async def test_many_tables_are_opened_at_once(tmp_path: Path) -> None:
    """Tables of one catalog are opened side by side, whatever threads their reads need."""
    async with _lake(tmp_path) as lake:
        opened: list[IcebergTable] = []

        async def open_one() -> None:
            opened.append(await lake.table("ice.web.events"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(48):
                    tasks.start_soon(open_one)
        assert len({id(table) for table in opened}) == 48


async def test_refresh_asks_the_catalog(tmp_path: Path) -> None:
    """A commit of somebody else is seen after ``refresh``, and not before."""
    async with _lake(tmp_path) as lake:
        table = await lake.table("ice.web.events")
        uri = f"sqlite:///{tmp_path}/catalog.db"
        with contextlib.closing(SqlCatalog("ice", uri=uri)) as catalog:
            catalog.load_table("web.events").append(ROWS)
        assert (await table.snapshots()).num_rows == 1
        await table.refresh()
        assert (await table.snapshots()).num_rows == 2


async def test_catalogs_travel_with_their_lake(tmp_path: Path) -> None:
    """A pickled lake has its catalogs where it arrives, as configuration."""
    async with _lake(tmp_path) as lake:
        sent = pickle.dumps(lake)
    async with pickle.loads(sent) as arrived:
        assert await arrived.catalogs() == ["ice"]
        table = await arrived.table("ice.web.events")
        assert (await table.schema()).names == ROWS.schema.names


async def test_catalogs_may_be_given_to_the_lake(tmp_path: Path) -> None:
    """A lake that is made with catalogs has them attached."""
    catalogs: dict[str, dict[str, Any]] = {"d": {"type": "directory", "warehouse": str(tmp_path)}}
    async with Lake(lakehouse.open_store("memory://lake-catalogs/given"), catalogs=catalogs) as lake:
        assert await lake.catalogs() == ["d"]
