"""Directories as catalogs: what is a table, what a namespace, and what a listing costs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.iceberg.catalogs.directory import DirectoryCatalog
from lakehouse.iceberg.catalogs.properties import CatalogProperties
from lakehouse.io import measure, open_store
from lakehouse.testing.endpoint import ServerInfo
from tests.kit.iceberg_metadata import document, encoded


@contextlib.asynccontextmanager
async def warehouse(url: str, *tables: str, **options: Any) -> AsyncIterator[DirectoryCatalog]:
    """A warehouse with these tables, given as ``namespace/table``."""
    async with open_store(url, storage_options=options) as store:
        for table in tables:
            at = f"{store.url}/{table}"
            await store.put(f"{table}/metadata/v1.metadata.json", encoded(document(location=at)))
            await store.put(f"{table}/metadata/version-hint.text", b"1")
            await store.put(f"{table}/data/one.parquet", b"rows")
    properties = {"type": "directory", "warehouse": url, "storage_options": options}
    catalog = DirectoryCatalog(CatalogProperties.parse("ice", properties), settings=Settings())
    try:
        yield catalog
    finally:
        await catalog.aclose()


async def test_tables_and_namespaces_are_told_apart() -> None:
    """A directory with metadata is a table, any other a namespace, however deep."""
    async with warehouse("memory://directories/told", "a/t", "a/u", "a/b/t", "c/t") as catalog:
        assert await catalog.namespaces() == [("a",), ("c",)]
        assert await catalog.namespaces(("a",)) == [("a", "b")]
        assert await catalog.tables(("a",)) == ["t", "u"]
        assert await catalog.tables(("a", "b")) == ["t"]
        found = await catalog.find(("a", "b", "t"))
    async with found.locations:
        assert found.metadata.location.endswith("/a/b/t")


async def test_a_list_costs_one_request_for_each_directory() -> None:
    """Listing tables takes one LIST of the namespace, and one of each directory in it."""
    async with warehouse("memory://directories/cost", *(f"a/t{number}" for number in range(5))) as catalog:
        with measure() as cost:
            assert len(await catalog.tables(("a",))) == 5
    assert cost.by_kind() == {"list": 6}


async def test_a_warehouse_may_be_on_s3_or_disk(
    tmp_path: Path, bucket_url: str, object_store_server: ServerInfo
) -> None:
    """What the storage options reach is a catalog too."""
    for url, options in [(f"{bucket_url}/wh", object_store_server.storage_options), (f"{tmp_path}/w h", {})]:
        async with warehouse(url, "a/t", **options) as catalog:
            assert await catalog.tables(("a",)) == ["t"]
            found = await catalog.find(("a", "t"))
            await found.locations.aclose()
            assert found.metadata.last_sequence_number == 34


async def test_missing_tables_and_namespaces_name_the_nearest() -> None:
    """Names that are not there suggest those that are."""
    async with warehouse("memory://directories/missing", "sales/orders") as catalog:
        with pytest.raises(NotFoundError, match=r"no table 'sales.order'; .* did you mean 'orders'"):
            await catalog.find(("sales", "order"))
        with pytest.raises(NotFoundError, match="no namespace 'sale'; did you mean 'sales'"):
            await catalog.find(("sale", "orders"))


@pytest.mark.parametrize("name", [("..", "t"), ("a", "b/c"), ("a", "")])
async def test_names_do_not_leave_the_warehouse(name: tuple[str, ...]) -> None:
    """A part of a name is a directory, and no path."""
    async with warehouse("memory://directories/names", "a/t") as catalog:
        with pytest.raises(InvalidInputError, match="names no directory"):
            await catalog.find(name)
