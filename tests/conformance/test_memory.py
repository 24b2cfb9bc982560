"""The memory backend keeps the contract of every store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakehouse.ids import new_token
from lakehouse.io import ObjectStore, open_store
from lakehouse.testing.conformance import StoreConformance


class TestMemory(StoreConformance):
    """``memory://``, read and written behind its back by fsspec's own memory file system."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[ObjectStore]:
        """A fresh root of the process-wide file system."""
        self.root = f"/conformance-{new_token()}"
        async with open_store(f"memory:/{self.root}") as store:
            yield store
        for path in [path for path in MemoryFileSystem.store if path.startswith(self.root)]:
            del MemoryFileSystem.store[path]

    def write_behind(self, key: str, data: bytes) -> None:
        """Writes with fsspec."""
        MemoryFileSystem(skip_instance_cache=True).pipe_file(f"{self.root}/{key}", data)

    def read_behind(self, key: str) -> bytes:
        """Reads with fsspec."""
        data: bytes = MemoryFileSystem(skip_instance_cache=True).cat_file(f"{self.root}/{key}")
        return data
