"""Metadata at the ends of blobs: few reads, errors that stay with their blob."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.index.bloom import BloomMeta, BloomSummary
from lakehouse.format.index.bloom_builder import build_bloom
from lakehouse.index.puffin.blob_tails import read_tails
from lakehouse.index.puffin.reader import PuffinReader
from lakehouse.testing import RecordingStore, memory_store
from lakehouse.testing.index_files import puffin

SMALL = build_bloom(pa.array([b"a", b"b", b"c"]), 2, 0.01)
LONG = build_bloom(pa.array([b"%d" % number for number in range(3000)]), 1, 0.01)
"""Its metadata has more bytes than are guessed."""


async def read_of(*blobs: bytes, filler: int = 0) -> tuple[RecordingStore, PuffinReader]:
    """A reader that has read the footer and little else, and its store."""
    store = RecordingStore(memory_store())
    parts = [(f"blob-{number}", data, {}) for number, data in enumerate(blobs)]
    await store.put("x.puffin", puffin(*parts, ("filler", bytes(filler), {})))
    reader = PuffinReader(store, "x.puffin", prefetch_bytes=1024)
    await reader.footer()
    store.clear()
    return store, reader


async def test_what_is_at_hand_is_not_read() -> None:
    """Metadata in the tail that the footer came with costs nothing."""
    store, reader = await read_of(SMALL, SMALL)
    blobs = (await reader.footer()).blobs
    wanted = [(blob, BloomSummary.from_tail) for blob in blobs[:2]]
    found = await read_tails(reader, wanted, settings=IndexSettings())
    assert [type(meta) for meta in found.metas] == [BloomSummary, BloomSummary]
    assert store.calls == []


@pytest.mark.parametrize(("blobs", "requests"), [((SMALL, SMALL), 1), ((SMALL, LONG), 2)])
async def test_far_tails_are_read_together(blobs: tuple[bytes, ...], requests: int) -> None:
    """All tails take one read, and one more where some metadata are longer than expected."""
    store, reader = await read_of(*blobs, filler=2000)
    wanted = [(blob, BloomMeta.from_tail) for blob in (await reader.footer()).blobs[: len(blobs)]]
    found = await read_tails(reader, wanted, settings=IndexSettings())
    assert found.metas == [BloomMeta.from_tail(blob, len(blob)) for blob in blobs]
    assert store.kinds() == {"get": requests}


async def test_a_bad_blob_is_its_own_error() -> None:
    """Each blob has its metadata or an error that names file, blob and byte; without a parser, nothing."""
    _, reader = await read_of(SMALL, b"\xff" * 9, SMALL, filler=5000)
    blobs = (await reader.footer()).blobs
    parsers = [BloomSummary.from_tail, BloomSummary.from_tail, None]
    found = await read_tails(reader, list(zip(blobs[:3], parsers, strict=True)), settings=IndexSettings())
    good, bad, unasked = found.metas
    assert isinstance(good, BloomSummary)
    assert isinstance(bad, CorruptionError)
    assert bad.message.startswith(f"x.puffin, blob 'blob-1' at byte {blobs[1].offset}: ")
    assert (bad.context["blob"], bad.context["offset"]) == ("blob-1", blobs[1].offset)
    assert unasked is None


async def test_metadata_beyond_the_limit_are_not_read() -> None:
    """Metadata of more bytes than a footer may have are an error, before they are fetched."""
    store, reader = await read_of(LONG, filler=2000)
    (blob, _) = (await reader.footer()).blobs
    settings = IndexSettings(footer_max_bytes=10_000)
    found = await read_tails(reader, [(blob, BloomMeta.from_tail)], settings=settings)
    (error,) = found.metas
    assert isinstance(error, FormatError)
    assert "index.footer_max_bytes" in error.message
    assert store.kinds() == {"get": 1}
