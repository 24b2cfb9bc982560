"""Streaming writes: small objects in one PUT, large ones in parts, nothing half-written.

The object appears when the ``async with`` block ends without an error, whole or not at
all; after a write that did not end (an error, a time-out) there is none. Memory holds at
most ``io.single_put_max_bytes`` while it is not known whether one PUT will do, then
``io.part_bytes`` for the next part, and ``io.part_concurrency`` parts under way. A store
that takes no parts gets the object in one piece, which then stands in memory.
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
    """Collects bytes and makes one object of them, for one task; see :meth:`ObjectStore.writer`."""

    def __init__(self, store: PutsParts, key: str, settings: IoSettings, *, takes_parts: bool = True) -> None:
        self._store = store
        self._key = check_key(key)
        self._settings = settings
        self._takes_parts = takes_parts
        self._collected = bytearray()
        self._size = 0
        self._upload: str | None = None
        self._parts: list[asyncio.Task[str]] = []
        self._free = asyncio.Semaphore(settings.part_concurrency)
        self._whole = True
        """No write has ended early, so that every byte given is collected or sent."""
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
        self._check_usable()
        self._whole = False
        view = memoryview(data).cast("B")
        size = self._size + len(view)
        if self._upload is None and not self._fits_one_put(size):
            self._upload = await self._store.multipart_start(self._key)
        while self._upload is not None and len(self._collected) + len(view) >= self._settings.part_bytes:
            taken = view[: max(0, self._settings.part_bytes - len(self._collected))]
            self._collected += taken
            view = view[len(taken) :]
            await self._send(self._settings.part_bytes)
        self._collected += view
        self._size = size
        self._whole = True

    def _fits_one_put(self, size: int) -> bool:
        return not self._takes_parts or size <= self._settings.single_put_max_bytes

    def _check_usable(self) -> None:
        if self._closed:
            raise InvalidInputError(f"the writer of {self._key!r} is closed", key=self._key)
        if not self._whole:
            raise InvalidInputError(
                f"a write of {self._key!r} did not end, so the object would lack bytes: write it anew",
                key=self._key,
            )

    async def _send(self, size: int) -> None:
        """Begins to send the first ``size`` bytes collected as the next part."""
        await self._free.acquire()
        try:
            for task in self._parts:
                if task.done():
                    task.result()  # the first failure ends the upload now, not at the end
            # Cut when there is room for the part under way, or memory would hold one more.
            with memoryview(self._collected) as view:
                part = bytes(view[:size])
            del self._collected[:size]
        except BaseException:
            self._free.release()
            raise
        self._parts.append(asyncio.create_task(self._send_part(len(self._parts) + 1, part)))

    async def _send_part(self, number: int, part: bytes) -> str:
        assert self._upload is not None
        try:
            return await self._store.multipart_part(self._key, self._upload, number, part)
        finally:
            self._free.release()

    async def finish(self) -> Stored:
        """Makes the object and returns its receipt; ``async with`` does it for you."""
        self._check_usable()
        if self._upload is None:
            self.stored = await self._store.put(self._key, self._collected)
        else:
            if self._collected:
                await self._send(len(self._collected))
            done, _ = await asyncio.wait(self._parts, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()  # the error, if there is one; otherwise all are done
            receipts = [task.result() for task in self._parts]
            self.stored = await self._store.multipart_complete(
                self._key, self._upload, receipts, size=self._size
            )
        self._close()
        return self.stored

    def _close(self) -> None:
        self._closed = True
        self._collected = bytearray()

    async def abort(self) -> None:
        """Throws away what was sent; no object appears."""
        self._close()
        for task in self._parts:
            task.cancel()
        if self._parts:
            await asyncio.wait(self._parts)
        for task in self._parts:
            if not task.cancelled():
                task.exception()  # looked at, so that asyncio does not report it as overlooked
        if self._upload is None or self.stored is not None:
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
