"""One puffin file, read with as few requests as its layout allows.

The first request fetches a tail. What lies in it is never fetched again; everything else
is read in ranges, several blobs in one coalesced call. All bytes handed out are of one
version of the object: later requests insist on the version the first one found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from lakehouse.config import IndexSettings
from lakehouse.errors import FormatError, InvalidInputError
from lakehouse.format.puffin import MAGIC, TRAILER_BYTES, BlobMeta, PuffinFooter
from lakehouse.format.tail import NeedMore
from lakehouse.io import Fetched, ObjectStore

__all__ = ["PuffinReader", "about", "naming"]


class PuffinReader:
    """Reads the footer and the blobs of one file.

    Args:
        store: where the file is.
        key: its key.
        size: its size when known (a listing, a manifest); saves nothing but a suffix read, and
            a wrong one is noticed and put right.
        version: insist on this version of the object from the first request on.
        prefetch_bytes: how much of the tail the first request fetches.
        settings: limits.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        *,
        size: int | None = None,
        version: str | None = None,
        prefetch_bytes: int | None = None,
        settings: IndexSettings | None = None,
    ) -> None:
        self._store = store
        self._settings = settings or IndexSettings()
        self._prefetch = prefetch_bytes or self._settings.prefetch_bytes
        self._hint = size
        self._version = version
        self._window: Fetched | None = None
        self._footer: PuffinFooter | None = None
        self._footer_start: int | None = None
        self.key = key

    @property
    def size(self) -> int:
        """Size of the file; known once something was read."""
        if self._window is None:
            raise InvalidInputError(f"{self.key!r} was not read yet: await footer() first", key=self.key)
        return self._window.size

    @property
    def window(self) -> tuple[int, bytes]:
        """The tail that the first request fetched: its offset in the file, and its bytes."""
        if self._window is None:
            raise InvalidInputError(f"{self.key!r} was not read yet: await footer() first", key=self.key)
        return self._window.start, self._window.data

    @property
    def footer_start(self) -> int:
        """Offset of the footer in the file; known once it was read."""
        if self._footer_start is None:
            raise InvalidInputError(f"{self.key!r} was not read yet: await footer() first", key=self.key)
        return self._footer_start

    async def footer(self) -> PuffinFooter:
        """What the file holds; one request, two when the footer is longer than the prefetch."""
        if self._footer is not None:
            return self._footer
        window = await self._tail()
        limit = self._settings.footer_max_bytes
        with naming(self.key):
            while isinstance(
                found := PuffinFooter.parse(window.data, window.size, max_bytes=limit), NeedMore
            ):
                window = self._window = await self._fetch(found.start, window.size)
        self._footer = found
        payload = int.from_bytes(window.data[-12:-8], "little")
        self._footer_start = window.size - TRAILER_BYTES - payload - len(MAGIC)
        return found

    async def blob(self, blob: BlobMeta | str) -> bytes:
        """A whole blob, decompressed."""
        return (await self.blobs([blob]))[0]

    async def blobs(self, blobs: Sequence[BlobMeta | str]) -> list[bytes]:
        """Several whole blobs, decompressed; near ones share a request."""
        metas = [await self._meta(blob) for blob in blobs]
        stored = await self.ranges([(meta.offset, meta.end) for meta in metas])
        limit = self._settings.blob_max_bytes
        with naming(self.key):
            return [
                bytes(meta.decompress(data, max_bytes=limit))
                for meta, data in zip(metas, stored, strict=True)
            ]

    async def blob_range(self, blob: BlobMeta | str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)`` of an uncompressed blob, cut at its end."""
        meta = await self._meta(blob)
        if meta.codec is not None:
            raise InvalidInputError(
                f"blob {meta.type!r} of {self.key!r} is compressed ({meta.codec}): read it whole",
                key=self.key,
            )
        if not 0 <= start <= end:
            raise InvalidInputError(f"[{start}, {end}) is no range of blob {meta.type!r} of {self.key!r}")
        end = min(end, meta.length)
        if start >= end:
            return b""
        return (await self.ranges([(meta.offset + start, meta.offset + end)]))[0]

    async def ranges(self, ranges: Sequence[tuple[int, int]], *, gap_bytes: int | None = None) -> list[bytes]:
        """Byte ranges of the file: from the tail at hand, or fetched in few requests.

        Ranges at most ``gap_bytes`` apart share a request (``io.coalesce_gap_bytes`` by default).
        """
        window = await self._tail()
        missing = [span for span in ranges if span[0] < span[1] and span[0] < window.start]
        parts: list[bytes] = []
        if missing:
            parts = await self._store.get_ranges(
                self.key, missing, version=window.version, gap_bytes=gap_bytes
            )
        fetched = dict(zip(missing, parts, strict=True))
        found = []
        for start, end in ranges:
            data = fetched.get((start, end))
            if data is None:
                data = window.data[max(0, start - window.start) : max(0, end - window.start)]
            if len(data) != end - start:
                raise FormatError(
                    f"{self.key!r} has no bytes [{start}, {end}): it ends at {window.size}",
                    key=self.key,
                    offset=start,
                    expected=end - start,
                    got=len(data),
                )
            found.append(data)
        return found

    async def _meta(self, blob: BlobMeta | str) -> BlobMeta:
        if isinstance(blob, BlobMeta):
            return blob
        meta = (await self.footer()).find(blob)
        if meta is None:
            raise InvalidInputError(f"{self.key!r} has no blob of type {blob!r}", key=self.key, blob=blob)
        return meta

    async def _tail(self) -> Fetched:
        """The tail of the file, however wrong the size we were told is."""
        if self._window is None:
            window = await self._store.get_tail(
                self.key, self._prefetch, size=self._hint, version=self._version
            )
            if window.end != window.size or (window.size and not window.data):
                # The object is longer than we were told, or so much shorter that nothing came.
                start = max(0, window.size - self._prefetch)
                window = await self._store.get_range(
                    self.key, start, max(window.size, start + 1), version=window.version
                )
            self._window = window
        return self._window

    async def _fetch(self, start: int, end: int) -> Fetched:
        assert self._window is not None
        return await self._store.get_range(self.key, start, end, version=self._window.version)


@contextlib.contextmanager
def naming(key: str, blob: BlobMeta | None = None) -> Iterator[None]:
    """Makes errors about bytes say which file they are about, and which blob of it."""
    try:
        yield
    except FormatError as error:
        if "key" in error.context:
            raise
        raise about(error, key, blob) from error


def about(error: FormatError, key: str, blob: BlobMeta | None = None) -> FormatError:
    """The same error with the file, and the blob where it is about one, in message and context."""
    context = {**error.context, "key": key}
    where = key
    if blob is not None:
        where = f"{key}, blob {blob.type!r} at byte {blob.offset}"
        context |= {"blob": blob.type, "offset": blob.offset}
    return type(error)(f"{where}: {error.message}", kind=error.kind, **context)
