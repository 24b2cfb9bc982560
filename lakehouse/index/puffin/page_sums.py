"""Index files of tables: puffin files whose every byte can be checked, and whose metadata are in the footer.

A search reads a few kilobytes here and there, so a checksum of the whole file, or of a blob, would not
help it. The footer's properties have a checksum for every page of the file in front of the footer, and
the reference to the file has the footer's own. The metadata at the ends of blobs are in the footer as
well, so that enumerating them takes one request.

Invariant: pages that :class:`PageSums` accepts have the bytes that were written.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import google_crc32c
import numpy as np

from lakehouse.errors import CorruptionError
from lakehouse.format.puffin import PuffinBuilder, PuffinFooter
from lakehouse.index.models import IndexType
from lakehouse.index.puffin.blob_tails import TAIL
from lakehouse.index.puffin.blob_types import classify
from lakehouse.kernels.arrays import I64
from lakehouse.kernels.need_more import LENGTH_BYTES

__all__ = ["PageSums", "PuffinBytes", "PuffinImage", "page_bytes_of"]

_PAGE_BYTES = "lakehouse.page_bytes"
_PAGE_SUMS = "lakehouse.page_crc32c"
_PAGE_MIN = 8 * 1024
_PAGES_MAX = 1024
"""Maximum number of pages; larger files have larger pages."""


def page_bytes_of(end: int) -> int:
    """Returns the bytes of a page in a file whose footer begins at ``end``."""
    page = _PAGE_MIN
    while page * _PAGES_MAX < end:
        page *= 2
    return page


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinImage:
    """A whole puffin file in memory."""

    data: bytes
    footer: PuffinFooter
    footer_bytes: int
    checksum: int
    """CRC32C of the footer."""

    def reach(self, blob_type: str) -> int:
        """Returns the bytes from the start of a blob to the end of the file."""
        blob = self.footer.find(blob_type)
        assert blob is not None
        return len(self.data) - blob.offset


class PuffinBytes:
    """Sink that makes a file of blobs in memory; see :class:`lakehouse.index.puffin.writer.BlobSink`."""

    def __init__(self) -> None:
        self._builder = PuffinBuilder()
        self._chunks: list[bytes | memoryview] = []

    @property
    def footer(self) -> PuffinFooter:
        """Footer for the blobs added so far."""
        return self._builder.footer

    async def add(
        self,
        type: str,  # noqa: A002 - the footer's own word
        data: bytes | memoryview,
        *,
        codec: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Adds a blob; notes its metadata in the footer unless it is compressed."""
        more = {} if codec is not None else _tail_property(type, data)
        self._chunks += self._builder.add(type, data, codec=codec, properties={**(properties or {}), **more})

    def finish(self, properties: Mapping[str, str]) -> PuffinImage:
        """Returns the file of one blob or more, with these properties; takes long: call it in a thread."""
        body = b"".join(self._chunks)
        page = page_bytes_of(len(body))
        sums = [google_crc32c.value(body[at : at + page]) for at in range(0, len(body), page)]
        encoded = base64.b64encode(np.array(sums, "<u4").tobytes()).decode()
        last = self._builder.finish(properties={**properties, _PAGE_BYTES: str(page), _PAGE_SUMS: encoded})
        return PuffinImage(
            data=body + last,
            footer=self.footer,
            footer_bytes=len(last),
            checksum=google_crc32c.value(last),
        )


def _tail_property(blob_type: str, data: bytes | memoryview) -> dict[str, str]:
    """Returns the property with the metadata at a blob's end; none for blobs without such metadata."""
    kind_and_key = classify(blob_type)
    if kind_and_key is None or kind_and_key[0] is IndexType.FULLTEXT_TANTIVY:
        return {}
    length = int.from_bytes(data[-LENGTH_BYTES:], "little") + LENGTH_BYTES
    return {TAIL: base64.b64encode(data[len(data) - length :]).decode()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSums:
    """The checksums of a file's pages."""

    page_bytes: int
    sums: I64
    end: int
    """Offset of the footer in the file."""

    @classmethod
    def of(cls, footer: PuffinFooter, end: int, key: str) -> Self:
        """Reads the checksums in a footer.

        Raises:
            CorruptionError: it has none, or not as many as there are pages.
        """
        try:
            page = int(footer.properties[_PAGE_BYTES])
            sums = np.frombuffer(base64.b64decode(footer.properties[_PAGE_SUMS], validate=True), "<u4")
        except (KeyError, ValueError) as error:
            raise CorruptionError(f"{key} has no checksums of its pages", key=key) from error
        if page < 1 or len(sums) != -(-end // page):
            raise CorruptionError(
                f"{key} has {len(sums)} checksums of pages of {page} bytes, and {end} bytes", key=key
            )
        return cls(page_bytes=page, sums=sums.astype(np.int64), end=end)

    def span(self, page: int) -> tuple[int, int]:
        """Returns the place of a page in the file, ``[start, end)``."""
        return page * self.page_bytes, min(self.end, (page + 1) * self.page_bytes)

    def check(self, page: int, data: bytes, key: str) -> bytes:
        """Returns the page if its bytes match the checksum.

        Raises:
            CorruptionError: they do not; the message names file and bytes.
        """
        crc = google_crc32c.value(data)
        if crc != int(self.sums[page]):
            start, end = self.span(page)
            raise CorruptionError(
                f"{key} is damaged between bytes {start} and {end}: CRC32C {crc:08x}, its footer says "
                f"{int(self.sums[page]):08x}",
                key=key,
                offset=start,
                expected=int(self.sums[page]),
                got=crc,
            )
        return data
