"""The local backend keeps the contract of every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakehouse.config import IoSettings
from lakehouse.io import ObjectStore, open_store
from lakehouse.testing.conformance import StoreConformance


class TestLocal(StoreConformance):
    """``file://``, read and written behind its back with pathlib."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        """A directory of its own, not synced."""
        self.root = tmp_path / "root"
        async with open_store(f"file://{self.root}", settings=IoSettings(fsync=False)) as store:
            yield store

    def write_behind(self, key: str, data: bytes) -> None:
        """Writes a file."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def read_behind(self, key: str) -> bytes:
        """Reads a file."""
        return (self.root / key).read_bytes()
