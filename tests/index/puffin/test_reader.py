"""Reading a puffin file costs the requests its layout allows, and survives wrong hints."""

from __future__ import annotations

import pytest

from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.config import IndexSettings
from lakehouse.errors import ConflictError, CorruptionError, FormatError, InvalidInputError
from lakehouse.format.puffin.builder import PuffinBuilder
from lakehouse.index.puffin.reader import PuffinReader
from lakehouse.index.puffin.writer import PuffinWriter
from lakehouse.testing import Fault, FaultKind, FaultyStore, RecordingStore, memory_store
from tests.kit.index_scans import Held

BIG = bytes(range(256)) * 400


async def stored_file(key: str = "a.puffin", *, names: int = 3) -> tuple[RecordingStore, int]:
    """A store with one file: a big blob, then small ones, some compressed."""
    store = RecordingStore(memory_store())
    async with PuffinWriter(store, key) as writer:
        await writer.add("big", BIG)
        for number in range(names):
            await writer.add(f"small-{number}", b"%d" % number * 50, codec=(None, "zstd", "lz4")[number % 3])
    store.clear()
    return store, writer.stored.size


@pytest.mark.parametrize("known", [True, False], ids=["size known", "size unknown"])
async def test_footer_and_near_blobs_cost_one_request(known: bool) -> None:
    """One tail read gives the footer and every blob that lies in it."""
    store, size = await stored_file()
    reader = PuffinReader(store, "a.puffin", size=size if known else None)
    footer = await reader.footer()
    assert [blob.type for blob in footer.blobs] == ["big", "small-0", "small-1", "small-2"]
    assert await reader.blobs(["small-2", "small-0", "small-1"]) == [b"2" * 50, b"0" * 50, b"1" * 50]
    assert store.kinds() == {"get": 1}


async def test_a_far_blob_costs_one_more() -> None:
    """A blob before the tail costs one ranged read, whole or in part."""
    store, size = await stored_file()
    reader = PuffinReader(store, "a.puffin", size=size)
    assert await reader.blob("big") == BIG
    assert store.kinds() == {"get": 2}
    assert await reader.blob_range("big", 300, 500) == BIG[300:500]
    assert await reader.blob_range("big", len(BIG) - 5, len(BIG) + 5) == BIG[-5:]
    assert await reader.blob_range("big", len(BIG), len(BIG) + 5) == b""
    assert store.kinds() == {"get": 3}


async def test_a_long_footer_costs_one_more() -> None:
    """A footer longer than the prefetch is fetched by one more request, for exactly what is missing."""
    store, size = await stored_file(names=400)
    reader = PuffinReader(store, "a.puffin", size=size, prefetch_bytes=1000)
    assert len((await reader.footer()).blobs) == 401
    assert store.kinds() == {"get": 2}


@pytest.mark.parametrize("wrong", [-50_000, -1000, -1, 1, 7, 5000, 1 << 40])
async def test_a_wrong_size_is_put_right(wrong: int) -> None:
    """A size hint that is wrong costs requests, never a wrong answer."""
    store, size = await stored_file()
    reader = PuffinReader(store, "a.puffin", size=size + wrong)
    assert len((await reader.footer()).blobs) == 4
    assert reader.size == size
    assert await reader.blob("small-1") == b"1" * 50
    assert len(store.calls) <= 3


async def test_a_file_said_to_be_empty_is_looked_at() -> None:
    """A size of 0 means that nobody knew it: the tail is read, not the whole file."""
    store, size = await stored_file()
    reader = PuffinReader(store, "a.puffin", size=0)
    assert len((await reader.footer()).blobs) == 4
    assert reader.size == size
    assert [call.verb for call in store.calls] == ["get_suffix"]


async def test_several_far_blobs_are_coalesced() -> None:
    """Blobs far from the footer and near each other come in one request."""
    store = RecordingStore(memory_store())
    async with PuffinWriter(store, "b.puffin") as writer:
        for number in range(5):
            await writer.add(f"n-{number}", bytes([number]) * 100)
        await writer.add("filler", bytes(200_000))
    store.clear()
    reader = PuffinReader(store, "b.puffin", size=writer.stored.size)
    assert await reader.blobs([f"n-{n}" for n in range(5)]) == [bytes([n]) * 100 for n in range(5)]
    assert store.kinds() == {"get": 2}


async def test_an_object_replaced_between_reads_is_noticed() -> None:
    """Bytes of two versions of a file are never mixed."""
    store, size = await stored_file()
    reader = PuffinReader(store, "a.puffin", size=size)
    await reader.footer()
    await store.put("a.puffin", bytes(size))
    with pytest.raises(ConflictError) as changed:
        await reader.blob("big")
    assert changed.value.kind == "object-changed"


async def test_errors_name_the_file() -> None:
    """What is wrong with the bytes is said with the file's name."""
    store = memory_store()
    await store.put("bad.puffin", b"x" * 100)
    with pytest.raises(CorruptionError, match=r"bad\.puffin") as bad:
        await PuffinReader(store, "bad.puffin").footer()
    assert bad.value.context["key"] == "bad.puffin"
    await store.put("tiny.puffin", b"")
    with pytest.raises(CorruptionError, match=r"tiny\.puffin"):
        await PuffinReader(store, "tiny.puffin", size=0).footer()


async def test_a_blob_that_is_not_there() -> None:
    """Asking for a blob that the file does not have is the caller's error."""
    store, size = await stored_file()
    with pytest.raises(InvalidInputError, match="nothing"):
        await PuffinReader(store, "a.puffin", size=size).blob("nothing")


async def test_a_bomb_is_refused() -> None:
    """A blob that decompresses beyond the limit is refused with its name."""
    store = memory_store()
    async with PuffinWriter(store, "bomb.puffin") as writer:
        await writer.add("bomb", bytes(10_000_000), codec="zstd")
    reader = PuffinReader(store, "bomb.puffin", settings=IndexSettings(blob_max_bytes=1_000_000))
    with pytest.raises(FormatError, match="bomb"):
        await reader.blob("bomb")


async def test_a_writer_that_fails_leaves_no_file() -> None:
    """An error inside the block leaves nothing behind."""
    store = memory_store()

    async def fail() -> None:
        async with PuffinWriter(store, "c.puffin") as writer:
            await writer.add("x", b"x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert not await store.exists("c.puffin")


async def test_the_writer_writes_what_the_builder_does() -> None:
    """The streamed file is byte for byte the builder's."""
    store = memory_store()
    builder = PuffinBuilder(properties={"created-by": "test"})
    expected = b"".join(bytes(chunk) for chunk in builder.add("x", b"abc", codec="zstd")) + builder.finish()
    async with PuffinWriter(store, "d.puffin", properties={"created-by": "test"}) as writer:
        await writer.add("x", b"abc", codec="zstd")
    assert (await store.get("d.puffin")).data == expected


async def test_many_blobs_of_one_type_when_asked_for() -> None:
    """Iceberg's deletion vectors share a type, so the writer takes that where it is wanted."""
    store = memory_store()
    async with PuffinWriter(store, "e.puffin", allow_duplicates=True) as writer:
        await writer.add("deletion-vector-v1", b"1")
        await writer.add("deletion-vector-v1", b"2")
    footer = await PuffinReader(store, "e.puffin").footer()
    assert await PuffinReader(store, "e.puffin").blobs(footer.blobs) == [b"1", b"2"]


async def test_a_cached_footer_saves_the_first_request() -> None:
    """Of a file whose footer is cached only the blobs asked for are read."""
    store, size = await stored_file()
    cache = CacheBudget().region(CacheSpec(name="footers"))
    first = PuffinReader(store, "a.puffin", size=size, cache=cache)
    footer = await first.footer()
    store.clear()
    second = PuffinReader(store, "a.puffin", size=size, cache=cache)
    assert await second.footer() == footer
    assert store.calls == []
    assert (second.size, second.version, second.footer_start) == (size, first.version, first.footer_start)
    assert await second.blob("small-1") == b"1" * 50
    assert store.kinds() == {"get": 1}


async def test_a_cached_footer_of_another_version_is_noticed_and_dropped() -> None:
    """A file that was replaced is an error for who trusted its footer, and read anew by the next."""
    store, _ = await stored_file()
    cache = Held()
    await PuffinReader(store, "a.puffin", cache=cache).footer()
    async with PuffinWriter(store, "a.puffin") as writer:
        await writer.add("other", b"1")
    with pytest.raises(ConflictError):
        await PuffinReader(store, "a.puffin", cache=cache).blob("small-1")
    assert cache == {}
    assert await PuffinReader(store, "a.puffin", cache=cache).blob("other") == b"1"


async def test_a_blob_larger_than_the_limit_is_not_fetched() -> None:
    """A blob of more bytes than may be read is refused by name before it is read."""
    store, size = await stored_file()
    reader = PuffinReader(store, "a.puffin", size=size, settings=IndexSettings(blob_max_bytes=1000))
    await reader.footer()
    store.clear()
    with pytest.raises(FormatError, match=r"a\.puffin, blob 'big' at byte 4: .*blob_max_bytes"):
        await reader.blob("big")
    assert store.calls == []
    assert await reader.blob_range("big", 0, 10) == BIG[:10]


async def test_a_store_that_sends_too_little_is_an_error() -> None:
    """Whatever goes on missing of a file's end, there is an error that says where, and no loop."""
    inner, size = await stored_file(names=400)
    faults = [Fault(kind=FaultKind.TRUNCATE, at=number) for number in range(20)]
    store = RecordingStore(FaultyStore(inner.inner, faults))
    with pytest.raises(FormatError, match=r"a\.puffin.*sent") as short:
        await PuffinReader(store, "a.puffin", size=size, prefetch_bytes=1000).footer()
    assert short.value.context["offset"] == size - 1
    assert len(store.calls) <= 3


@pytest.mark.parametrize("attribute", ["size", "version", "window", "footer_start"])
def test_what_is_not_read_yet_is_not_known(attribute: str) -> None:
    """Facts of a file that was not read are a mistake of the caller."""
    with pytest.raises(InvalidInputError, match="footer"):
        getattr(PuffinReader(memory_store(), "a.puffin"), attribute)
