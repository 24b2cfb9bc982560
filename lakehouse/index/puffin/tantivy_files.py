"""Unpacking of tantivy indexes from puffin files into scratch space.

Invariant: the files under a name were unpacked from exactly the directory blob that the name is made
of. File blobs have random types that the directory lists, so no two indexes share a name.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from lakehouse.format.index import TantivyDirectory, without_zstd
from lakehouse.format.puffin import BlobMeta
from lakehouse.index.puffin.reader import PuffinReader, naming
from lakehouse.io.scratch import ScratchSpace
from lakehouse.io.work import in_thread

__all__ = ["unpacked"]


@asynccontextmanager
async def unpacked(reader: PuffinReader, blob: BlobMeta, scratch: ScratchSpace) -> AsyncIterator[str]:
    """Yields the path of a directory with the files of a tantivy index, which exists while the block lasts.

    Makes no request when the directory blob lies in the file's tail and the files were unpacked
    before; else it fetches the files in as few requests as their places allow.
    """
    listing = await reader.blob(blob)
    with naming(reader.key, blob):
        directory = TantivyDirectory.decode(listing)
        blobs = (await reader.footer()).blobs
        directory.check_blobs([listed.type for listed in blobs])

    async def fetch() -> Mapping[str, bytes]:
        contents = await reader.blobs([blobs[file.blob_index] for file in directory.files])
        files = {file.relative_path: data for file, data in zip(directory.files, contents, strict=True)}
        with naming(reader.key, blob):
            return await in_thread(without_zstd, files)

    name = hashlib.sha256(b"\0".join([reader.key.encode(), blob.type.encode(), listing])).hexdigest()
    async with scratch.directory(name, fetch) as path:
        yield path
