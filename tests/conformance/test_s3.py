"""S3 keeps the contract of every store: on MinIO and on moto, with s3fs alone and with obstore reading.

Behind the store's back it is read and written by boto3, which shares nothing with s3fs
but botocore.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from lakehouse.config import IoSettings
from lakehouse.ids import new_token
from lakehouse.io import ObjectStore, open_store
from lakehouse.io.backends.fast import FastReads
from lakehouse.io.decorators import find_layer
from lakehouse.io.proofs.check import check_store
from lakehouse.testing.conformance import StoreConformance
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket


class S3Conformance(StoreConformance):
    """What the four S3 runs share."""

    fast_reads = "off"
    server: ServerInfo

    @pytest.fixture
    def bucket(self, request: pytest.FixtureRequest) -> Any:
        """A bucket of the test's own."""
        with fresh_bucket(self.server) as name:
            self.client = boto3.client(
                "s3",
                endpoint_url=self.server.endpoint_url,
                aws_access_key_id=self.server.key,
                aws_secret_access_key=self.server.secret,
                region_name=self.server.region or "us-east-1",
                config=Config(s3={"addressing_style": "path"}),
            )
            self.name = name
            yield name
            self.client.close()

    @pytest.fixture
    async def store(self, bucket: str) -> AsyncIterator[ObjectStore]:
        """A prefix of that bucket."""
        settings = IoSettings(fast_reads=self.fast_reads)
        options = self.server.storage_options
        async with open_store(f"s3://{bucket}/root", storage_options=options, settings=settings) as store:
            assert (find_layer(store, FastReads) is not None) == (self.fast_reads == "require")
            yield store

    def write_behind(self, key: str, data: bytes) -> None:
        """Writes with boto3."""
        self.client.put_object(Bucket=self.name, Key=f"root/{key}", Body=data)

    def read_behind(self, key: str) -> bytes:
        """Reads with boto3."""
        data: bytes = self.client.get_object(Bucket=self.name, Key=f"root/{key}")["Body"].read()
        return data

    async def test_check_store_lets_the_engine_commit(self, store: ObjectStore) -> None:
        """check_store passes this store and leaves nothing behind."""
        report = await check_store(store, rounds=(self.race_rounds + 1) // 2, large_bytes=0)
        assert report.may_commit, report.failures
        assert [meta.key async for meta in store.list()] == []


class OnMinio(S3Conformance):
    """MinIO: the real thing, so the races are real too."""

    race_rounds = 40

    @pytest.fixture(autouse=True)
    def _server(self, minio: ServerInfo) -> None:
        self.server = minio

    async def test_the_store_tells_its_time(self, store: ObjectStore) -> None:
        """Every answer that a commit depends on carries the store's clock."""
        put = await store.put_if_absent("time", b"x" + new_token().encode())
        head = await store.head("time")
        for told in (put.store_time_ms, head.store_time_ms):
            assert told is not None
            assert abs(told / 1000 - time.time()) < 30


class TestMinio(OnMinio):
    """MinIO through s3fs alone."""


class TestMinioFast(OnMinio):
    """MinIO with obstore reading beside s3fs."""

    fast_reads = "require"
    race_rounds = 4  # writes take the same way as without obstore


class OnMoto(S3Conformance):
    """moto: slow, so its races are short; it is no evidence about races anyway."""

    race_rounds = 2
    racers = 6

    @pytest.fixture(autouse=True)
    def _server(self, moto: ServerInfo) -> None:
        self.server = moto


class TestMoto(OnMoto):
    """moto through s3fs alone."""


class TestMotoFast(OnMoto):
    """moto with obstore reading beside s3fs."""

    fast_reads = "require"
