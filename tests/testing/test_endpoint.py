"""An object store's address: options for clients, and buckets for tests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import s3fs

from lakehouse.errors import UnavailableError
from lakehouse.testing.endpoint import (
    ServerInfo,
    fresh_bucket,
    wait_until_it_lists,
)


def info_at(url: str, region: str | None = None) -> ServerInfo:
    """A store that need not exist."""
    return ServerInfo(kind="moto", endpoint_url=url, key="who", secret="hush", region=region, note="a store")


@contextlib.asynccontextmanager
async def file_system(options: dict[str, Any]) -> AsyncIterator[s3fs.S3FileSystem]:
    """fsspec's client of a store, closed with the block."""
    files = s3fs.S3FileSystem(
        **options, asynchronous=True, skip_instance_cache=True, use_listings_cache=False
    )
    session = await files.set_session()
    try:
        yield files
    finally:
        await session.close()


def test_a_region_is_handed_to_clients_only_when_there_is_one() -> None:
    """Without a region s3fs must not ask for a location when it creates buckets."""
    assert info_at("http://x").storage_options == {"endpoint_url": "http://x", "key": "who", "secret": "hush"}
    assert info_at("http://x", "eu-west-1").storage_options["client_kwargs"] == {"region_name": "eu-west-1"}


def test_the_secret_is_not_shown() -> None:
    """Neither repr nor description of a store gives its secret away."""
    info = info_at("http://x")
    assert "hush" not in repr(info)
    assert "hush" not in info.describe()


async def test_a_bucket_is_made_and_deleted_with_its_content(object_store_server: ServerInfo) -> None:
    """A fresh bucket can be written to and is gone after the block, content included."""
    async with file_system(object_store_server.storage_options) as files:
        with fresh_bucket(object_store_server) as name:
            for number in range(3):
                await files._pipe_file(f"{name}/a/{number}", b"x")
            assert len(await files._ls(f"{name}/a")) == 3
        with pytest.raises(FileNotFoundError):
            await files._ls(name)


async def test_a_bucket_of_a_test_is_its_own(bucket_url: str, storage_options: dict[str, Any]) -> None:
    """The fixtures give the URL of an empty bucket and the options to open it with."""
    async with file_system(storage_options) as files:
        assert await files._ls(bucket_url) == []
        await files._pipe_file(f"{bucket_url}/key", b"value")
        assert await files._cat_file(f"{bucket_url}/key") == b"value"


def test_every_bucket_is_another(object_store_server: ServerInfo) -> None:
    """Two fresh buckets at one time do not meet."""
    with fresh_bucket(object_store_server) as one, fresh_bucket(object_store_server) as other:
        assert one != other


async def test_a_bucket_is_created_in_the_region(moto: ServerInfo) -> None:
    """A store that insists on a region is asked for that location."""
    info = info_at(moto.endpoint_url, region="eu-west-1")
    with fresh_bucket(info) as name:
        async with file_system(info.storage_options) as files:
            location = await files._call_s3("get_bucket_location", Bucket=name)
    assert location["LocationConstraint"] == "eu-west-1"


def test_a_proxy_of_the_environment_is_not_used(
    object_store_server: ServerInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests to the store go to the store, whatever http_proxy says."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert wait_until_it_lists(object_store_server, seconds=0)


def test_waiting_ends_when_the_server_has_ended() -> None:
    """A server that is known to be gone is not waited for."""
    assert not wait_until_it_lists(info_at("http://127.0.0.1:9"), seconds=60, ended=lambda: True)


def test_waiting_is_bounded() -> None:
    """A store that does not answer is given up in the time allowed."""
    with pytest.raises(UnavailableError, match=r"within 0\.05 s"):
        wait_until_it_lists(info_at("http://127.0.0.1:9"), seconds=0.05)
