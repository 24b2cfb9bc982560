"""Relations of a table: how many objects one of them reads at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pyarrow as pa
import pytest

from lakehouse.config import Settings
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from tests.kit.worlds import NAME, process, restored

R = TypeVar("R")


class InFlight(StoreDecorator):
    """Counts the requests about snapshots that are under way at once."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.now = self.most = 0

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """See :class:`StoreDecorator`."""
        if "/snapshot/snapshot-" not in key:
            return await request()
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0)
            return await request()
        finally:
            self.now -= 1


@pytest.mark.parametrize("at_once", [1, 3])
async def test_read_concurrency_bounds_the_reads_of_a_step(at_once: int) -> None:
    """As many snapshots are read at once as ``table.read_concurrency`` allows, and no more."""
    store = await restored({})
    writer = process(store)
    await writer.create_database("db")
    table = await writer.create_table(NAME, pa.schema({"id": pa.int64()}), primary_key="id")
    for number in range(6):
        await table.upsert([{"id": number}])
    counted = InFlight(store)
    settings = Settings.resolve({"table.read_concurrency": at_once})
    reader = await Lake(stacked(counted), settings=settings).table(NAME)
    assert (await reader.snapshots()).num_rows == 7
    assert counted.most == at_once
