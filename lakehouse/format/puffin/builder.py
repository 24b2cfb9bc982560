"""Builder of puffin files, piece by piece and without I/O.

Invariant: the chunks that :class:`PuffinBuilder` returns, one after another, are a puffin file
whose footer :meth:`PuffinFooter.parse` reads back, and no two of its blobs have one type
unless that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.errors import FormatError, InvalidInputError
from lakehouse.format.puffin.codec import compress_blob
from lakehouse.format.puffin.footer import MAGIC, BlobMeta, PuffinFooter

__all__ = ["PuffinBuilder"]


class PuffinBuilder:
    """Builds a puffin file piece by piece: every call returns the bytes to write next.

    ::

        builder = PuffinBuilder()
        for chunk in builder.add("my-blob", data): sink.write(chunk)
        sink.write(builder.finish())
    """

    __slots__ = ("_allow_duplicates", "_blobs", "_finished", "_lz4", "_properties", "_types", "size")

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        lz4_footer: bool = False,
        allow_duplicates: bool = False,
    ) -> None:
        self._properties = dict(properties or {})
        self._lz4 = lz4_footer
        self._allow_duplicates = allow_duplicates
        self._blobs: list[BlobMeta] = []
        self._types: set[str] = set()
        self._finished = False
        self.size = 0
        """Bytes returned so far; after :meth:`finish` the size of the file."""

    def add(
        self,
        type: str,  # noqa: A002 - the footer's own word
        data: bytes | memoryview,
        *,
        codec: str | None = None,
        fields: tuple[int, ...] = (),
        snapshot_id: int = 0,
        sequence_number: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> tuple[bytes | memoryview, ...]:
        """Adds a blob; returns the chunks to write now."""
        if self._finished:
            raise InvalidInputError("the puffin file is finished: start another builder")
        if type in self._types and not self._allow_duplicates:
            raise InvalidInputError(f"the puffin file has a blob of type {type!r} already", type=type)
        stored = compress_blob(data, codec)
        meta = BlobMeta(
            type=type,
            offset=self.size or len(MAGIC),
            length=len(stored),
            fields=fields,
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
            codec=codec,
            properties=dict(properties or {}),
        )
        try:
            BlobMeta.from_json(meta.to_json(), len(self._blobs), meta.end)
        except FormatError as error:
            raise InvalidInputError(f"no reader would take this blob: {error}", type=type) from error
        chunks = (*self._head(), stored)
        self._blobs.append(meta)
        self._types.add(type)
        self.size += len(stored)
        return chunks

    def finish(self, *, properties: Mapping[str, str] | None = None) -> bytes:
        """Ends the file and returns its last bytes; adds ``properties`` to those of the file."""
        if self._finished:
            raise InvalidInputError("the puffin file is finished already")
        self._properties.update(properties or {})
        footer = self.footer.encode()
        self._finished = True
        last = b"".join((*self._head(), footer))
        self.size += len(footer)
        return last

    @property
    def footer(self) -> PuffinFooter:
        """Footer for the blobs added so far."""
        return PuffinFooter(blobs=tuple(self._blobs), properties=self._properties, lz4=self._lz4)

    def _head(self) -> tuple[bytes, ...]:
        if self.size:
            return ()
        self.size = len(MAGIC)
        return (MAGIC,)
