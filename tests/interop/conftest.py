"""The stores that the engine commits on, each as an empty place; and tables that Spark made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakehouse.ids import new_token
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from tests.interop.iceberg import peer
from tests.interop.iceberg.axes import points
from tests.interop.real_stores import Place


@pytest.fixture(params=["memory", "local", "moto", "minio", "versitygw"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty place on each store in turn."""
    if request.param == "memory":
        name = f"interop-{new_token()}"
        yield Place(url=f"memory://{name}", options={})
        for path in [path for path in MemoryFileSystem.store if path.startswith(f"/{name}/")]:
            del MemoryFileSystem.store[path]
    elif request.param == "local":
        yield Place(url=f"file://{tmp_path}/place", options={})
    else:
        info: ServerInfo = request.getfixturevalue(request.param)
        with fresh_bucket(info) as bucket:
            yield Place(url=f"s3://{bucket}/place", options=info.storage_options)


@pytest.fixture(scope="session")
def iceberg_warehouse() -> Path:
    """Iceberg tables that Spark made; where Spark cannot run here, the reason."""
    problem = peer.problem()
    if problem is not None:
        pytest.skip(f"not run: {problem}")
    return peer.tables()


@pytest.fixture(
    params=range(len(points())),
    ids=lambda number: f"t{number:03d}-" + "-".join(points()[number].values()).replace(" ", "_"),
)
def iceberg_directory(request: pytest.FixtureRequest, iceberg_warehouse: Path) -> Path:
    """Each of these tables in turn."""
    return iceberg_warehouse / f"t{request.param:03d}"
