"""Writer of a puffin file to the store, blob by blob.

Invariant: the file appears in the store when it is complete, and not at all when writing fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from lakehouse.errors import InvalidInputError
from lakehouse.format.puffin import PuffinBuilder, PuffinFooter
from lakehouse.io import ObjectStore, Stored

__all__ = ["BlobSink", "PuffinWriter"]


class BlobSink(Protocol):
    """Protocol of a sink that takes blobs one after another."""

    @property
    def footer(self) -> PuffinFooter:
        """Footer for the blobs added so far."""
        ...

    async def add(
        self,
        type: str,  # noqa: A002 - the footer's own word
        data: bytes | memoryview,
        *,
        codec: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Any:
        """Adds a blob behind the others."""
        ...


class PuffinWriter:
    """Streams blobs into one file; the file appears when the block ends without an error.

    Args:
        store: store of the file.
        key: key of the file.
        properties: properties of the file.
        lz4_footer: True compresses the footer.
        allow_duplicates: True allows a type to occur more than once, as Iceberg's deletion vectors do.

    ::

        async with PuffinWriter(store, "index/x.puffin") as writer:
            await writer.add("my-blob", data, codec="zstd")
        size = writer.stored.size
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        *,
        properties: Mapping[str, str] | None = None,
        lz4_footer: bool = False,
        allow_duplicates: bool = False,
    ) -> None:
        self._sink = store.writer(key)
        self._builder = PuffinBuilder(
            properties=properties, lz4_footer=lz4_footer, allow_duplicates=allow_duplicates
        )
        self.key = key

    async def add(
        self,
        type: str,  # noqa: A002 - the footer's own word
        data: bytes | memoryview,
        *,
        codec: str | None = None,
        fields: tuple[int, ...] = (),
        snapshot_id: int = 0,
        sequence_number: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Adds a blob behind the others."""
        chunks = self._builder.add(
            type,
            data,
            codec=codec,
            fields=fields,
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
            properties=properties,
        )
        for chunk in chunks:
            await self._sink.write(chunk)

    @property
    def footer(self) -> PuffinFooter:
        """Footer for the blobs added so far."""
        return self._builder.footer

    @property
    def stored(self) -> Stored:
        """The store's receipt, once the block has ended; manifests keep its size."""
        if self._sink.stored is None:
            raise InvalidInputError(f"the puffin file {self.key!r} is not finished")
        return self._sink.stored

    async def __aenter__(self) -> Self:
        await self._sink.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._sink.write(self._builder.finish())
        await self._sink.__aexit__(kind, error, trace)
