"""Reader of a puffin file that makes as few requests as the file's layout allows.

The first request fetches a tail, whose bytes are not fetched again; everything else
is read in ranges, several blobs in one coalesced call. A cache of footers saves the first
request, too. All bytes returned are of one version of the object: later requests require
the version of the footer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from lakehouse.config import IndexSettings
from lakehouse.errors import ConflictError, FormatError, InvalidInputError
from lakehouse.format.puffin import MAGIC, TRAILER_BYTES, BlobMeta, PuffinFooter
from lakehouse.io import Fetched, ObjectStore
from lakehouse.io.work import in_thread
from lakehouse.kernels.need_more import NeedMore

__all__ = ["MetaCache", "PuffinReader", "about", "naming"]


class MetaCache(Protocol):
    """Protocol of a cache of metadata, such as :class:`lakehouse.cache.CacheRegion`."""

    def get_if_present(self, key: Any) -> Any: ...
    def put(self, key: Any, value: Any) -> Any: ...
    def invalidate(self, key: Any) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Footer:
    """A footer, with size and version of its file."""

    footer: PuffinFooter
    start: int
    """Offset of the footer in the file."""
    size: int
    """Size of the file in bytes."""
    version: str | None
    """Version of the object; None if the store has no versions."""


class PuffinReader:
    """Reads the footer and the blobs of one file.

    Args:
        store: store that holds the file.
        key: key of the file.
        size: size of the file when known (from a listing, a manifest); saves only a suffix read, and
            a wrong size is noticed and corrected.
        version: version of the object that every request requires, from the first one on.
        prefetch_bytes: bytes of the tail that the first request fetches.
        cache: keeps footers, for all readers of the file. Without a version it assumes that the file
            never changes; a read of a blob notices when it did.
        settings: limits of sizes and requests.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        *,
        size: int | None = None,
        version: str | None = None,
        prefetch_bytes: int | None = None,
        cache: MetaCache | None = None,
        settings: IndexSettings | None = None,
    ) -> None:
        self._store = store
        self._settings = settings or IndexSettings()
        self._prefetch = prefetch_bytes or self._settings.prefetch_bytes
        self._hint = size or None  # a puffin file has bytes: a size of 0 means that it is not known
        self._version = version
        self._cache = cache
        self._window: Fetched | None = None
        self._footer: _Footer | None = None
        self.key = key

    @property
    def size(self) -> int:
        """Size of the file; known once something was read."""
        return self._read_window.size

    @property
    def version(self) -> str | None:
        """Version of the object, None if the store has no versions; known once something was read."""
        return self._read_window.version

    @property
    def window(self) -> tuple[int, bytes]:
        """The tail that the first request fetched: its offset in the file, and its bytes."""
        window = self._read_window
        return window.start, window.data

    def has_at_hand(self, blob: BlobMeta) -> bool:
        """Returns whether the first request fetched all of a blob."""
        return self._window is not None and self._window.start <= blob.offset

    @property
    def footer_start(self) -> int:
        """Offset of the footer in the file; known once it was read."""
        if self._footer is None:
            raise self._unread_error()
        return self._footer.start

    async def footer(self) -> PuffinFooter:
        """Returns the footer; takes one request, two when the footer is longer than the prefetch."""
        if self._footer is None:
            self._footer = self._cached() or await self._read_footer()
        return self._footer.footer

    async def blob(self, blob: BlobMeta | str) -> bytes:
        """Returns a whole blob, decompressed."""
        return (await self.blobs([blob]))[0]

    async def blobs(self, blobs: Sequence[BlobMeta | str]) -> list[bytes]:
        """Returns several whole blobs, decompressed; near ones share a request."""
        metas = [await self._meta(blob) for blob in blobs]
        limit = self._settings.blob_max_bytes
        for meta in metas:
            if meta.length > limit:
                what = (
                    f"{meta.length} bytes are more than index.blob_max_bytes allows: raise it, or read ranges"
                )
                raise about(FormatError(what, expected=limit, got=meta.length), self.key, meta)
        stored = await self.ranges([(meta.offset, meta.end) for meta in metas])
        with naming(self.key):
            return [
                bytes(meta.decompress(data, max_bytes=limit))
                for meta, data in zip(metas, stored, strict=True)
            ]

    async def blob_range(self, blob: BlobMeta | str, start: int, end: int) -> bytes:
        """Returns the bytes ``[start, end)`` of an uncompressed blob, cut at its end."""
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
        """Returns byte ranges of the file, from the tail that was fetched or by few requests.

        Ranges at most ``gap_bytes`` apart share a request (``io.coalesce_gap_bytes`` by default).
        """
        window = await self._tail()
        missing = [span for span in ranges if span[0] < span[1] and span[0] < window.start]
        parts: list[bytes] = []
        if missing:
            try:
                parts = await self._store.get_ranges(
                    self.key, missing, version=window.version, gap_bytes=gap_bytes
                )
            except ConflictError:
                if self._cache is not None:
                    self._cache.invalidate(self._cache_key)
                raise
        fetched = dict(zip(missing, parts, strict=True))
        contents = []
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
            contents.append(data)
        return contents

    async def _meta(self, blob: BlobMeta | str) -> BlobMeta:
        if isinstance(blob, BlobMeta):
            return blob
        meta = (await self.footer()).find(blob)
        if meta is None:
            raise InvalidInputError(f"{self.key!r} has no blob of type {blob!r}", key=self.key, blob=blob)
        return meta

    @property
    def _read_window(self) -> Fetched:
        if self._window is None:
            raise self._unread_error()
        return self._window

    def _unread_error(self) -> InvalidInputError:
        return InvalidInputError(f"{self.key!r} was not read yet: await footer() first", key=self.key)

    @property
    def _cache_key(self) -> tuple[object, ...]:
        return ("puffin-footer", self._store.url, self.key, self._hint, self._version)

    def _cached(self) -> _Footer | None:
        """Returns the footer from the cache, if it is there; the tail of the file is empty then."""
        if self._cache is None:
            return None
        footer: _Footer | None = self._cache.get_if_present(self._cache_key)
        if footer is not None and self._window is None:
            self._window = Fetched(
                key=self.key, data=b"", start=footer.size, size=footer.size, version=footer.version
            )
        return footer

    async def _read_footer(self) -> _Footer:
        window = await self._tail()
        limit = self._settings.footer_max_bytes
        with naming(self.key):
            while isinstance(parsed := await _parsed(window, limit), NeedMore):
                window = self._window = await self._end_from(parsed.start, window)
        payload = int.from_bytes(window.data[-12:-8], "little")
        start = window.size - TRAILER_BYTES - payload - len(MAGIC)
        footer = _Footer(footer=parsed, start=start, size=window.size, version=window.version)
        if self._cache is not None:
            self._cache.put(self._cache_key, footer)
        return footer

    async def _tail(self) -> Fetched:
        """Returns the tail of the file; fetches it on first use, even if the given size is wrong."""
        if self._window is None:
            window = await self._store.get_tail(
                self.key, self._prefetch, size=self._hint, version=self._version
            )
            if window.end != window.size or (window.size and not window.data):
                # The object is longer than the given size, or so much shorter that nothing came.
                window = await self._end_from(max(0, window.size - self._prefetch), window)
            self._window = window
        return self._window

    async def _end_from(self, start: int, window: Fetched) -> Fetched:
        """Fetches the file from a byte to its end."""
        end = max(window.size, start + 1)
        fetched = await self._store.get_range(self.key, start, end, version=window.version)
        if fetched.end != fetched.size:
            raise FormatError(
                f"{self.key!r} has {fetched.size} bytes, and the store sent those up to {fetched.end} alone",
                key=self.key,
                offset=fetched.end,
                expected=fetched.size,
                got=fetched.end,
            )
        return fetched


async def _parsed(window: Fetched, limit: int) -> PuffinFooter | NeedMore:
    """Parses the footer from a file's tail; a long one in a thread, so that the event loop is not blocked."""

    def parse() -> PuffinFooter | NeedMore:
        return PuffinFooter.parse(window.data, window.size, max_bytes=limit)

    return await in_thread(parse) if PuffinFooter.takes_long(window.data) else parse()


class naming:  # noqa: N801 - reads as a verb, as contextlib's own do
    """Context manager that adds the file, and the blob of it, to errors about bytes."""

    __slots__ = ("_blob", "_key")

    def __init__(self, key: str, blob: BlobMeta | None = None) -> None:
        self._key = key
        self._blob = blob

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, FormatError) and "key" not in error.context:
            raise about(error, self._key, self._blob) from error


def about(error: FormatError, key: str, blob: BlobMeta | None = None) -> FormatError:
    """Returns the error with the file, and the blob if there is one, added to message and context."""
    context = {**error.context, "key": key}
    where = key
    if blob is not None:
        where = f"{key}, blob {blob.type!r} at byte {blob.offset}"
        context |= {"blob": blob.type, "offset": blob.offset}
    return type(error)(f"{where}: {error.message}", kind=error.kind, **context)
