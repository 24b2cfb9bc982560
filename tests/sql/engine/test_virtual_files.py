"""Paths that exist for one statement."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

import pytest

from lakehouse.errors import CorruptionError, InvalidInputError, PermissionDeniedError
from lakehouse.sql.engine import LoopBridge, VirtualFiles
from lakehouse.sql.engine.virtual_files import LakeFileSystem
from lakehouse.testing import RecordingStore, memory_store

R = TypeVar("R")
DATA = random.Random(1).randbytes(300_000)


class _Site:
    """Two statements with a file each, and the file system that finds both."""

    def __init__(self) -> None:
        self.store = RecordingStore(memory_store())
        self.system = LakeFileSystem()
        self.bridge = LoopBridge()
        self.files, self.others = VirtualFiles(self.bridge), VirtualFiles(LoopBridge())
        for files in (self.files, self.others):
            self.system.admit(files)

    async def filled(self, size: int = len(DATA)) -> str:
        await self.store.put("t/a.parquet", DATA)
        self.store.clear()
        self.others.add(self.store, "t/b.parquet", 1)
        return self.files.add(self.store, "t/a.parquet", size)

    async def planning(self, work: Callable[[], R], *, files: VirtualFiles | None = None) -> R:
        """Runs work as the thread does that plans a statement."""

        def planned() -> R:
            with (files or self.files).asking():
                return work()

        return await asyncio.to_thread(planned)


@pytest.fixture
async def site() -> _Site:
    """Two statements without files yet."""
    return _Site()


async def test_a_path_is_a_range_of_an_object(site: _Site) -> None:
    """Reads are ranged reads of the store; size, time and pattern are answered without a request."""
    path = await site.filled()
    assert await site.planning(lambda: site.system.glob(path)) == [path]
    assert site.system.size(path) == site.system.info(path)["size"] == len(DATA)
    assert site.system.isfile(path)
    assert site.system.exists(path)
    assert not site.system.isdir(path)
    assert site.system.modified(path).year == 1970
    assert not site.store.calls
    handle = site.system.open(path)
    assert await asyncio.to_thread(lambda: (handle.seek(1000), handle.read(500))[1]) == DATA[1000:1500]
    assert handle.seek(-10, 2) == len(DATA) - 10
    assert await asyncio.to_thread(lambda: (handle.seek(-10, 2), handle.read())[1]) == DATA[-10:]
    assert [call.verb for call in site.store.calls] == ["get_range", "get_range"]


async def test_eight_threads_read_one_handle(site: _Site) -> None:
    """Each thread seeks and reads one handle at a position of its own."""
    handle = site.system.open(await site.filled())

    def reads(seed: int) -> bool:
        chance = random.Random(seed)
        places = [(chance.randrange(len(DATA)), chance.randrange(1, 5000)) for _ in range(40)]
        return all(
            (handle.seek(at), handle.read(length), handle.tell())
            == (at, DATA[at : at + length], min(at + length, len(DATA)))
            for at, length in places
        )

    assert all(await asyncio.gather(*(asyncio.to_thread(reads, seed) for seed in range(8))))


async def test_the_end_of_a_file_is_read_once(site: _Site) -> None:
    """Footers that planning and executing read one after the other cost one request."""
    path = await site.filled()

    def tails() -> list[bytes]:
        handle = site.system.open(path)
        places = [(16_384, 16_384), (8, 8), (16_384, 16_384), (100, 50)]
        return [(handle.seek(len(DATA) - back), handle.read(length))[1] for back, length in places]

    assert await asyncio.to_thread(tails) == [DATA[-16_384:], DATA[-8:], DATA[-16_384:], DATA[-100:-50]]
    assert len(site.store.calls) == 1


async def test_remembered_ends_are_bounded(site: _Site) -> None:
    """Ends of many files are not all remembered: beyond a mebibyte they are read again."""
    await site.filled()
    paths = [site.files.add(site.store, "t/a.parquet", len(DATA)) for _ in range(20)]

    def tail(path: str) -> None:
        handle = site.system.open(path)
        handle.seek(len(DATA) - 65_536)
        assert len(handle.read(65_536)) == 65_536

    for path in [*paths, *paths]:
        await asyncio.to_thread(tail, path)
    assert len(site.store.calls) == 2 * 20 - 16


@pytest.mark.parametrize(
    "change",
    [
        lambda path: "lake://q/" + path.rpartition("/")[2],
        lambda path: path.rpartition("/")[0] + "/../" + path.split("/")[3] + "/0.parquet",
        lambda path: path + "/../0.parquet",
        lambda path: path.replace("0.parquet", "1.parquet"),
        lambda path: path.replace("0.parquet", "*.parquet"),
        lambda path: path.replace("0.parquet", "%30.parquet"),
        lambda path: path.upper(),
        lambda path: "/etc/passwd",
        lambda path: "lake://q/**",
        lambda path: "",
    ],
)
async def test_other_paths_are_refused(site: _Site, change: Callable[[str], str]) -> None:
    """A path that was not added, to the letter, cannot be planned, opened or asked about."""
    path = change(await site.filled())
    for ask in (site.system.glob, site.system.open, site.system.size, site.system.info):
        with pytest.raises(PermissionDeniedError, match="by a statement of SQL"):
            await site.planning(lambda ask=ask: ask(path))  # type: ignore[misc]
    assert not await site.planning(lambda: site.system.isfile(path))
    assert isinstance(site.bridge.error, PermissionDeniedError)


async def test_paths_of_other_statements_are_refused(site: _Site) -> None:
    """A statement that learned the path of another neither plans with it nor opens it."""
    path = await site.filled()
    for ask in (site.system.glob, site.system.open):
        with pytest.raises(PermissionDeniedError):
            await site.planning(lambda ask=ask: ask(path), files=site.others)  # type: ignore[misc]


async def test_nothing_is_planned_by_nobody(site: _Site) -> None:
    """A thread that plans no statement of ours finds no file."""
    path = await site.filled()
    with pytest.raises(PermissionDeniedError):
        site.system.glob(path)


async def test_a_statement_that_ended_has_no_files(site: _Site) -> None:
    """Paths of a statement that has ended are unknown."""
    path = await site.filled()
    site.system.forget(site.files)
    assert not site.system.isfile(path)


async def test_nothing_is_written_or_listed(site: _Site) -> None:
    """Writing, making, removing, moving and listing are refused, also of a path that may be read."""
    path = await site.filled()
    system = site.system
    for change in (
        lambda: system.open(path, "wb"),
        lambda: system.mkdir(path),
        lambda: system.rm(path),
        lambda: system.mv(path, path),
        lambda: system.ls(path),
    ):
        with pytest.raises(PermissionDeniedError):
            change()


@pytest.mark.parametrize("suffix", ["/../x.parquet", "/*.parquet", "?.parquet", "/a b", "'", "/[0]", "\n"])
async def test_suffixes_are_plain(site: _Site, suffix: str) -> None:
    """A suffix has no pattern, no quote and no way up."""
    with pytest.raises(InvalidInputError, match="suffix"):
        site.files.add(site.store, "t/a.parquet", 1, suffix=suffix)


async def test_partitions_may_stand_in_a_path(site: _Site) -> None:
    """A suffix may have directories of Hive's form, so that DuckDB prunes by them."""
    path = site.files.add(site.store, "t/a.parquet", 1, suffix="/day=2026-01-05/c=a%20b/0.parquet")
    assert path.endswith("/0/day=2026-01-05/c=a%20b/0.parquet")
    assert site.system.size(path) == 1


async def test_a_shorter_object_is_corrupt(site: _Site) -> None:
    """An object with fewer bytes than it should have is told by its key."""
    handle = site.system.open(await site.filled(len(DATA) + 100))
    with pytest.raises(CorruptionError) as caught:
        await asyncio.to_thread(lambda: (handle.seek(len(DATA) - 5), handle.read(50)))
    assert caught.value.context["key"] == "t/a.parquet"
    assert site.bridge.error is caught.value


async def test_messages_name_keys(site: _Site) -> None:
    """In messages of DuckDB virtual paths become keys; those of others stay as they are."""
    path = await site.filled()
    assert site.files.named_in(f"file '{path}' is bad") == ("t/a.parquet", "file 't/a.parquet' is bad")
    assert site.files.named_in("lake://q/x") == (None, "lake://q/x")
