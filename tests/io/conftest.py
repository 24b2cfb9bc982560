"""Fixtures of the tests of ``lakehouse.io``."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.proxy import FaultProxy
from tests.kit.crew import tasks


@pytest.fixture
async def nothing_left(anyio_backend: str) -> AsyncIterator[None]:
    """The test ends with the tasks it began with, and with no error that nobody looked at."""
    loop = asyncio.get_running_loop()
    before, handler = tasks(), loop.get_exception_handler()
    overlooked: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: overlooked.append(context))
    yield
    gc.collect(1)  # what the test dropped is young
    await asyncio.sleep(0)
    loop.set_exception_handler(handler)
    assert tasks() == before
    assert overlooked == []


@pytest.fixture(scope="module")
def bucket(minio: ServerInfo) -> Iterator[str]:
    """One bucket for all tests of a module; each has keys of its own."""
    with fresh_bucket(minio) as name:
        yield name


@pytest.fixture
async def proxy(minio: ServerInfo) -> AsyncIterator[FaultProxy]:
    """A proxy in front of the store."""
    async with FaultProxy(minio.endpoint_url) as found:
        yield found
