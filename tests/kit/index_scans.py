"""Files to enumerate, and a cache that shows what it holds."""

from __future__ import annotations

from typing import Any

from lakehouse.format.puffin.footer import BlobMeta, PuffinFooter
from lakehouse.index.metas.enumerate import IndexMetaScan
from lakehouse.index.models import IndexEntry
from lakehouse.testing import RecordingStore, memory_store
from lakehouse.testing.index_files import all_kinds

__all__ = ["KINDS", "Held", "blob_of", "entries", "filled", "with_broken_blob"]

KINDS = [
    ("bloom_skipping", "1"),
    ("fulltext_bloom", "4"),
    ("fulltext_tantivy", "5"),
    ("inverted", "1"),
    ("inverted", "2"),
]


async def filled(files: int = 5, *, filler: int = 0) -> tuple[RecordingStore, list[tuple[str, int | None]]]:
    """A store with files of all four kinds, and their list."""
    store = RecordingStore(memory_store())
    data = all_kinds(filler=filler)
    keys = [f"idx/{number:03}.puffin" for number in range(files)]
    for key in keys:
        await store.put(key, data)
    store.clear()
    return store, [(key, len(data)) for key in keys]


async def entries(scan: IndexMetaScan) -> list[IndexEntry]:
    """Everything a scan yields."""
    return [entry async for entry in scan]


def blob_of(data: bytes, kind: str) -> BlobMeta:
    """The first blob of a type in a file."""
    footer = PuffinFooter.parse(data, len(data))
    assert isinstance(footer, PuffinFooter)
    blob = footer.find(kind)
    assert blob is not None
    return blob


def with_broken_blob(*kinds: str) -> bytes:
    """A file of all kinds whose blobs of these types say that their metadata is larger than they are."""
    data = bytearray(all_kinds())
    for kind in kinds:
        blob = blob_of(bytes(data), kind)
        data[blob.end - 4 : blob.end] = b"\xff\xff\xff\x7f"
    return bytes(data)


class Held(dict[Any, Any]):
    """The simplest cache there is."""

    def get_if_present(self, key: Any) -> Any:
        """What is held."""
        return self.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Holds it."""
        self[key] = value

    def invalidate(self, key: Any) -> None:
        """Drops it."""
        self.pop(key, None)
