"""Streaming writes: small objects in one PUT, large ones in parts, nothing half-written.

The object appears when the ``async with`` block ends without an error, whole or not at
all. Memory holds at most ``io.part_bytes`` times ``io.part_concurrency`` plus what is
collected for the next part (``io.single_put_max_bytes`` while it is not known whether
one PUT will do).
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import anyio

from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError, LakehouseError
from lakehouse.io.protocols import Buffer, PutsParts, Stored, check_key
from lakehouse.log import get_logger

__all__ = ["ObjectWriter"]

_log = get_logger(__name__)
_ABORT_SECONDS_MAX = 10.0


class ObjectWriter:
    """Collects bytes and makes one object of them; see :meth:`ObjectStore.writer`."""

    def __init__(self, store: PutsParts, key: str, settings: IoSettings) -> None:
        self._store = store
        self._key = check_key(key)
        self._settings = settings
        self._chunks: list[bytes] = []
        self._collected = 0
        self._size = 0
        self._upload: str | None = None
        self._parts: list[asyncio.Task[str]] = []
        self._free = asyncio.Semaphore(settings.part_concurrency)
        self._closed = False
        self.stored: Stored | None = None
        """The receipt, once the block has ended."""

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._size

    async def write(self, data: Buffer) -> None:
        """Adds bytes; waits while ``io.part_concurrency`` parts are under way.

        The bytes are copied, so the caller may reuse its buffer.
        """
        if self._closed:
            raise InvalidInputError(f"the writer of {self._key!r} is closed", key=self._key)
        self._chunks.append(bytes(data))
        self._collected += len(self._chunks[-1])
        self._size += len(self._chunks[-1])
        if self._upload is None and self._size <= self._settings.single_put_max_bytes:
            return
        if self._upload is None:
            self._upload = await self._store.multipart_start(self._key)
        await self._send_full_parts()

    async def _send_full_parts(self) -> None:
        size = self._settings.part_bytes
        if self._collected < size:
            return
        whole = b"".join(self._chunks)
        view = memoryview(whole)
        at = 0
        while len(whole) - at >= size:
            await self._send(view[at : at + size])
            at += size
        self._chunks = [whole[at:]]
        self._collected = len(whole) - at

    async def _send(self, part: Buffer) -> None:
        await self._free.acquire()
        for task in self._parts:
            if task.done():
                try:
                    task.result()  # the first failure ends the upload now, not at the end
                except BaseException:
                    self._free.release()
                    raise
        self._parts.append(asyncio.create_task(self._send_part(len(self._parts) + 1, part)))

    async def _send_part(self, number: int, part: Buffer) -> str:
        assert self._upload is not None
        try:
            return await self._store.multipart_part(self._key, self._upload, number, part)
        finally:
            self._free.release()

    async def finish(self) -> Stored:
        """Makes the object and returns its receipt; ``async with`` does it for you."""
        if self._closed:
            raise InvalidInputError(f"the writer of {self._key!r} is closed", key=self._key)
        if self._upload is None:
            self.stored = await self._store.put(self._key, b"".join(self._chunks))
        else:
            if self._collected or not self._parts:
                await self._send(b"".join(self._chunks))
            receipts = [await task for task in self._parts]
            self.stored = await self._store.multipart_complete(
                self._key, self._upload, receipts, size=self._size
            )
        self._closed = True
        self._chunks.clear()
        return self.stored

    async def abort(self) -> None:
        """Throws away what was sent; no object appears."""
        self._closed = True
        self._chunks.clear()
        for task in self._parts:
            task.cancel()
        if self._parts:
            await asyncio.wait(self._parts)
        if self._upload is None:
            return
        try:
            await self._store.multipart_abort(self._key, self._upload)
        except LakehouseError as error:
            # The caller has a better error already; parts left behind are invisible and
            # go with the bucket's rule for incomplete uploads.
            _log.warning("could not abort an upload", key=self._key, error=error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._closed:
            return
        try:
            if error is None:
                await self.finish()
        finally:
            if not self._closed:
                with anyio.move_on_after(_ABORT_SECONDS_MAX, shield=True):
                    await self.abort()
