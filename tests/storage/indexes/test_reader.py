"""Readers of index files: every byte is checked, and read once."""

from __future__ import annotations

import dataclasses
from functools import partial

import pyarrow as pa
import pytest

from lakehouse.cache import CacheBudget
from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.format.metadata import IndexRef
from lakehouse.format.schema import schema_from_arrow
from lakehouse.storage.indexes.build import build_index, rows_at_hand
from lakehouse.storage.indexes.reader import OpenIndex, open_index
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.blob_samples import flipped
from tests.kit.indexed_tables import NAME, SCHEMA, lake_on, rows, table_with, value

ROOT = "db/t-00000000"
PATH = "index/x.puffin"
IN_STEPS = IndexSettings(search_whole_bytes=0, prefetch_bytes=64)
"""Settings with which no file is read whole."""


class StoredIndex:
    """An index file in a store that counts requests, and what opens it."""

    def __init__(self, data: bytes, ref: IndexRef) -> None:
        self.data, self.ref = data, ref
        self.store = RecordingStore(memory_store())
        self.caches = RunCaches(CacheBudget())

    async def put(self, data: bytes) -> None:
        """Puts other bytes in its place."""
        await self.store.put(f"{ROOT}/{PATH}", data)
        self.store.clear()

    async def open(self, settings: IndexSettings | None = None, *asked: int) -> OpenIndex:
        """A reader of it."""
        known = settings or IndexSettings()
        return await open_index(self.store, ROOT, self.ref, self.caches, known, asked=asked)


async def stored() -> StoredIndex:
    """An index file of some pages."""
    schema = schema_from_arrow(
        SCHEMA, primary_key="id", indexes={"host": {"bloom": {"granularity": 100}}, "n": "inverted"}
    )
    source = partial(rows_at_hand, pa.Table.from_pylist(rows(1_500), SCHEMA))
    built = await build_index(source, schema, schema.indexes, path=PATH, of="data/x")
    assert built is not None
    file = StoredIndex(built.data, built.ref)
    await file.put(built.data)
    return file


async def test_a_small_file_is_read_at_once() -> None:
    """Opening it is one request, and reads from it are none."""
    file = await stored()
    index = await file.open()
    assert await index.ranges([(0, 100), (50, index.footer_start)]) == [
        file.data[:100],
        file.data[50 : index.footer_start],
    ]
    assert len(file.store.calls) == 1


async def test_a_file_is_opened_once() -> None:
    """Whoever opens it again has the same reader, without a request."""
    file = await stored()
    index = await file.open()
    file.store.clear()
    assert await file.open() is index
    assert file.store.calls == []


async def test_pages_are_remembered() -> None:
    """A range that was read once costs no request again, also within other ranges."""
    file = await stored()
    index = await file.open(IN_STEPS)
    size = index.page_bytes
    assert index.footer_start > 2 * size
    file.store.clear()
    assert await index.ranges([(10, size + 10)]) == [file.data[10 : size + 10]]
    assert len(file.store.calls) == 1
    assert await index.ranges([(0, 2 * size)]) == [file.data[: 2 * size]]
    assert len(file.store.calls) == 1


async def test_a_damaged_page_is_noticed() -> None:
    """A flipped bit is an error of whoever reads its page, which names the file; other pages read."""
    file = await stored()
    await file.put(flipped(file.data, 8 * 20))
    index = await file.open(IN_STEPS)
    size = index.page_bytes
    with pytest.raises(CorruptionError, match=PATH):
        await index.ranges([(0, 10)])
    assert await index.ranges([(size, size + 10)]) == [file.data[size : size + 10]]


async def test_another_file_in_its_place_is_noticed() -> None:
    """A sound file with another footer than the snapshot says is an error when it is opened."""
    file = await stored()
    file.ref = dataclasses.replace(file.ref, checksum=1)
    with pytest.raises(CorruptionError, match=f"{PATH} is damaged, or another file"):
        await file.open()


async def test_a_missing_file_is_not_found() -> None:
    """An index file that is gone is a NotFoundError."""
    file = await stored()
    await file.store.delete(f"{ROOT}/{PATH}")
    with pytest.raises(NotFoundError):
        await file.open()


async def test_bytes_behind_the_blobs_are_refused() -> None:
    """A range that reaches into the footer, as damaged metadata may say, is an error."""
    file = await stored()
    index = await file.open()
    with pytest.raises(CorruptionError, match="has no bytes"):
        await index.ranges([(0, index.footer_start + 1)])


async def test_a_wanted_index_near_the_end_comes_with_the_footer() -> None:
    """Where the snapshot says how far back it begins, opening reads it, too."""
    file = await stored()
    settings = IndexSettings(search_whole_bytes=file.ref.size - 1, prefetch_bytes=64)
    reach = min(file.ref.reach)
    wanted = file.ref.ids[file.ref.reach.index(reach)]
    index = await file.open(settings, wanted)
    assert len(file.store.calls) == 1
    begin = file.ref.size - reach
    assert await index.ranges([(begin, index.footer_start)]) == [file.data[begin : index.footer_start]]
    assert len(file.store.calls) == 1


async def test_a_second_search_reads_no_index_again() -> None:
    """What was read of an index file is remembered."""
    store = RecordingStore(memory_store())
    await table_with({"host": "bloom"}, store=store)
    table = await lake_on(store).table(NAME)
    store.clear()
    await table.scan(f"host = 'Host-{value(1)}'").count()
    assert sum("/index/" in call.key for call in store.calls) == 4
    store.clear()
    await table.scan(f"host = 'Host-{value(2)}'").count()
    assert not any("/index/" in call.key for call in store.calls)
