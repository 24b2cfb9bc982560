"""Puffin files in the store: read with few requests, written blob by blob.

Words: *file* → *blob* → *tail* (the end of a blob, where its metadata is). *Page sums* are checksums by
which any part of an index file of ours can be checked alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.index.puffin.blob_types import blob_type
    from lakehouse.index.puffin.page_sums import PageSums, PuffinBytes, PuffinImage, page_bytes_of
    from lakehouse.index.puffin.reader import MetaCache, PuffinReader, about
    from lakehouse.index.puffin.tantivy import is_installed

__all__ = [
    "MetaCache", "PageSums", "PuffinBytes", "PuffinImage", "PuffinReader", "about", "blob_type",
    "is_installed", "page_bytes_of",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "blob_types": "blob_type",
        "page_sums": "PageSums PuffinBytes PuffinImage page_bytes_of",
        "reader": "MetaCache PuffinReader about",
        "tantivy": "is_installed",
    },
)
