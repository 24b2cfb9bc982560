"""Files of a local directory: what was answered is there after a power cut."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config import IoSettings
from lakehouse.io.backends.local import LocalBackend
from lakehouse.io.location import Location

KEY = "t/data/x"


async def _replaced(store: LocalBackend) -> None:
    first = await store.put(KEY, b"old")
    assert first.version is not None
    await store.put_if_match(KEY, b"new", version=first.version)


async def _in_parts(store: LocalBackend) -> None:
    upload = await store.multipart_start(KEY)
    receipts = [await store.multipart_part(KEY, upload, at, b"part") for at in (1, 2)]
    await store.multipart_complete(KEY, upload, receipts, size=8)


WRITES: dict[str, Callable[[LocalBackend], Awaitable[Any]]] = {
    "put": lambda store: store.put(KEY, b"x"),
    "put_if_absent": lambda store: store.put_if_absent(KEY, b"x"),
    "put_if_match": _replaced,
    "multipart": _in_parts,
}


class Disk:
    """Writes down what is synced, and when names are given to files."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[str, int]] = []
        for name in ("link", "replace"):
            patch.setattr(os, name, self._placing(getattr(os, name)))
        patch.setattr(os, "fsync", self._syncing(os.fsync))

    def _placing(self, place: Callable[..., None]) -> Callable[..., None]:
        def placed(source: Any, target: Any, **how: Any) -> None:
            self.events.append(("place", os.stat(source).st_ino))
            place(source, target, **how)

        return placed

    def _syncing(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def synced(descriptor: int) -> None:
            status = os.fstat(descriptor)
            self.events.append(("directory" if stat.S_ISDIR(status.st_mode) else "file", status.st_ino))
            sync(descriptor)

        return synced


@pytest.mark.parametrize("what", WRITES)
async def test_an_answered_write_survives_a_power_cut(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's bytes are synced before it gets its name, its directory after that; so are new directories."""
    store = LocalBackend(Location.parse(f"file://{tmp_path}"), settings=IoSettings(fsync=True))
    disk = Disk(monkeypatch)
    await WRITES[what](store)
    path = tmp_path / KEY
    file, directory = path.stat().st_ino, path.parent.stat().st_ino
    placed = disk.events.index(("place", file))
    assert ("file", file) in disk.events[:placed]
    assert ("directory", directory) in disk.events[placed:]
    for made in (tmp_path, tmp_path / "t"):  # they name the directories that were made
        assert ("directory", made.stat().st_ino) in disk.events[:placed]


@pytest.mark.parametrize("what", WRITES)
async def test_syncs_can_be_turned_off(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``io.fsync`` off nothing waits for the disk."""
    store = LocalBackend(Location.parse(f"file://{tmp_path}"), settings=IoSettings(fsync=False))
    disk = Disk(monkeypatch)
    await WRITES[what](store)
    assert {event for event, _ in disk.events} == {"place"}
