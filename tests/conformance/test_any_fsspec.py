"""A file system that lakehouse has no backend for keeps the contract, less what it cannot do."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from lakehouse.errors import InvalidInputError
from lakehouse.io import ObjectStore, open_store
from lakehouse.io.proofs.check import check_store
from lakehouse.io.proofs.proof import ungated
from lakehouse.testing.conformance import StoreConformance


class ElsewhereFileSystem(LocalFileSystem):  # type: ignore[misc]
    """Local files under a scheme of their own: all we know is that fsspec knows it."""

    protocol = "elsewhere"

    def exists(self, path: Any, **options: Any) -> bool:
        """fsspec's create looks, then writes; the pause makes sure that somebody comes between."""
        found: bool = super().exists(path, **options)
        time.sleep(0.005)
        return found

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).removeprefix("elsewhere://"))


@pytest.fixture(autouse=True)
def registered() -> None:
    """Makes the scheme known to fsspec."""
    fsspec.register_implementation("elsewhere", ElsewhereFileSystem, clobber=True)


class TestAnyFsspec(StoreConformance):
    """``elsewhere://``, read and written behind its back with pathlib."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        """A directory of its own, its conditional creates not gated."""
        self.root = tmp_path / "root"
        self.root.mkdir()
        async with open_store(f"elsewhere://{self.root}", storage_options={"auto_mkdir": True}) as store:
            self.gate = store
            yield ungated(store)

    def write_behind(self, key: str, data: bytes) -> None:
        """Writes a file."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def read_behind(self, key: str) -> bytes:
        """Reads a file."""
        return (self.root / key).read_bytes()

    async def test_it_is_refused_for_commits(self, store: ObjectStore) -> None:
        """A store without conditional replaces takes no conditional put, and its check says why."""
        with pytest.raises(InvalidInputError, match="not committed to") as refused:
            await self.gate.put_if_absent("commit", b"x")
        assert refused.value.kind == "unsafe-store"
        report = await check_store(store, rounds=3, large_bytes=0)
        failures = {result.name for result in report.failures}
        assert {"create has one winner", "replace under a condition"} <= failures
        assert not report.may_commit
        with pytest.raises(InvalidInputError, match="not committed to"):
            await self.gate.put_if_absent("commit", b"x")
        assert not await store.exists("commit")
