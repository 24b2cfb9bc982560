"""Files for pyiceberg: read through the event loop, and never written."""

from __future__ import annotations

import anyio.to_thread
import pytest
from pyiceberg.io import InputStream, load_file_io
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table.metadata import TableMetadataUtil

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.iceberg.catalogs import StoreFileIO
from lakehouse.iceberg.catalogs.file_io import FILE_IO, reading
from lakehouse.io import open_store
from lakehouse.io.work import in_thread
from tests.kit.iceberg_metadata import document, encoded


async def test_pyiceberg_finds_and_uses_the_class() -> None:
    """By its name pyiceberg loads the class, and reads metadata with it, compressed ones too."""
    asked: list[str] = []

    async def read(location: str) -> bytes:
        asked.append(location)
        return encoded(document(), compressed=location.endswith(".gz.metadata.json"))

    def load(location: str) -> str:
        file = load_file_io({"py-io-impl": FILE_IO, "a": "b"}, location)
        assert isinstance(file, StoreFileIO)
        assert file.properties["a"] == "b"
        return str(FromInputFile.table_metadata(file.new_input(location)).table_uuid)

    locations = ["s3://bucket/v1.metadata.json", "s3://bucket/v1.gz.metadata.json"]
    with reading(read):
        for location in locations:
            assert await in_thread(load, location) == document()["table-uuid"]
    assert asked == locations


async def test_a_file_is_read_once() -> None:
    """Length, existence and every stream of a file come from one read."""
    times = 0

    async def read(location: str) -> bytes:
        nonlocal times
        times += 1
        return b"12345"

    def use() -> None:
        file = StoreFileIO({}).new_input("s3://bucket/one")
        assert (len(file), file.exists(), file.open().read()) == (5, True, b"12345")
        with file.open() as stream:
            assert isinstance(stream, InputStream)
            assert stream.seek(3) == 3
            assert stream.read() == b"45"

    with reading(read):
        await in_thread(use)
    assert times == 1


async def test_a_file_that_is_missing_does_not_exist() -> None:
    """Whether a file exists is asked for by reading it; other errors are raised."""

    async def read(location: str) -> bytes:
        if location == "gone":
            raise NotFoundError("gone")
        raise InvalidInputError("wrong")

    def use() -> None:
        assert not StoreFileIO({}).new_input("gone").exists()
        with pytest.raises(InvalidInputError, match="wrong"):
            StoreFileIO({}).new_input("other").exists()

    with reading(read):
        await in_thread(use)


async def test_reads_wait_for_no_thread_of_computation() -> None:
    """Reads that need a thread end while every thread that computes is taken by nobody but catalogs."""
    data = encoded(document())
    async with open_store("memory://file-io") as store:
        await store.put("one", data)

        async def read(location: str) -> bytes:
            return await in_thread(bytes, (await store.get(location)).data)

        def use() -> int:
            return len(StoreFileIO({}).new_input("one"))

        async def one() -> None:
            limiter = anyio.CapacityLimiter(1)
            assert await anyio.to_thread.run_sync(use, limiter=limiter) == len(data)

        with reading(read), anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for _ in range(64):
                    tasks.start_soon(one)


def test_nothing_is_written_through_it() -> None:
    """Writing and deleting are refused, with what to do instead."""
    files = StoreFileIO({})
    metadata = TableMetadataUtil.parse_raw(encoded(document()).decode())
    with pytest.raises(
        InvalidInputError, match=r"writing of s3://b/k: .* read here and not written"
    ) as refused:
        ToOutputFile.table_metadata(metadata, files.new_output("s3://b/k"))
    assert refused.value.kind == "unsupported"
    with pytest.raises(InvalidInputError, match="deletion of s3://b/k"):
        files.delete("s3://b/k")
