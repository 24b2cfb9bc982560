"""Attached catalogs of a lake: warehouses of ours, access, validation and credentials that are replaced."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
import lakehouse.sync
from lakehouse.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
)
from lakehouse.lake import Lake
from lakehouse.testing import memory_store
from tests.kit.expiring_store import ExpiringStore, expiring_store
from tests.kit.iceberg_plans import three_days
from tests.kit.iceberg_tables import on_disk, table_files

_ID = pa.schema({"id": pa.int64()})


async def _other(directory: Path) -> str:
    """Makes another warehouse with a table in each of two databases, and returns its URL."""
    url = f"file://{directory}/other"
    async with lakehouse.connect(url) as lake:
        for database in ("hr", "sales"):
            await lake.create_database(database)
            await (await lake.create_table(f"{database}.people", _ID)).append([{"id": 1}])
    return url


# --- warehouses of ours -------------------------------------------------------------


async def test_another_warehouse_is_a_catalog(tmp_path: Path) -> None:
    """Tables of an attached warehouse are listed, described and read by names of three parts."""
    url = await _other(tmp_path)
    async with Lake(memory_store()) as lake:
        await lake.attach_catalog("far", {"type": "lakehouse", "warehouse": url})
        assert await lake.databases("far") == ["far.hr", "far.sales"]
        assert [name async for name in lake.tables("far.sales")] == ["far.sales.people"]
        table = await lake.table("far.sales.people")
        assert await table.scan().to_arrow() == pa.table({"id": [1]})
        node = await lake.graph.table("far.sales.people")
        assert (node.format, node.summary.rows) == ("lakehouse", 1)
        with pytest.raises(NotFoundError):
            await lake.table("far.sales.nothing")
        files = (await lake.data_files("far").to_arrow()).to_pylist()
        assert {(row["catalog"], row["table"]) for row in files} == {
            ("far", "hr.people"),
            ("far", "sales.people"),
        }


async def test_another_warehouse_is_seen_in_part(tmp_path: Path) -> None:
    """Access restricts a warehouse as it does any catalog."""
    url = await _other(tmp_path)
    async with Lake(memory_store()) as lake:
        properties = {"type": "lakehouse", "warehouse": url, "exclude": ["hr"]}
        await lake.attach_catalog("far", properties)
        assert await lake.databases("far") == ["far.sales"]
        for name in ("far.hr.people", "far.hx.people"):
            with pytest.raises(NotFoundError, match="no namespace"):
                await lake.table(name)
        assert {row["table"] for row in (await lake.manifests().to_arrow()).to_pylist()} <= {
            "far.sales.people"
        }


async def test_a_detached_warehouse_leaves_nothing(tmp_path: Path) -> None:
    """Detaching gives back entries and scope, and frees the name."""
    url = await _other(tmp_path)
    async with Lake(memory_store()) as lake:
        for _ in range(3):
            await lake.attach_catalog("far", {"type": "lakehouse", "warehouse": url})
            await (await lake.table("far.sales.people")).scan().count()
            await lake.graph.table("far.sales.people")
            assert lake.caches.weight > 0
            await lake.detach_catalog("far")
            assert (lake.caches.weight, len(lake._state.scopes)) == (0, 0)


async def test_a_warehouse_travels_with_its_lake(tmp_path: Path) -> None:
    """A pickled lake has its attached warehouses where it arrives."""
    url = await _other(tmp_path)
    async with lakehouse.connect(
        f"file://{tmp_path}/wh", catalogs={"far": {"type": "lakehouse", "warehouse": url}}
    ) as lake:
        sent = pickle.dumps(lake)
    async with pickle.loads(sent) as arrived:
        assert await (await arrived.table("far.sales.people")).scan().count() == 1


@pytest.mark.parametrize(
    ("properties", "option"),
    [
        ({}, "warehouse"),
        ({"warehouse": ""}, "warehouse"),
        ({"warehouse": "memory://x", "uri": "x"}, "uri"),
        ({"warehouse": "memory://x", "include": "sales"}, "include"),
        ({"warehouse": "memory://x", "exclude": ["{sales}"]}, "exclude"),
    ],
)
async def test_properties_of_a_warehouse_are_checked(properties: dict[str, Any], option: str) -> None:
    """What is missing, has no effect or is no pattern is named, and nothing is attached."""
    async with Lake(memory_store()) as lake:
        with pytest.raises(InvalidInputError) as raised:
            await lake.attach_catalog("far", {"type": "lakehouse", **properties})
        assert raised.value.context["option"] == option
        assert (await lake.catalogs(), len(lake._state.scopes)) == ([], 0)


async def test_one_name_is_attached_once(tmp_path: Path) -> None:
    """A second catalog of a name is refused, whatever the types."""
    async with Lake(memory_store()) as lake:
        await lake.attach_catalog("far", {"type": "lakehouse", "warehouse": tmp_path.as_uri()})
        for kind in ("lakehouse", "directory"):
            with pytest.raises(AlreadyExistsError, match="attached already"):
                await lake.attach_catalog("far", {"type": kind, "warehouse": tmp_path.as_uri()})


# --- access -------------------------------------------------------------------------


async def test_access_of_a_catalog_may_change_while_it_is_attached(tmp_path: Path) -> None:
    """Namespaces that are hidden later are gone at once, for listings, names and ids alike."""
    for namespace in ("hr", "sales"):
        on_disk(three_days(), tmp_path / namespace / "t")
    async with Lake(memory_store()) as lake:
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": tmp_path.as_uri()})
        node = await lake.graph.table("ice.hr.t")
        assert await lake.databases("ice") == ["ice.hr", "ice.sales"]
        await lake.update_catalog("ice", {"exclude": ["hr"]})
        assert await lake.databases("ice") == ["ice.sales"]
        for call in (lake.table("ice.hr.t"), lake.graph.table("ice.hr.t"), lake.graph.resolve(node.id)):
            with pytest.raises(NotFoundError):
                await call
        assert not await lake.table_exists("ice.hr.t")
        await lake.update_catalog("ice", {"exclude": None})
        assert await lake.table_exists("ice.hr.t")


# --- credentials --------------------------------------------------------------------


@pytest.fixture
def files() -> Iterator[ExpiringStore]:
    """A store with a table of a directory catalog, which the key ``k1`` may read."""
    metadata, contents = table_files(three_days(), "s3://bucket/wh/db/t")
    with expiring_store() as store:
        store.objects = {f"bucket/wh/db/t/{name}": data for name, data in contents.items()}
        hint = metadata.removeprefix("metadata/").removesuffix(".metadata.json")
        store.objects["bucket/wh/db/t/metadata/version-hint.text"] = hint.encode()
        store.keys = {"k1"}
        yield store


def _properties(files: ExpiringStore, key: str = "k1") -> dict[str, Any]:
    options = {"key": key, "secret": f"c4n4ry-of-{key}", "endpoint_url": files.url}
    return {"type": "directory", "warehouse": "s3://bucket/wh", "storage_options": options}


async def test_credentials_are_replaced_without_detaching(files: ExpiringStore) -> None:
    """Open tables and nodes go on with the new keys, what was read stays, and no text shows a key."""
    async with Lake(memory_store()) as lake:
        await lake.attach_catalog("ice", _properties(files))
        table, node = await lake.table("ice.db.t"), await lake.graph.table("ice.db.t")
        await table.plan()
        files.keys = {"k2"}
        await lake.update_catalog("ice", {"storage_options": _properties(files, "k2")["storage_options"]})
        asked = len(files.asked)
        assert len(await table.plan()) == 30
        assert await lake.graph.resolve(node.id) is not None
        await table.refresh()
        assert {key for key, _, _ in files.asked[asked:]} == {"k2"}
        assert b"c4n4ry-of-k1" not in pickle.dumps(lake)
        assert "c4n4ry" not in f"{lake!r} {lake._state.sources.get('ice')!r} {lake.graph!r} {table!r}"


async def test_two_accounts_share_content_and_prove_their_rights(files: ExpiringStore) -> None:
    """With equal keys nothing is read again; with others an object costs a HEAD of one's own."""
    files.keys = {"k1", "k2"}
    async with Lake(memory_store()) as lake:
        views = {}
        for account, key in (("a", "k1"), ("b", "k1"), ("c", "k2"), ("d", "bad")):
            views[account] = lake.for_account(account)
            await views[account].attach_catalog("ice", _properties(files, key))

        async def manifests(account: str) -> tuple[int, int]:
            before, heads = len(files.asked), len(files.heads)
            assert len(await (await views[account].table("ice.db.t")).plan()) == 30
            asked = [one for one in files.asked[before:] if "metadata/m" in one[1]]
            proven = [one for one in files.heads[heads:] if "metadata/m" in one[1]]
            return len(asked) - len(proven), len(proven)

        assert await manifests("a") == (3, 0)
        assert await manifests("b") == (0, 0)
        assert await manifests("c") == (0, 3)
        with pytest.raises(PermissionDeniedError) as raised:
            await views["d"].table("ice.db.t")
        assert "c4n4ry" not in f"{raised.value!r}"


async def test_validation_tells_what_is_wrong(files: ExpiringStore, tmp_path: Path) -> None:
    """A good catalog passes; one whose keys are refused says which check failed, without a key."""
    on_disk(three_days(), tmp_path / "db" / "t")
    async with Lake(memory_store()) as lake:
        await lake.attach_catalog("good", {"type": "directory", "warehouse": tmp_path.as_uri()})
        report = await lake.validate_catalog("good")
        assert report.is_ok, str(report)
        assert [check.status.value for check in report.checks] == ["ok"] * 4
        await lake.attach_catalog("bad", _properties(files, "bad"))
        report = await lake.validate_catalog("bad", timeout_s=20)
        assert report["credential"].status == "failed", str(report)
        assert "c4n4ry" not in f"{report} {report!r}"
        await lake.attach_catalog("down", {"type": "rest", "uri": "http://127.0.0.1:9"})
        report = await lake.validate_catalog("down", timeout_s=20)
        assert (report["connection"].status, report["storage"].status) == ("failed", "skipped")
        with pytest.raises(NotFoundError, match="no catalog 'missing'"):
            await lake.validate_catalog("missing")


async def test_no_display_of_a_catalog_shows_a_password() -> None:
    """The place of a SQL catalog is shown without the user that stands in its address."""
    async with Lake(memory_store()) as lake:
        await lake.attach_catalog("sql", {"type": "sql", "uri": "postgresql://who:c4n4ry@db:5432/x"})
        assert "c4n4ry" not in json.dumps(lake._state.sources.get("sql").display)
        with pytest.raises(LakehouseError) as raised:
            await lake.graph.catalog("sql")
        assert "c4n4ry" not in f"{raised.value!r}"


def test_catalogs_without_await(tmp_path: Path) -> None:
    """Updating and validating a catalog have twins that block."""
    on_disk(three_days(), tmp_path / "db" / "t")
    with lakehouse.sync.connect(f"file://{tmp_path}/wh") as lake:
        lake.attach_catalog("ice", {"type": "directory", "warehouse": tmp_path.as_uri()})
        assert lake.validate_catalog("ice").is_ok
        lake.update_catalog("ice", {"include": ["none"]})
        assert lake.databases("ice") == []
