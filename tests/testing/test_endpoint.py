"""An object store's address: options for clients, and buckets for tests."""

from __future__ import annotations

import pytest
import s3fs

from lakehouse.errors import UnavailableError
from lakehouse.testing.endpoint import (
    ServerInfo,
    create_bucket,
    delete_bucket,
    fresh_bucket,
    wait_until_it_lists,
)


def info_at(url: str, region: str | None = None) -> ServerInfo:
    """A store that need not exist."""
    return ServerInfo(kind="moto", endpoint_url=url, key="who", secret="hush", region=region, note="a store")


def file_system(info: ServerInfo) -> s3fs.S3FileSystem:
    """A client that remembers nothing."""
    return s3fs.S3FileSystem(**info.storage_options, skip_instance_cache=True, use_listings_cache=False)


def test_a_region_is_handed_to_clients_only_when_there_is_one() -> None:
    """Without a region s3fs must not ask for a location when it creates buckets."""
    assert info_at("http://x").storage_options == {"endpoint_url": "http://x", "key": "who", "secret": "hush"}
    assert info_at("http://x", "eu-west-1").storage_options["client_kwargs"] == {"region_name": "eu-west-1"}


def test_the_secret_is_not_shown() -> None:
    """Neither repr nor description of a store gives its secret away."""
    info = info_at("http://x")
    assert "hush" not in repr(info)
    assert "hush" not in info.describe()


def test_a_bucket_is_made_and_deleted_with_its_content(object_store_server: ServerInfo) -> None:
    """A fresh bucket can be written to and is gone after the block, content included."""
    files = file_system(object_store_server)
    with fresh_bucket(object_store_server) as name:
        for number in range(3):
            files.pipe_file(f"{name}/a/{number}", b"x")
        assert len(files.ls(f"{name}/a")) == 3
    with pytest.raises(FileNotFoundError):
        files.ls(name)


def test_every_bucket_is_another(object_store_server: ServerInfo) -> None:
    """Two fresh buckets at one time do not meet."""
    with fresh_bucket(object_store_server) as one, fresh_bucket(object_store_server) as other:
        assert one != other


def test_a_bucket_is_created_in_the_region(moto: ServerInfo) -> None:
    """A store that insists on a region is asked for that location."""
    info = info_at(moto.endpoint_url, region="eu-west-1")
    create_bucket(info, "in-the-west")
    try:
        location = file_system(info).call_s3("get_bucket_location", Bucket="in-the-west")
        assert location["LocationConstraint"] == "eu-west-1"
    finally:
        delete_bucket(info, "in-the-west")


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
