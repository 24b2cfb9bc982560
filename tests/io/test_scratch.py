"""Scratch space: files by path, below a bound, fetched once, and gone afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io.scratch import ScratchSpace

Fetch = Callable[[], Awaitable[Mapping[str, bytes]]]


def giving(size: int = 10, log: list[int] | None = None) -> Fetch:
    """A fetch of one file of that size, which notes that it was called."""

    async def fetch() -> Mapping[str, bytes]:
        await anyio.lowlevel.checkpoint()
        if log is not None:
            log.append(size)
        return {"file": bytes(size)}

    return fetch


def left_in(folder: Path) -> list[str]:
    """Every file and folder below a folder, but for the scratch space itself."""
    return sorted("/".join(found.relative_to(folder).parts[1:]) for found in folder.glob("*/**/*"))


def content(directory: str, name: str) -> bytes | None:
    """What a file has, or None when it is not there."""
    path = Path(directory, name)
    return path.read_bytes() if path.exists() else None


def write(directory: str, name: str, data: bytes) -> None:
    """Writes a file, as a library would."""
    path = Path(directory, name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


async def test_files_are_there_by_path(tmp_path: Path) -> None:
    """A directory holds the files given, below folders too, and nothing stays when the space ends."""

    async def fetch() -> Mapping[str, bytes]:
        return {"a": b"1", "sub/b": memoryview(b"22")}

    async with ScratchSpace(parent=str(tmp_path)) as scratch:
        async with scratch.directory("x", fetch) as path:
            assert content(path, "a") == b"1"
            assert content(path, "sub/b") == b"22"
            assert scratch.used_bytes == 3
        assert content(path, "a") == b"1"
    assert content(path, "a") is None


async def test_a_name_is_fetched_once(tmp_path: Path) -> None:
    """However many ask for a name, at once and later, its files are fetched once."""
    log: list[int] = []
    paths: set[str] = set()
    async with ScratchSpace(parent=str(tmp_path)) as scratch:

        async def use() -> None:
            async with scratch.directory("x", giving(log=log)) as path:
                paths.add(path)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(use)
        await use()
    assert log == [10]
    assert len(paths) == 1


async def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    """Where room is needed, what nobody uses is removed, beginning with the longest unused."""
    log: list[int] = []
    async with ScratchSpace(25, parent=str(tmp_path)) as scratch:
        for name in ("a", "b", "a", "c"):
            async with scratch.directory(name, giving(log=log)):
                pass
        assert len(log) == 3
        assert scratch.used_bytes == 20
        async with scratch.directory("a", giving(log=log)):
            assert len(log) == 3
        async with scratch.directory("b", giving(log=log)):
            assert len(log) == 4
    assert scratch.used_bytes == 0


async def test_what_is_in_use_stays(tmp_path: Path) -> None:
    """Who finds no room waits until an entry that is in use is let go, and then gets it."""
    order: list[str] = []
    async with ScratchSpace(15, parent=str(tmp_path)) as scratch:
        async with anyio.create_task_group() as tasks:

            async def second() -> None:
                async with scratch.directory("b", giving()):
                    order.append("second has room")

            async with scratch.directory("a", giving()) as path:
                tasks.start_soon(second)
                await anyio.wait_all_tasks_blocked()
                assert content(path, "file") == bytes(10)
                order.append("first is done")
        assert order == ["first is done", "second has room"]
        assert scratch.used_bytes == 10


async def test_files_that_never_fit(tmp_path: Path) -> None:
    """Files larger than the whole space are refused at once, and leave nothing."""
    async with ScratchSpace(15, parent=str(tmp_path)) as scratch:
        with pytest.raises(InvalidInputError, match="allow more"):
            async with scratch.directory("a", giving(16)):
                pass
        assert scratch.used_bytes == 0
        assert left_in(tmp_path) == []


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "a/../../b"])
async def test_paths_stay_inside(tmp_path: Path, name: str) -> None:
    """A file whose path leads out of its directory is refused, and nothing of its entry stays."""

    async def fetch() -> Mapping[str, bytes]:
        return {"fine": b"", name: b"x"}

    async with ScratchSpace(parent=str(tmp_path)) as scratch:
        with pytest.raises(InvalidInputError):
            async with scratch.directory("a", fetch):
                pass
        assert left_in(tmp_path) == []


async def test_a_fetch_that_fails_is_tried_again_by_the_next(tmp_path: Path) -> None:
    """Who fetches is told why it failed; another who waited for the same name fetches itself."""
    calls: list[str] = []

    async def fetch() -> Mapping[str, bytes]:
        calls.append("fetch")
        await anyio.wait_all_tasks_blocked()
        if len(calls) == 1:
            raise NotFoundError("gone")
        return {"file": b"x"}

    outcomes: list[str] = []
    async with ScratchSpace(parent=str(tmp_path)) as scratch:

        async def use() -> None:
            try:
                async with scratch.directory("a", fetch):
                    outcomes.append("there")
            except NotFoundError:
                outcomes.append("gone")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            tasks.start_soon(use)
        assert sorted(outcomes) == ["gone", "there"]
        assert scratch.used_bytes == 1


async def test_a_cancelled_fetch_leaves_nothing(tmp_path: Path) -> None:
    """A fetch that is cancelled leaves no files, no room taken, and the name free for the next."""

    async def hang() -> Mapping[str, bytes]:
        await anyio.sleep_forever()
        raise AssertionError

    async with ScratchSpace(parent=str(tmp_path)) as scratch:
        with anyio.move_on_after(0.01):
            async with scratch.directory("a", hang):
                pass
        async with scratch.directory("a", giving()):
            assert scratch.used_bytes == 10


async def test_a_workspace_is_written_by_others(tmp_path: Path) -> None:
    """Files that a library writes are listed and read by relative path, count, and go with the block."""
    async with ScratchSpace(100, parent=str(tmp_path)) as scratch:
        async with scratch.workspace() as workspace:
            directory = workspace.subdirectory()
            assert workspace.subdirectory() != directory
            write(directory, "sub/b", b"22")
            write(directory, "a", b"1")
            assert await workspace.files(directory) == [("a", 1), ("sub/b", 2)]
            assert await workspace.read(directory, "sub/b") == b"22"
            assert scratch.used_bytes == 3
            with pytest.raises(InvalidInputError):
                await workspace.read(directory, "../x")
        assert scratch.used_bytes == 0
        assert content(directory, "a") is None


async def test_a_workspace_makes_room_and_has_a_bound(tmp_path: Path) -> None:
    """What was written pushes out what nobody uses, and is refused where that is not enough."""
    async with ScratchSpace(25, parent=str(tmp_path)) as scratch, AsyncExitStack() as stack:
        async with scratch.directory("idle", giving(20)):
            pass
        workspace = await stack.enter_async_context(scratch.workspace())
        directory = workspace.subdirectory()
        write(directory, "a", bytes(10))
        await workspace.files(directory)
        assert scratch.used_bytes == 10
        other = workspace.subdirectory()
        write(other, "b", bytes(20))
        with pytest.raises(InvalidInputError, match="allow more, or build fewer"):
            await workspace.files(other)


async def test_only_inside_its_block(tmp_path: Path) -> None:
    """Scratch space that was not entered, or has none, is refused."""
    with pytest.raises(InvalidInputError, match="inside its block"):
        async with ScratchSpace(parent=str(tmp_path)).workspace():
            pass
    with pytest.raises(InvalidInputError, match="of no use"):
        ScratchSpace(0)
    with pytest.raises(NotFoundError):
        async with ScratchSpace(parent=str(tmp_path / "missing")):
            pass
