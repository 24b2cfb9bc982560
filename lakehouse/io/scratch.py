"""Scratch space: files that libraries want by path, kept below a bound and gone afterwards.

Some libraries read and write directories and nothing else. A :class:`ScratchSpace` gives them one
below the system's temporary directory. What was fetched into it stays as long as there is room,
so that the next who asks for the same name finds it there; what nobody uses goes first, the
longest unused before the others.

Invariant: entries take no more than ``max_bytes`` together, an entry that is in use is neither
changed nor removed, and a name's files are fetched once however many ask at the same time. Who
finds no room waits until somebody lets an entry go, so a task must not hold one entry while it
asks for another.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import anyio
import anyio.to_thread

from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError
from lakehouse.io.backends.files import os_errors
from lakehouse.io.protocols import Buffer, check_key

__all__ = ["ScratchSpace", "Workspace"]

R = TypeVar("R")


class _Entry:
    """A directory of fetched files."""

    __slots__ = ("path", "ready", "size", "users", "valid")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.users = 0
        self.ready = anyio.Event()
        self.valid = False


class ScratchSpace:
    """Directories below one temporary directory, within a bound.

    ::

        async with ScratchSpace(max_bytes=1 << 30) as scratch:
            async with scratch.directory("index-7", fetch) as path:
                ...  # a library reads the files at ``path``

    Args:
        max_bytes: bytes of files kept at once; ``io.scratch_max_bytes`` when not given.
        parent: directory to make it in; the system's temporary directory when not given.
        settings: limits.
    """

    def __init__(
        self, max_bytes: int | None = None, *, parent: str | None = None, settings: IoSettings | None = None
    ) -> None:
        settings = settings or IoSettings()
        self.max_bytes = settings.scratch_max_bytes if max_bytes is None else max_bytes
        if self.max_bytes < 1:
            raise InvalidInputError(f"scratch space of {max_bytes} bytes is of no use")
        self.used_bytes = 0
        """Bytes that files take now."""
        self._parent = parent
        self._limiter = anyio.CapacityLimiter(settings.threads)
        self._root: Path | None = None
        self._entries: dict[str, _Entry] = {}  # the longest unused first
        self._made = 0
        self._room = anyio.Event()

    async def __aenter__(self) -> Self:
        self._root = Path(
            await self._run(tempfile.mkdtemp, None, "lakehouse-scratch-", self._parent)  # suffix, prefix, dir
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        root, self._root = self._root, None
        self._entries.clear()
        self.used_bytes = 0
        assert root is not None
        await self._remove(root, 0)

    @asynccontextmanager
    async def directory(
        self, name: str, files: Callable[[], Awaitable[Mapping[str, Buffer]]]
    ) -> AsyncIterator[str]:
        """A directory with these files, which stay as they are for as long as the block lasts.

        Args:
            name: what the files are; the same name must mean the same bytes.
            files: gives contents by relative path; called when the name is not there yet.
        """
        entry = await self._acquire(name, files)
        try:
            yield str(entry.path)
        finally:
            self._release(name, entry)

    @asynccontextmanager
    async def workspace(self) -> AsyncIterator[Workspace]:
        """A place for a library to write files to, gone when the block ends."""
        workspace = Workspace(self, self._new_path())
        try:
            yield workspace
        finally:
            await self._remove(workspace.path, workspace.size)

    async def _acquire(self, name: str, files: Callable[[], Awaitable[Mapping[str, Buffer]]]) -> _Entry:
        while True:
            entry = self._entries.get(name)
            if entry is None:
                return await self._fill(name, files)
            entry.users += 1
            try:
                await entry.ready.wait()
            except BaseException:
                self._release(name, entry)
                raise
            if entry.valid:
                return entry
            # Whoever fetched it failed, and was told why; now it is our turn to try.

    async def _fill(self, name: str, files: Callable[[], Awaitable[Mapping[str, Buffer]]]) -> _Entry:
        entry = self._entries[name] = _Entry(self._new_path())
        entry.users = 1
        try:
            contents = await files()
            await self._reserve(sum(len(data) for data in contents.values()), entry)
            await self._run(_write_files, entry.path, contents)
            entry.valid = True
        except BaseException:
            if self._entries.get(name) is entry:
                del self._entries[name]
            await self._remove(entry.path, entry.size)
            raise
        finally:
            entry.ready.set()
        return entry

    async def _reserve(self, size: int, entry: _Entry) -> None:
        """Takes room for an entry, which may mean to wait for it."""
        if size > self.max_bytes:
            raise InvalidInputError(
                f"files of {size:,} bytes do not fit into scratch space of {self.max_bytes:,}: allow more",
                size=size,
            )
        while not await self._make_room(size):
            await self._room.wait()
        entry.size = size
        self.used_bytes += size

    async def _make_room(self, size: int) -> bool:
        """Removes entries that nobody uses until so many bytes are free; False when they are not."""
        while self.used_bytes + size > self.max_bytes:
            idle = next((name for name, entry in self._entries.items() if not entry.users), None)
            if idle is None:
                return False
            entry = self._entries.pop(idle)
            await self._remove(entry.path, entry.size)
        return True

    def _release(self, name: str, entry: _Entry) -> None:
        entry.users -= 1
        if not entry.users and self._entries.get(name) is entry:
            self._entries[name] = self._entries.pop(name)
            self._wake()

    async def _remove(self, path: Path, size: int) -> None:
        """Removes a directory, also while everything is being cancelled, and gives its room back."""
        with anyio.CancelScope(shield=True):
            await self._run(shutil.rmtree, path, True)  # True: what is not there is no error
        self.used_bytes -= min(size, self.used_bytes)
        self._wake()

    def _wake(self) -> None:
        self._room.set()
        self._room = anyio.Event()

    def _new_path(self) -> Path:
        if self._root is None:
            raise InvalidInputError(
                "scratch space is used inside its block: async with ScratchSpace() as ..."
            )
        self._made += 1
        return self._root / f"{self._made:08x}"

    async def _run(self, work: Callable[..., R], *args: object) -> R:
        def guarded() -> R:
            with os_errors("scratch", "scratch", str(self._parent or tempfile.gettempdir())):
                return work(*args)

        return await anyio.to_thread.run_sync(guarded, limiter=self._limiter)


class Workspace:
    """Directories that a library writes to; see :meth:`ScratchSpace.workspace`.

    What is written counts into the space's bound when it is listed, since only then anybody knows.
    """

    def __init__(self, space: ScratchSpace, path: Path) -> None:
        self._space = space
        self._directories = 0
        self.path = path
        """Where it is."""
        self.size = 0
        """Bytes in it, as far as they were listed."""

    def subdirectory(self) -> str:
        """A new empty directory."""
        self._directories += 1
        made = self.path / f"{self._directories:04x}"
        made.mkdir(parents=True)
        return str(made)

    async def files(self, directory: str) -> list[tuple[str, int]]:
        """Relative path, parts joined by ``/``, and size of every file below a directory, by path."""
        found = await self._space._run(_listed, Path(directory))
        size = sum(size for _, size in found)
        if not await self._space._make_room(size):
            raise InvalidInputError(
                f"{size:,} bytes were written to scratch space of {self._space.max_bytes:,}, where "
                f"{self._space.used_bytes:,} are in use: allow more, or build fewer indexes at once",
                size=size,
            )
        self._space.used_bytes += size
        self.size += size
        return found

    async def read(self, directory: str, relative_path: str) -> bytes:
        """The content of a file."""
        path = Path(directory) / check_key(relative_path)
        return await self._space._run(path.read_bytes)


def _write_files(path: Path, contents: Mapping[str, Buffer]) -> None:
    path.mkdir()
    for relative_path, data in contents.items():
        file = path / check_key(relative_path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def _listed(path: Path) -> list[tuple[str, int]]:
    files = (file for file in path.rglob("*") if file.is_file())
    return sorted((file.relative_to(path).as_posix(), file.stat().st_size) for file in files)
