"""Inventory of a lake: manifests and files of all tables, in one stream, at one request a manifest."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.catalog.inventory import FILES, MANIFESTS
from lakehouse.errors import CorruptionError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.io import measure
from lakehouse.lake import Lake
from tests.kit.iceberg_plans import DAY, delete_file, manifest, on_disk, three_days

_SCHEMA = pa.schema({"id": pa.int64()})


@contextlib.asynccontextmanager
async def _lake(directory: Path, *, buckets: int = 4) -> AsyncIterator[Lake]:
    """A lake with two tables, one with a manifest if it has enough buckets, and a catalog with two others."""
    for name, more in (("a", ()), ("b", (manifest("d", [delete_file(DAY, "p.parquet")], delete=True),))):
        on_disk(three_days(*more), directory / "web" / name)
    async with lakehouse.connect(f"memory://inventory/{directory.name}") as lake:
        await lake.create_database("own")
        many = await lake.create_table("own.many", _SCHEMA, primary_key="id", bucket=buckets)
        await many.append([{"id": number} for number in range(500)])
        few = await lake.create_table("own.few", _SCHEMA)
        await few.append([{"id": 1}])
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": f"file://{directory}"})
        yield lake


async def test_every_manifest_has_a_row(tmp_path: Path) -> None:
    """Manifests of our tables and of attached catalogs are listed with what is live by each of them."""
    async with _lake(tmp_path, buckets=140) as lake:
        scan = lake.manifests()
        rows = (await scan.to_arrow()).sort_by("path")
        assert rows.schema == MANIFESTS
        ours = rows.filter(pa.compute.equal(rows["table"], "own.many")).to_pylist()
        (one,) = ours
        files = await (await lake.table("own.many")).files()
        assert (one["catalog"], one["format"], one["content"]) == ("", "lakehouse", "data")
        assert (one["files"], one["rows"]) == (files.num_rows, 500)
        assert one["file_bytes"] == pa.compute.sum(files["bytes"]).as_py()
        theirs = [row for row in rows.to_pylist() if row["catalog"] == "ice"]
        assert sorted((row["table"], row["content"], row["files"], row["rows"]) for row in theirs) == [
            *[("ice.web.a", "data", 10, 100)] * 3,
            *[("ice.web.b", "data", 10, 100)] * 3,
            ("ice.web.b", "deletes", 1, 1),
        ]
        assert (scan.stats.tables, scan.stats.manifests, scan.problems) == (4, 8, [])


async def test_every_live_file_has_a_row(tmp_path: Path) -> None:
    """Files are listed once each, those that stand in the snapshot itself and delete files too."""
    async with _lake(tmp_path) as lake:
        scan = lake.data_files()
        rows = await scan.to_arrow()
        assert rows.schema == FILES
        counts = rows.group_by(["table", "content"]).aggregate([("path", "count_distinct")]).to_pylist()
        found = {(row["table"], row["content"]): row["path_count_distinct"] for row in counts}
        many = await (await lake.table("own.many")).files()
        assert found == {
            ("own.many", "data"): many.num_rows,
            ("own.few", "data"): 1,
            ("ice.web.a", "data"): 30,
            ("ice.web.b", "data"): 30,
            ("ice.web.b", "position_deletes"): 1,
        }
        (few,) = [row for row in rows.to_pylist() if row["table"] == "own.few"]
        assert few["manifest"] is None
        assert few["path"].startswith((await lake.table("own.few")).location)
        assert scan.stats.files == rows.num_rows


async def test_removed_files_are_not_live(tmp_path: Path) -> None:
    """Entries that a snapshot has removed from a manifest count no more, and have no row."""
    async with _lake(tmp_path, buckets=140) as lake:
        table = await lake.table("own.many")
        assert isinstance(table, lakehouse.Table)
        for number in range(3):
            await table.append([{"id": number}])
        await table.compact()
        rows = await lake.data_files("own.many").to_arrow()
        live = await table.files()
        assert sorted(rows["path"].to_pylist()) == sorted(
            f"{table.location}/{path}" for path in live["path"].to_pylist()
        )
        manifests = await lake.manifests("own.many").to_arrow()
        assert sum(manifests["files"].to_pylist()) <= live.num_rows


async def test_a_manifest_costs_one_request_and_none_again(tmp_path: Path) -> None:
    """A first scan fetches each manifest once; a second one finds all of them in memory."""
    async with _lake(tmp_path) as lake:
        with measure() as opening:
            for name in ("ice.web.a", "ice.web.b"):
                table = await lake.table(name)
                await table.manifests()
        with measure() as first:
            await lake.manifests("ice").to_arrow()
        again = lake.data_files("ice")
        with measure() as second:
            await again.to_arrow()
        assert first.requests - second.requests == 7
        assert opening.requests <= second.requests
        assert (again.stats.manifests, again.stats.cache_hits) == (7, 7)


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("own", {"own.many", "own.few"}),
        ("own.few", {"own.few"}),
        ("ice", {"ice.web.a", "ice.web.b"}),
        ("ice.web", {"ice.web.a", "ice.web.b"}),
        ("ice.web.a", {"ice.web.a"}),
    ],
)
async def test_a_name_limits_the_scan(tmp_path: Path, name: str, tables: set[str]) -> None:
    """A name of a database, a table, a catalog, a namespace or a table of one limits what is read."""
    async with _lake(tmp_path) as lake:
        scan = lake.data_files(name)
        assert set((await scan.to_arrow())["table"].to_pylist()) == tables
        assert scan.stats.tables == len(tables)


async def test_a_broken_manifest_costs_its_own_rows(tmp_path: Path) -> None:
    """A manifest that is damaged and one that is missing are two problems; all others are read."""
    async with _lake(tmp_path) as lake:
        broken = tmp_path / "web" / "a" / "metadata" / "m0.avro"
        broken.write_bytes(broken.read_bytes()[:-20] + bytes(20))
        (tmp_path / "web" / "b" / "metadata" / "m1.avro").unlink()
        scan = lake.data_files("ice")
        rows = await scan.to_arrow()
        assert rows.num_rows == 61 - 20
        assert sorted((problem.table, problem.kind) for problem in scan.problems) == [
            ("ice.web.a", "corruption"),
            ("ice.web.b", "corruption"),
        ]
        assert [problem.path or "" for problem in scan.problems if "m1.avro" in (problem.path or "")]
        assert scan.stats.failed_manifests == 2
        with pytest.raises(CorruptionError):
            await lake.data_files("ice", errors="raise").to_arrow()


async def test_a_broken_table_costs_its_own_rows(tmp_path: Path) -> None:
    """One table whose metadata are damaged is one problem among the rows of all others."""
    async with _lake(tmp_path) as lake:
        (metadata,) = (tmp_path / "web" / "a" / "metadata").glob("*.metadata.json")
        metadata.write_bytes(b"{")
        scan = lake.data_files()
        rows = await scan.to_arrow()
        assert "ice.web.b" in rows["table"].to_pylist()
        assert [(problem.table, problem.path) for problem in scan.problems] == [("ice.web.a", None)]
        assert (scan.stats.failed_tables, scan.stats.tables) == (1, 3)


async def test_a_catalog_that_is_down_is_one_problem(tmp_path: Path) -> None:
    """A catalog that does not answer is named, and the tables of others are read."""
    async with _lake(tmp_path) as lake:
        await lake.attach_catalog("down", {"type": "rest", "uri": "http://127.0.0.1:9"})
        scan = lake.manifests()
        assert (await scan.to_arrow()).num_rows == 7
        assert [problem.table for problem in scan.problems] == ["down"]


async def test_a_table_that_is_named_must_be_there(tmp_path: Path) -> None:
    """A name that means nothing is a problem, or an error where problems are raised."""
    async with _lake(tmp_path) as lake:
        for name in ("own.none", "ice.web.none"):
            scan = lake.manifests(name)
            await scan.to_arrow()
            assert [problem.kind for problem in scan.problems] == ["not-found"]
            with pytest.raises(LakehouseError, match="none"):
                await lake.manifests(name, errors="raise").to_arrow()
        with pytest.raises(NotFoundError, match="elsewhere"):
            await lake.manifests("elsewhere").to_arrow()


async def test_batches_are_of_the_size_asked_for(tmp_path: Path) -> None:
    """Rows come in batches of the given size, the last one smaller; a scan is iterated once."""
    async with _lake(tmp_path) as lake:
        scan = lake.data_files("ice.web.a")
        assert [batch.num_rows async for batch in scan.batches(rows=8)] == [8, 8, 8, 6]
        with pytest.raises(InvalidInputError, match="iterated once"):
            await scan.to_arrow()


async def test_bounds_of_a_scan_are_checked(tmp_path: Path) -> None:
    """A concurrency below one and unknown words are refused before anything is read."""
    async with _lake(tmp_path) as lake:
        with pytest.raises(InvalidInputError, match="at least 1"):
            lake.manifests(concurrency=0)
        with pytest.raises(InvalidInputError, match="'collect' or 'raise'"):
            lake.manifests(errors="ignore")  # type: ignore[arg-type]
