"""System tables by name: what each shows is what the Python call shows that knows the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError, NotFoundError, PermissionDeniedError
from lakehouse.index import COMPACT
from lakehouse.lake import Lake
from lakehouse.sql.system import SystemTables
from lakehouse.testing import memory_store
from tests.kit.iceberg_plans import three_days
from tests.kit.iceberg_tables import on_disk
from tests.kit.indexed_tables import SCHEMA, SMALL, rows
from tests.kit.system_tables import host_of, read


@asynccontextmanager
async def _lake(**options: Any) -> AsyncIterator[Lake]:
    """A lake with a table of three snapshots, a tag and an index, and another in a second database."""
    async with Lake(memory_store(), **options) as lake:
        for name in ("web.hits", "shop.orders"):
            await lake.create_database(name.partition(".")[0])
            table = await lake.create_table(
                name,
                SCHEMA,
                primary_key="id",
                partition_by="host",
                indexes={"n": "inverted", "message": "bloom"},
                options={**SMALL, "compaction.auto": "off"},
            )
            await table.append(rows(2))
            await table.upsert(rows(1, first=9))
            await table.create_tag("first", snapshot=2)
        yield lake


def _named(found: pa.Table, name: str) -> pa.Table:
    """Rows of one table, without the columns that name it."""
    database, _, table = name.partition(".")
    is_its = pa.compute.and_(
        pa.compute.equal(found["database_name"], database), pa.compute.equal(found["table_name"], table)
    )
    return found.filter(is_its).drop_columns(["catalog_name", "database_name", "table_name"])


@pytest.mark.parametrize("relation", ["snapshots", "files", "manifests", "partitions", "tags", "schemas"])
async def test_relations_of_tables_are_those_of_python(relation: str) -> None:
    """A relation of a table has the rows of the method of its name, in ``system`` as behind the ``$``."""
    async with _lake() as lake, lake.query() as query:
        table = await lake.table("shop.orders")
        known = await getattr(table, relation)()
        tables = SystemTables(host_of(lake), query)
        one = await read(tables, "shop", f"orders${relation}")
        assert _named(await read(tables, "system", relation), "shop.orders") == one
        plain = [field.name for field in known.schema if one.schema.field(field.name).type == field.type]
        assert len(plain) >= 4
        assert one.select(plain) == known.select(plain)
        assert known.num_rows or relation == "manifests"
        assert tables.warnings == []


async def test_values_of_many_shapes_are_json() -> None:
    """What has other columns in each table, such as partitions and keys, is a column of JSON."""
    async with _lake() as lake, lake.query() as query:
        files = await read(SystemTables(host_of(lake), query), "shop", "orders$files")
        known = await (await lake.table("shop.orders")).files()
        assert {files.schema.field(name).type for name in ("partition", "min_key")} == {pa.json_(pa.string())}
        for name in ("partition", "min_key", "max_key"):
            texts = [str(value).replace("'", '"').replace(" ", "") for value in known[name].to_pylist()]
            assert files[name].to_pylist() == texts


async def test_options_are_those_of_the_schema() -> None:
    """Options that are set have a row each."""
    async with _lake() as lake, lake.query() as query:
        found = await read(SystemTables(host_of(lake), query), "shop", "orders$options")
        table = await lake.table("shop.orders")
        assert {row["name"]: row["value"] for row in found.to_pylist()} == dict(
            (await table.schema()).options
        )


async def test_the_changelog_has_the_changes_of_each_snapshot() -> None:
    """Each snapshot's changes are those that ``table.changes`` finds between it and the one before."""
    async with _lake() as lake, lake.query() as query:
        found = await read(SystemTables(host_of(lake), query), "shop", "orders$changelog")
        table = await lake.table("shop.orders")
        changes = {
            number: [
                row["id"] async for part in table.changes(number - 1, number) for row in part.to_pylist()
            ]
            for number in (2, 3)
        }
        ids = pa.compute.extract_regex(found["row"].cast(pa.string()), '"id":(?P<id>[0-9]+)')
        assert found["snapshot"].to_pylist() == [2, 2, 3]
        assert [int(one["id"]) for one in ids.to_pylist()] == [*changes[2], *changes[3]]
        assert {*found["change"].to_pylist()} == {"insert"}


async def test_index_metas_are_those_of_the_lake() -> None:
    """Rows of indexes are those of ``lake.index_metas``; GreptimeDB's have exactly its columns."""
    async with _lake() as lake, lake.query() as query:
        tables = SystemTables(host_of(lake), query)
        known = await lake.index_metas("shop.orders", order="listing").to_arrow(COMPACT)
        one = await read(tables, "shop", "orders$puffin_index_meta")
        assert _named(await read(tables, "system", "puffin_index_meta"), "shop.orders") == one
        assert sorted(one["meta_json"].to_pylist()) == sorted(known["meta_json"].to_pylist())
        flat = await read(tables, "shop", "orders$puffin_index_meta_flat")
        assert flat.num_rows == one.num_rows > 0
        greptime = await read(tables, "information_schema", "ssts_index_meta")
        assert greptime.schema.names[:3] == ["table_dir", "index_file_path", "region_id"]
        assert (greptime.num_columns, greptime.num_rows) == (16, 2 * one.num_rows)


async def test_rows_are_of_the_pinned_snapshot() -> None:
    """A relation of one table shows the state that its statement reads, not what came after it."""
    async with _lake() as lake, lake.query() as query:
        table = await lake.table("shop.orders")
        await query.pin("shop.orders", snapshot=2)
        tables = SystemTables(host_of(lake), query)
        files = await read(tables, "shop", "orders$files")
        assert files["path"].to_pylist() == (await table.files(snapshot=2))["path"].to_pylist()
        assert (await read(tables, "shop", "orders$snapshots"))["snapshot"].to_pylist() == [1, 2]
        metas = await read(tables, "shop", "orders$puffin_index_meta")
        assert 0 < metas.num_rows < (await lake.index_metas("shop.orders").to_arrow()).num_rows


async def test_the_lake_shows_caches_settings_and_catalogs(tmp_path: Path) -> None:
    """Statistics of caches, settings and catalogs are what the lake says of them."""
    async with _lake(settings=Settings.resolve({"sql.threads": 3})) as lake:
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": f"file://{tmp_path}"})
        tables = SystemTables(host_of(lake))
        caches = await read(tables, "system", "cache_statistics")
        assert caches.schema.names == lake.cache.stats().schema.names
        assert caches["entry"].to_pylist() == lake.cache.stats()["entry"].to_pylist()
        settings = {row["name"]: row for row in (await read(tables, "system", "settings")).to_pylist()}
        assert {*settings} == {*lake.settings.as_dict()}
        assert (settings["sql.threads"]["value"], settings["sql.threads"]["default"]) == ("3", "0")
        catalogs = await read(tables, "system", "catalogs")
        assert catalogs["catalog_name"].to_pylist() == ["", *await lake.catalogs()]
        assert catalogs["place"].to_pylist() == [lake.store.url, f"file://{tmp_path}"]


async def test_iceberg_tables_have_the_same_columns(tmp_path: Path) -> None:
    """Tables of attached catalogs are among the others, with what their metadata say."""
    on_disk(three_days(), tmp_path / "web" / "a")
    async with _lake() as lake, lake.query() as query:
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": f"file://{tmp_path}"})
        tables, table = SystemTables(host_of(lake), query), await lake.table("ice.web.a")
        for relation in tables.relations_of_tables():
            everywhere = await read(tables, "system", relation)
            known = everywhere.filter(pa.compute.equal(everywhere["catalog_name"], "ice"))
            one = await read(tables, "ice", "web", f"a${relation}")
            assert known.num_rows == one.num_rows
            assert known.drop_columns(["catalog_name", "database_name", "table_name"]) == one
        files, found = await table.files(), await read(tables, "ice", "web", "a$files")
        assert found["bytes"].to_pylist() == files["size"].to_pylist()
        assert found["rows"].to_pylist() == found["stored_rows"].to_pylist() == files["rows"].to_pylist()
        manifests = await read(tables, "ice", "web", "a$manifests")
        assert sum(manifests["files"].to_pylist()) == files.num_rows
        assert tables.warnings == []


@pytest.mark.parametrize(
    ("path", "near"),
    [
        (("system", "file"), "did you mean 'files'?"),
        (("system", "settingz"), "did you mean 'settings'?"),
        (("shop", "orders$snapshot"), "did you mean 'snapshots'?"),
        (("information_schema", "colums"), "did you mean 'columns'?"),
    ],
)
async def test_unknown_names_say_what_was_meant(path: tuple[str, ...], near: str) -> None:
    """A name of the system that does not exist is an error with the nearest one, before anything is read."""
    async with _lake() as lake, lake.query() as query:
        with pytest.raises(NotFoundError) as caught:
            SystemTables(host_of(lake), query).provider(path)
        assert near in str(caught.value)


async def test_names_of_users_are_none_of_the_system() -> None:
    """A table of a user, whatever the database is called, has no provider here."""
    async with _lake() as lake:
        tables = SystemTables(host_of(lake))
        assert tables.provider(("shop", "orders")) is None
        assert tables.columns(("a", "system", "files")) is None
        assert all(tables.columns(path) for path in tables.names())


async def test_relations_of_one_table_need_a_query() -> None:
    """Without a query there is no pin, so that the rows of one table are refused."""
    async with _lake() as lake:
        with pytest.raises(InvalidInputError, match="pins the table"):
            SystemTables(host_of(lake)).provider(("shop", "orders$files"))


async def test_locations_are_masked_where_that_is_set() -> None:
    """With ``sql.mask_locations`` no row has a directory, a path or a URL, and each has one pseudonym."""
    async with _lake(settings=Settings.resolve({"sql.mask_locations": True})) as lake, lake.query() as query:
        tables = SystemTables(host_of(lake), query)
        table = await lake.table("shop.orders")
        for name in (*(path[-1] for path in tables.names()), "ssts_index_meta"):
            if name == "cache_statistics":
                continue
            place = "information_schema" if name == "ssts_index_meta" else "system"
            shown = str((await read(tables, place, name)).to_pylist())
            assert "memory://" not in shown, name
            assert table.location.rpartition("/")[2] not in shown, name
            assert ".parquet" not in shown, name
        files = (await read(tables, "shop", "orders$files"))["path"].to_pylist()
        again = (await read(tables, "shop", "orders$files"))["path"].to_pylist()
        assert files == again
        assert len({*files}) == 3


async def test_index_metas_reads_any_place(tmp_path: Path) -> None:
    """``index_metas(url)`` has the rows of a warehouse, by its tables, or of any directory of files."""
    async with Lake(memory_store()) as outer:
        async with lakehouse.connect(f"file://{tmp_path}") as lake:
            await lake.create_database("db")
            table = await lake.create_table(
                "db.t", SCHEMA, primary_key="id", indexes={"n": "inverted"}, options=SMALL
            )
            await table.append(rows(3))
            known = await lake.index_metas().to_arrow(COMPACT)
        tables = SystemTables(host_of(outer))
        for url in (f"file://{tmp_path}", f"file://{table.location.removeprefix('file://')}"):
            provider = tables.function("index_metas", url, concurrency=32)
            assert provider is not None
            batches = [batch async for batch in provider.scan(["meta_json"], None)]
            assert [row for batch in batches for row in batch["meta_json"].to_pylist()] == known[
                "meta_json"
            ].to_pylist()
        assert tables.function("read_parquet", "x") is None
        with pytest.raises(InvalidInputError, match="did you mean 'concurrency'"):
            tables.function("index_metas", "x", concurrencyy=1)
        with pytest.raises(InvalidInputError, match="above 0"):
            tables.function("index_metas", "x", concurrency=0)


async def test_accounts_name_no_locations() -> None:
    """An account reads tables that it sees; URLs in its statements are refused."""
    async with _lake() as lake:
        tables = SystemTables(host_of(lake.for_account("ana")))
        provider = tables.function("index_metas", lake.store.url)
        assert provider is not None
        with pytest.raises(PermissionDeniedError, match="'ana'"):
            [batch async for batch in provider.scan(["meta_json"], None)]
