"""Catalogs through pyiceberg: SQL and REST, found tables, what they cost, and errors."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.sql import SqlCatalog

from lakehouse.config import Settings
from lakehouse.errors import (
    CorruptionError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.iceberg.catalogs.properties import CatalogProperties
from lakehouse.iceberg.catalogs.through_pyiceberg import PyicebergCatalog
from lakehouse.io import measure
from lakehouse.testing.endpoint import ServerInfo
from tests.kit.expiring_store import ExpiringStore, expiring_store
from tests.kit.iceberg_metadata import document, encoded
from tests.kit.iceberg_rest import RestServer, rest_catalog

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
_SETTINGS = Settings.resolve({"io.retry_attempts": 1})


@contextlib.asynccontextmanager
async def attached(**properties: Any) -> AsyncIterator[PyicebergCatalog]:
    """A catalog for the time of a block."""
    catalog = PyicebergCatalog(CatalogProperties.parse("ice", properties), settings=_SETTINGS)
    try:
        yield catalog
    finally:
        await catalog.aclose()


def sql_table(directory: Path, warehouse: str, name: str = "web.events", **properties: str) -> dict[str, str]:
    """Makes a table of three rows in a SQL catalog, and returns the properties that the catalog needs."""
    uri = f"sqlite:///{directory}/catalog.db"
    with contextlib.closing(SqlCatalog("ice", uri=uri, warehouse=warehouse, **properties)) as catalog:
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        catalog.create_table(name, ROWS.schema).append(ROWS)
    return {"type": "sql", "uri": uri, **properties}


async def test_a_table_of_a_sql_catalog_costs_one_get(tmp_path: Path) -> None:
    """A table is found for one GET of its metadata file, read by our own store."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse")
    async with attached(**properties) as catalog:
        with measure() as cost:
            found = await catalog.find(("web", "events"))
        async with found.locations:
            snapshot = found.metadata.current_snapshot
            assert snapshot is not None
            assert snapshot.summary["total-records"] == "3"
    assert cost.by_kind() == {"get": 1}


async def test_a_table_of_an_attached_sql_catalog_on_s3_is_read_by_the_properties(
    tmp_path: Path, bucket_url: str, object_store_server: ServerInfo
) -> None:
    """``s3.…`` properties of a catalog say how files of its tables are reached."""
    info = object_store_server
    properties = sql_table(
        tmp_path,
        f"{bucket_url}/warehouse",
        **{
            "s3.endpoint": info.endpoint_url,
            "s3.access-key-id": info.key,
            "s3.secret-access-key": info.secret,
            "s3.region": info.region or "us-east-1",
        },
    )
    async with attached(**properties) as catalog:
        found = await catalog.find(("web", "events"))
        async with found.locations:
            assert found.metadata.current_schema.names == ("id", "name")
            assert found.locations.store.url.startswith(bucket_url)


async def test_metadata_that_pyiceberg_cannot_read_do_no_harm(tmp_path: Path) -> None:
    """A column of a type that pyiceberg does not know does not keep a table from being opened."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse")
    for file in (tmp_path / "warehouse").rglob("*.metadata.json"):
        said = json.loads(file.read_bytes())
        for schema in said["schemas"]:
            schema["fields"].append({"id": 9, "name": "odd", "required": False, "type": "hologram"})
        file.write_text(json.dumps({**said, "format-version": 3, "next-row-id": 3}))
    async with attached(**properties) as catalog:
        found = await catalog.find(("web", "events"))
        await found.locations.aclose()
    assert found.metadata.current_schema.unread == {"odd": "hologram"}


async def test_metadata_are_read_again_through_the_same_places(tmp_path: Path) -> None:
    """Finding a table again shows what was committed meanwhile, and opens no other places."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse")
    async with attached(**properties) as catalog:
        first = await catalog.find(("web", "events"))
        with contextlib.closing(SqlCatalog("ice", uri=properties["uri"])) as writer:
            writer.load_table("web.events").append(ROWS)
        again = await catalog.find(("web", "events"), first.locations)
        await first.locations.aclose()
    assert again.locations is first.locations
    assert len(again.metadata.snapshots) == len(first.metadata.snapshots) + 1


async def test_nested_namespaces_are_listed_and_found(tmp_path: Path) -> None:
    """Tables of a namespace inside another have the names of both."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse", "a.b.t")
    async with attached(**properties) as catalog:
        found = await catalog.find(("a", "b", "t"))
        await found.locations.aclose()
        assert await catalog.tables(("a", "b")) == ["t"]
        assert await catalog.namespaces(("a",)) == [("a", "b")]


async def test_a_missing_table_names_the_nearest(tmp_path: Path) -> None:
    """The error for a name that is not there suggests the one that was probably meant."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse")
    async with attached(**properties) as catalog:
        with pytest.raises(NotFoundError, match=r"no table 'web.event'; .*did you mean 'events'") as missing:
            await catalog.find(("web", "event"))
        assert missing.value.context["missing"] == "table"
        with pytest.raises(NotFoundError, match=r"no namespace 'wev'; did you mean 'web'") as missing:
            await catalog.find(("wev", "events"))
        assert missing.value.context["missing"] == "namespace"


async def test_a_missing_metadata_file_is_no_missing_table(tmp_path: Path) -> None:
    """A table whose metadata file is gone is told from a name that the catalog does not have."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse")
    for file in (tmp_path / "warehouse").rglob("*.metadata.json"):
        file.unlink()
    async with attached(**properties) as catalog:
        with pytest.raises(NotFoundError, match="metadata") as missing:
            await catalog.find(("web", "events"))
    assert "missing" not in missing.value.context


async def test_an_attached_sql_catalog_is_not_written(tmp_path: Path) -> None:
    """A database without tables of a catalog gets none by being asked."""
    async with attached(type="sql", uri=f"sqlite:///{tmp_path}/empty.db") as catalog:
        with pytest.raises(UnavailableError, match="iceberg_tables"):
            await catalog.find(("web", "events"))
    assert not (tmp_path / "empty.db").exists() or not (tmp_path / "empty.db").stat().st_size


async def test_a_table_of_glue_is_found(tmp_path: Path, moto: ServerInfo) -> None:
    """A catalog of AWS Glue gives tables as others do; databases are its namespaces."""
    properties = {
        "glue.endpoint": moto.endpoint_url,
        "glue.access-key-id": moto.key,
        "glue.secret-access-key": moto.secret,
        "glue.region": "us-east-1",
    }
    name = f"web{tmp_path.name}".replace("_", "").lower()
    writer = GlueCatalog("ice", warehouse=f"file://{tmp_path}/warehouse", **properties)
    writer.create_namespace(name)
    writer.create_table((name, "events"), ROWS.schema, location=f"file://{tmp_path}/events").append(ROWS)
    async with attached(type="glue", **properties) as catalog:
        found = await catalog.find((name, "events"))
        await found.locations.aclose()
        assert await catalog.tables((name,)) == ["events"]
        assert (name,) in await catalog.namespaces()
        with pytest.raises(NotFoundError, match="did you mean 'events'"):
            await catalog.find((name, "event"))
        with pytest.raises(NotFoundError, match="no namespace 'nothing'"):
            await catalog.find(("nothing", "events"))
    assert len(found.metadata.snapshots) == 1


# --- REST -------------------------------------------------------------------------------


@pytest.fixture
def rest() -> Iterator[RestServer]:
    """A REST catalog with no tables yet."""
    with rest_catalog() as server:
        yield server


@pytest.fixture
def files() -> Iterator[ExpiringStore]:
    """An S3 store whose keys expire."""
    with expiring_store() as store:
        yield store


def _answer(files: ExpiringStore, keys: list[str], **changed: Any) -> Mapping[str, Any]:
    """An answer that hands out the next access key."""
    said = document(**changed)
    return {
        "metadata-location": "s3://bucket/wh/t/metadata/00001-a.metadata.json",
        "metadata": said,
        "config": {
            "s3.endpoint": files.url,
            "s3.access-key-id": keys.pop(0),
            "s3.secret-access-key": "a-secret-of-the-catalog",
            "s3.region": "us-east-1",
            "for-other-programs": "x",
        },
    }


async def test_a_table_of_a_rest_catalog_is_read_with_what_the_catalog_hands_out(
    rest: RestServer, files: ExpiringStore
) -> None:
    """Endpoint and credentials come with the table; the metadata file is one GET."""
    files.keys, files.objects = {"k1"}, {"bucket/wh/t/metadata/00001-a.metadata.json": encoded(document())}
    rest.tables[("db", "t")] = lambda: _answer(files, ["k1"])
    async with attached(type="rest", uri=rest.url) as catalog:
        with measure() as cost:
            found = await catalog.find(("db", "t"))
        await found.locations.aclose()
    assert found.metadata.last_sequence_number == 34
    assert cost.by_kind() == {"get": 1}
    assert rest.asked == ["GET /v1/config", "GET /v1/namespaces/db/tables/t"]


async def test_credentials_of_a_place_go_before_those_of_the_table(
    rest: RestServer, files: ExpiringStore
) -> None:
    """Of ``storage-credentials`` the one with the longest prefix of the metadata's location is taken."""
    files.keys, files.objects = {"best"}, {"bucket/wh/t/metadata/00001-a.metadata.json": encoded(document())}
    places = [
        {"prefix": prefix, "config": {"s3.access-key-id": key, "s3.secret-access-key": "s"}}
        for prefix, key in [("s3://bucket/", "wide"), ("s3://bucket/wh/t", "best"), ("s3://other", "other")]
    ]
    rest.tables[("db", "t")] = lambda: {**_answer(files, ["k1"]), "storage-credentials": places}
    async with attached(type="rest", uri=rest.url) as catalog:
        await (await catalog.find(("db", "t"))).locations.aclose()
    assert [key for key, *_ in files.asked] == ["best"]


async def test_properties_of_a_table_say_nothing_about_endpoints(
    rest: RestServer, files: ExpiringStore
) -> None:
    """Whoever may write a table cannot send its readers' credentials elsewhere."""
    files.keys, files.objects = {"k1"}, {"bucket/wh/t/metadata/00001-a.metadata.json": encoded(document())}
    rest.config["defaults"] = {"s3.endpoint": files.url, "s3.region": "us-east-1"}
    written = {"s3.endpoint": "http://127.0.0.1:9", "s3.region": "nowhere"}

    def answer() -> Mapping[str, Any]:
        config = {"s3.access-key-id": "k1", "s3.secret-access-key": "s"}
        return {**_answer(files, ["k1"], properties=written), "config": config}

    rest.tables[("db", "t")] = answer
    async with attached(type="rest", uri=rest.url) as catalog:
        await (await catalog.find(("db", "t"))).locations.aclose()
    assert files.asked == [("k1", "bucket/wh/t/metadata/00001-a.metadata.json", 200)]


async def test_metadata_may_come_with_the_answer_alone(rest: RestServer, files: ExpiringStore) -> None:
    """A catalog that keeps no metadata files is believed what it says."""
    rest.tables[("db", "t")] = lambda: {**_answer(files, ["k1"]), "metadata-location": None}
    async with attached(type="rest", uri=rest.url) as catalog:
        found = await catalog.find(("db", "t"))
        await found.locations.aclose()
    assert found.metadata.current_schema.names == ("x", "y")
    assert list(found.metadata.snapshots) == [one["snapshot-id"] for one in document()["snapshots"]]
    assert files.asked == []


async def test_expired_credentials_are_asked_for_again_once(rest: RestServer, files: ExpiringStore) -> None:
    """A read that is refused in the middle is made once more, with credentials the catalog hands out then."""
    name = "bucket/wh/t/metadata/00001-a.metadata.json"
    files.keys, files.objects = {"k1"}, {name: encoded(document())}
    keys = ["k1", "k2", "k3"]
    rest.tables[("db", "t")] = lambda: _answer(files, keys)
    async with attached(type="rest", uri=rest.url) as catalog:
        found = await catalog.find(("db", "t"))
        async with found.locations as places:
            files.keys = {"k2"}
            place = places.find("s3://bucket/wh/t/metadata/00001-a.metadata.json")
            assert (await place.store.get(place.key)).data == files.objects[name]
            assert keys == ["k3"]
            # Refused again: the catalog is asked, and its answer tried once.
            files.keys = set()
            with pytest.raises(PermissionDeniedError):
                await place.store.get(place.key)
    assert [(key, status) for key, _, status in files.asked if status == 200] == [("k1", 200), ("k2", 200)]
    assert keys == []


async def test_a_missing_table_of_a_rest_catalog_names_the_nearest(
    rest: RestServer, files: ExpiringStore
) -> None:
    """Tables and namespaces of a REST catalog are listed for the error."""
    rest.tables[("sales", "orders")] = lambda: _answer(files, ["k1"])
    async with attached(type="rest", uri=rest.url) as catalog:
        with pytest.raises(NotFoundError, match="did you mean 'orders'"):
            await catalog.find(("sales", "order"))
        with pytest.raises(NotFoundError, match="no namespace 'sale'; did you mean 'sales'"):
            await catalog.find(("sale", "order"))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidInputError),
        (401, PermissionDeniedError),
        (403, PermissionDeniedError),
        (419, PermissionDeniedError),
        (429, UnavailableError),
        (500, UnavailableError),
        (501, InvalidInputError),
        (503, UnavailableError),
    ],
)
async def test_a_status_of_the_catalog_is_an_error_of_ours(
    rest: RestServer, status: int, kind: type[LakehouseError]
) -> None:
    """Each status says what to do, and names the catalog and what was done."""
    async with attached(type="rest", uri=rest.url) as catalog:
        rest.failing = status
        with pytest.raises(kind, match="catalog 'ice': connecting") as failed:
            await catalog.find(("db", "t"))
    assert failed.value.context["catalog"] == "ice"


async def test_a_catalog_that_is_down_is_unreachable() -> None:
    """A catalog that nobody runs is unavailable, by its address."""
    async with attached(type="rest", uri="http://127.0.0.1:9") as catalog:
        with pytest.raises(UnavailableError, match=r"http://127.0.0.1:9 cannot be reached") as failed:
            await catalog.tables(("db",))
    assert failed.value.kind == "unreachable"


async def test_a_catalog_that_never_answers_is_given_up() -> None:
    """A call of a catalog takes no longer than a request may."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = Settings.resolve({"io.request_timeout_s": 0.3})
        catalog = PyicebergCatalog(
            CatalogProperties.parse("ice", {"type": "rest", "uri": uri}), settings=settings
        )
        with pytest.raises(UnavailableError, match="no answer in time") as failed:
            await catalog.tables(("db",))
    assert failed.value.kind == "timeout"


async def test_what_is_no_catalog_is_said(rest: RestServer) -> None:
    """An answer that is not Iceberg's is no answer of a catalog."""
    rest.config = {"defaults": 7}
    async with attached(type="rest", uri=rest.url) as catalog:
        with pytest.raises(CorruptionError, match="check that uri names a catalog"):
            await catalog.tables(("db",))


async def test_secrets_of_properties_show_in_no_error(rest: RestServer) -> None:
    """A token that the server repeats in its answer is hidden."""
    rest.token = "the-right-token"
    async with attached(type="rest", uri=rest.url, token="the-wrong-and-secret-token") as catalog:
        with pytest.raises(PermissionDeniedError) as failed:
            await catalog.tables(("db",))
    assert "wrong-and-secret" not in f"{failed.value} {failed.value!r} {failed.value.__cause__!r}"


@pytest.mark.parametrize(
    ("kind", "properties"),
    [("hive", {"uri": "thrift://127.0.0.1:9"}), ("sql", {"uri": "postgresql://127.0.0.1:9/x"})],
)
async def test_a_missing_library_is_named(kind: str, properties: dict[str, str]) -> None:
    """A type of catalog whose library is not installed says what to install."""
    async with attached(type=kind, **properties) as catalog:
        with pytest.raises(InvalidInputError, match=r"pip install 'pyiceberg\[") as failed:
            await catalog.tables(("db",))
    assert failed.value.kind == "missing-extra"


def test_the_extra_is_named_where_pyiceberg_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyiceberg a catalog that needs it is refused when it is attached."""
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'aiolakehouse\[iceberg\]'") as failed:
        PyicebergCatalog(
            CatalogProperties.parse("ice", {"type": "rest", "uri": "http://127.0.0.1:9"}), settings=Settings()
        )
    assert failed.value.kind == "missing-extra"
