"""One Spark session for all tests of Spark, in one process; warehouses on disk and in the object store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse import spark as lakehouse_spark
from lakehouse.spark import Connection
from lakehouse.testing.endpoint import ServerInfo


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them in one worker: a session takes seconds to start and a gigabyte."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    """Two local cores."""
    found = lakehouse_spark.session(
        "tests",
        master="local[2]",
        memory="1g",
        config={"spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR"},
    )
    yield found
    found.stop()


@pytest.fixture
def connection(tmp_path: Path) -> Connection:
    """A warehouse in a directory of the test's own."""
    return Connection(url=f"file://{tmp_path}/warehouse-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def s3_connection(bucket_url: str, storage_options: dict[str, Any]) -> Connection:
    """A warehouse in the object store, in a bucket of the test's own."""
    return Connection(url=f"{bucket_url}/warehouse", storage_options=storage_options)


@pytest.fixture
def aws_environment(
    spark: SparkSession, object_store_server: ServerInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials in the environment of the driver, and of workers that are started from now on."""
    variables = {
        "AWS_ENDPOINT_URL": object_store_server.endpoint_url,
        "AWS_ACCESS_KEY_ID": object_store_server.key,
        "AWS_SECRET_ACCESS_KEY": object_store_server.secret,
        "AWS_DEFAULT_REGION": object_store_server.region or "us-east-1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
