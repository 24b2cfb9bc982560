"""A server of pages keeps the reading half of the contract, whatever it knows of ranges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from lakehouse.io import ObjectStore, open_backend, open_store
from tests.kit.serving import Pages, serving

BODY = bytes(range(256)) * 4
ODD = "day=2026%2F01/ä b+c?#.bin"


@pytest.fixture(params=[True, False], ids=["ranges", "no ranges"])
def pages(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pages]:
    """A server with some objects, one with an odd name, and one empty."""
    for key, data in {"a/1": BODY, "a/b/2": b"2", ODD: b"odd", "empty": b"", "z": b"z"}.items():
        path = tmp_path / "root" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with serving(tmp_path, ranges=request.param) as found:
        yield found


def opened(pages: Pages) -> ObjectStore:
    """The bare backend."""
    return open_backend(f"{pages.url}/root")


async def test_objects_are_read_whole(pages: Pages) -> None:
    """A get is one request, whatever characters the key has."""
    async with opened(pages) as store:
        assert (await store.get("a/1")).data == BODY
        assert (await store.get(ODD)).data == b"odd"
        assert (await store.get("empty")).data == b""
        assert [method for method, _ in pages.asked] == ["GET", "GET", "GET"]


@pytest.mark.parametrize(("start", "end"), [(0, 1), (3, 700), (1000, 5000), (0, 1024), (1023, 1024)])
async def test_ranges_are_what_was_asked_for(pages: Pages, start: int, end: int) -> None:
    """Bytes of a range, and the size, come in one request, also from a server that sends everything."""
    async with opened(pages) as store:
        found = await store.get_range("a/1", start, end)
        assert (found.data, found.start, found.size) == (BODY[start:end], start, len(BODY))
    assert len(pages.asked) == 1


@pytest.mark.parametrize("length", [1, 100, 1024, 9999])
async def test_suffixes_are_what_was_asked_for(pages: Pages, length: int) -> None:
    """The end of an object comes in one request, with its size."""
    async with opened(pages) as store:
        found = await store.get_suffix("a/1", length)
        assert (found.data, found.end, found.size) == (BODY[-length:], len(BODY), len(BODY))
    assert len(pages.asked) == 1


async def test_behind_the_end_is_nothing(pages: Pages) -> None:
    """A range behind the end is empty, and says the size."""
    async with opened(pages) as store:
        found = await store.get_range("a/1", 5000, 6000)
        assert (found.data, found.size) == (b"", len(BODY))
        assert (await store.get_suffix("empty", 10)).data == b""


async def test_what_is_not_there_is_not_found(pages: Pages) -> None:
    """Each way to read an object that is not there raises NotFoundError."""
    async with opened(pages) as store:
        for read in (
            store.get("no"),
            store.get_range("no", 0, 1),
            store.get_suffix("no", 1),
            store.head("no"),
        ):
            with pytest.raises(NotFoundError):
                await read


async def test_a_head_tells_what_is_known(pages: Pages) -> None:
    """Size, version, time of change and the server's clock come with a HEAD."""
    async with opened(pages) as store:
        meta = await store.head("a/1")
    assert (meta.size, meta.version is not None) == (len(BODY), True)
    assert meta.modified_ms is not None
    assert meta.store_time_ms is not None


async def test_another_version_is_a_conflict(pages: Pages) -> None:
    """A read of a version that is no longer there is refused."""
    async with opened(pages) as store:
        version = (await store.get("a/1")).version if not pages.ranges else None
        if version is not None:
            assert (await store.get("a/1", version=version)).data == BODY
        with pytest.raises(ConflictError) as caught:
            await store.get("a/1", version="another")
    assert caught.value.kind == "object-changed"


async def test_listings_are_the_links_of_index_pages(pages: Pages) -> None:
    """Keys come in order with their sizes, with a prefix, behind a key, and by folders."""
    async with opened(pages) as store:
        assert [(meta.key, meta.size) async for meta in store.list()] == [
            ("a/1", 1024),
            ("a/b/2", 1),
            (ODD, 3),
            ("empty", 0),
            ("z", 1),
        ]
        assert [meta.key async for meta in store.list("a/")] == ["a/1", "a/b/2"]
        assert [meta.key async for meta in store.list("da")] == [ODD]
        assert [meta.key async for meta in store.list(start_after="day=x")] == ["empty", "z"]
        page = await store.list_page("a/", delimiter="/")
        assert ([meta.key for meta in page.objects], page.prefixes) == (["a/1"], ("a/b/",))
        assert [meta async for meta in store.list("nothing/here")] == []


async def test_a_listing_by_folders_reads_one_page(pages: Pages) -> None:
    """Folders are not gone into when nobody asks what is in them."""
    async with opened(pages) as store:
        await store.list_page("", delimiter="/")
    assert [path for method, path in pages.asked if method == "GET"] == ["/root/"]


async def test_listings_come_in_pages(pages: Pages) -> None:
    """A page goes on where the one before ended."""
    async with opened(pages) as store:
        first = await store.list_page(limit=2)
        rest = await store.list_page(page=first.next_page)
    assert [meta.key for meta in (*first.objects, *rest.objects)] == ["a/1", "a/b/2", ODD, "empty", "z"]


async def test_a_server_without_index_pages_says_so(tmp_path: Path) -> None:
    """What cannot be listed is an error that says what is needed, and no empty listing."""
    (tmp_path / "k").write_bytes(b"x")
    with serving(tmp_path, index=False) as pages:
        async with open_store(pages.url) as store:
            assert (await store.get("k")).data == b"x"
            with pytest.raises(InvalidInputError, match=r"shows no index page .* \(autoindex\)"):
                _ = [meta async for meta in store.list("a/b")]


async def test_a_server_in_trouble_is_unavailable(pages: Pages) -> None:
    """A 503 is no missing object: a bare backend says so, and a store tries again."""
    pages.failing = 1
    async with opened(pages) as store:
        with pytest.raises(UnavailableError):
            await store.get("a/1")
    pages.failing = 1
    async with open_store(f"{pages.url}/root") as store:
        assert (await store.get("a/1")).data == BODY


async def test_no_server_is_unavailable() -> None:
    """A server that is not there is no missing object either."""
    async with open_backend("http://127.0.0.1:1/root") as store:
        for read in (store.get("k"), store.head("k"), store.list_page()):
            with pytest.raises(UnavailableError) as caught:
                await read
            assert caught.value.kind == "unreachable"


async def test_nothing_is_written(pages: Pages) -> None:
    """Each verb that writes is refused before anything is asked."""
    async with opened(pages) as store:
        for write in (
            store.put("k", b""),
            store.put_if_absent("k", b""),
            store.put_if_match("k", b"", version="v"),
            store.delete("a/1"),
            store.delete_batch(["a/1"]),
            store.multipart_start("k"),
        ):
            with pytest.raises(
                InvalidInputError, match=r"the store at http://.* cannot be written: "
            ) as caught:
                await write
            assert caught.value.kind == "unsupported"
    assert pages.asked == []
    assert not store.capabilities.put_if_absent


async def test_options_go_with_each_request(pages: Pages) -> None:
    """Headers of the storage options are sent beside the engine's own."""
    options = {"headers": {"Range": "bytes=0-0", "X-Kind": "x"}}
    async with open_backend(f"{pages.url}/root", storage_options=options) as store:
        assert (await store.get_range("a/1", 5, 9)).data == BODY[5:9]
