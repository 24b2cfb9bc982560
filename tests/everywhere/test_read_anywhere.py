"""A warehouse is read from wherever its files are: a server of pages, an archive, behind a cache."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.errors import InvalidInputError
from lakehouse.index import PrefixSource, iterate_index_metas
from lakehouse.index.models import IndexType
from lakehouse.io import open_store
from tests.kit.serving import serving

COLUMNS = pa.schema({"id": pa.int64(), "item": pa.string(), "day": pa.string()})


@dataclass(frozen=True)
class Place:
    """A directory with a warehouse, and the same packed."""

    root: Path
    newest: int


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A table with three commits, partitions with odd names, indexes and a tag."""
    root = tmp_path_factory.mktemp("anywhere")
    async with lakehouse.connect(str(root / "wh")) as lake:
        await lake.create_database("shop")
        table = await lake.create_table(
            "shop.orders",
            COLUMNS,
            primary_key="id",
            partition_by="day",
            indexes={"item": "bloom"},
            options={"index.min_rows": 1},
        )
        done = await table.upsert([_row(n, 0) for n in range(100)])
        await table.create_tag("first", snapshot=done.snapshot)
        await table.upsert([_row(n, 1) for n in range(100, 150)])
        newest = (await table.delete("id < 10")).snapshot
    with zipfile.ZipFile(root / "wh.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted((root / "wh").rglob("*")):
            packed.write(path, path.relative_to(root))
    for name, mode in (("wh.tar", "w"), ("wh.tar.gz", "w:gz")):
        with tarfile.open(root / name, mode) as archive:  # type: ignore[call-overload]
            archive.add(root / "wh", "wh")
    return Place(root=root, newest=newest)


def _row(number: int, day: int) -> dict[str, Any]:
    return {"id": number, "item": f"item {number}", "day": f"2026/01 {day} ä%"}


@contextmanager
def _path(place: Place, url: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield url.format(root=place.root), {}


@contextmanager
def _served(place: Place, *, ranges: bool, url: str = "{url}/wh") -> Iterator[tuple[str, dict[str, Any]]]:
    with serving(place.root, ranges=ranges) as pages:
        yield url.format(url=pages.url), {}


@contextmanager
def _cached(place: Place, cache: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield f"{cache}::{place.root}/wh", {"cache_storage": str(place.root / cache)}


WAYS: dict[str, Callable[[Place], Any]] = {
    "http": lambda place: _served(place, ranges=True),
    "http, ranges unknown": lambda place: _served(place, ranges=False),
    "zip": lambda place: _path(place, "zip://wh::{root}/wh.zip"),
    "zip, from a server": lambda place: _served(place, ranges=True, url="zip://wh::{url}/wh.zip"),
    "tar": lambda place: _path(place, "tar://wh::file://{root}/wh.tar"),
    "tar, compressed": lambda place: _path(place, "tar://wh::{root}/wh.tar.gz"),
    "dir": lambda place: _path(place, "dir://wh::{root}"),
    "simplecache": lambda place: _cached(place, "simplecache"),
    "filecache": lambda place: _cached(place, "filecache"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_warehouse_is_read(way: str, place: Place) -> None:
    """Tables are found, scanned, looked up and travelled in; their indexes are enumerated."""
    with WAYS[way](place) as (url, options):
        async with lakehouse.connect(url, storage_options=options) as lake:
            assert await lake.databases() == ["shop"]
            assert [str(name) async for name in lake.tables("shop")] == ["shop.orders"]
            table = await lake.table("shop.orders")
            assert await table.scan().count() == 140
            assert (await table.scan("item = 'item 77'").to_arrow())["id"].to_pylist() == [77]
            assert await table.get({"id": 120}) == _row(120, 1)
            assert await table.get({"id": 5}) is None
            assert await table.scan(tag="first").count() == 100
            assert await table.scan(snapshot=place.newest - 1).count() == 150
            assert await table.scan(timestamp="2100-01-01").count() == 140
            assert await table.scan(freshness="wal").count() == 140
            changed = [batch.num_rows async for batch in table.changes(place.newest - 1, place.newest)]
            assert sum(changed) == 10
            assert (await table.verify()).ok
            kinds = [entry.index_type async for entry in lake.index_metas()]
            assert kinds
            assert set(kinds) == {IndexType.BLOOM_SKIPPING}


@pytest.mark.parametrize("way", WAYS)
async def test_index_files_are_found_by_listing(way: str, place: Place) -> None:
    """``index-metas`` of a place that nobody has to know finds every puffin file below it."""
    found = sorted(path.name for path in place.root.joinpath("wh").rglob("*.puffin"))
    with WAYS[way](place) as (url, options):
        async with open_store(url, storage_options=options) as store:
            paths = {
                entry.locator.index_file_path async for entry in iterate_index_metas(PrefixSource(store))
            }
    assert sorted(path.rpartition("/")[2] for path in paths) == found


@pytest.mark.parametrize("way", WAYS)
async def test_a_warehouse_is_not_written(way: str, place: Place) -> None:
    """Whatever would write is refused by name, and nothing is changed."""
    before = sorted(place.root.joinpath("wh").rglob("*"))
    with WAYS[way](place) as (url, options):
        async with lakehouse.connect(url, storage_options=options) as lake:
            table = await lake.table("shop.orders")
            for write in (
                lake.create_database("other"),
                lake.create_table("shop.other", COLUMNS),
                lake.drop_table("shop.orders"),
                table.upsert([_row(1, 1)]),
                table.delete("id = 20"),
                table.add_column("price", "double"),
                table.expire_snapshots(retain=1),
                table.create_tag("second"),
            ):
                with pytest.raises(InvalidInputError, match=r"the store at .* cannot be written: .{10,}"):
                    await write
    assert sorted(place.root.joinpath("wh").rglob("*")) == before


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("zip://wh::{root}/nothing.zip", "cannot open zip://wh::file://.*/nothing.zip"),
        ("zip://wh::{root}/broken.zip", "cannot be opened: BadZipFile"),
        ("tar://wh::{root}/broken.tar", "cannot be opened: ReadError"),
    ],
)
async def test_an_archive_that_cannot_be_opened_says_so(url: str, says: str, tmp_path: Path) -> None:
    """A missing or broken archive is an error about the archive, and no missing table."""
    for name in ("broken.zip", "broken.tar"):
        (tmp_path / name).write_bytes(b"this is no archive " * 100)
    async with lakehouse.connect(url.format(root=tmp_path)) as lake:
        with pytest.raises(InvalidInputError, match=says):
            await lake.table("shop.orders")


def test_options_of_later_links_have_a_mapping_of_their_own() -> None:
    """Options of a chain go to its first link, those under the name of a scheme to that link."""
    options = {"s3": {"AWS_ENDPOINT_URL": "http://e", "s3.region": "r"}, "compression": 8}
    lakehouse.connect("zip://wh::s3://bucket/wh.zip", storage_options=options)
    with pytest.raises(InvalidInputError, match="did you mean 'endpoint_url'"):
        lakehouse.connect("zip://wh::s3://bucket/wh.zip", storage_options={"s3": {"endpoint_ulr": "x"}})
    with pytest.raises(InvalidInputError, match="no storage option 'endpoint_url' for zip://"):
        lakehouse.connect("zip://wh::s3://bucket/wh.zip", storage_options={"endpoint_url": "x"})
