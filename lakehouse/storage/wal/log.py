"""The write-ahead log of one table: what is in it, read as of a moment, one segment at a time.

Invariant: segments are numbered without gaps from 1, and a number is created once. What a listing shows
above a number is what every commit after it has to cover.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.format.metadata import Snapshot, WalSegment, decode_segment
from lakehouse.io.store import ObjectStore
from lakehouse.io.work import in_thread
from lakehouse.storage.metadata.dense_log import DenseLog
from lakehouse.storage.metadata.paths import WAL_PREFIX, WAL_SUFFIX, join
from lakehouse.storage.wal.tail import Tail

__all__ = ["Wal"]

_BIG_SEGMENT = 64 * 1024
"""Decoding larger ones would hold up the loop."""


class Wal:
    """Reads and extends the log of one table.

    Args:
        store: where the table is.
        root: its directory.
        table: its uuid.
    """

    def __init__(self, store: ObjectStore, root: str, table: uuid.UUID) -> None:
        self.log = DenseLog(store, join(root, WAL_PREFIX), WAL_SUFFIX, timed=False)
        self._root, self._table = root, table

    async def tail(self, snapshot: Snapshot) -> Tail:
        """What the log holds that the snapshot does not cover, listed after the call began."""
        return await self.tail_after(snapshot.wal.upto if snapshot.wal is not None else 0)

    async def tail_after(self, number: int) -> Tail:
        """The segments above a number."""
        return self.tail_of(await self.listed(after=number), after=number)

    async def listed(self, *, after: int) -> list[tuple[int, int]]:
        """The numbers there are above one, ascending, each with the bytes of its segment."""
        return await self.log.listed(after=after)

    def tail_of(self, listed: Sequence[tuple[int, int]], *, after: int) -> Tail:
        """The segments above a number, of a listing from there or from below."""
        sizes: list[int] = []
        for found, size in listed:
            expected = after + len(sizes) + 1
            if found > expected:
                raise CorruptionError(
                    f"WAL segment {self.log.key(expected)} is missing, and {self.log.key(found)} is "
                    "there: the log has a gap. Rows that were acknowledged may be lost.",
                    key=self.log.key(expected),
                    expected=expected,
                    got=found,
                )
            if found == expected:
                sizes.append(size)
        return Tail(after=after, sizes=tuple(sizes))

    async def read(self, number: int, *, snapshot: int | None = None) -> WalSegment:
        """A segment that is there; ``snapshot`` refers to it, for messages."""
        key = self.log.key(number)
        try:
            data = (await self.log.read(number)).data
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            raise CorruptionError(
                f"WAL segment {key} is missing"
                + (f"; snapshot {snapshot} refers to it" if snapshot is not None else ""),
                key=key,
                snapshot=snapshot,
            ) from missing
        return await self.decoded(data, number)

    async def decoded(self, data: bytes, number: int) -> WalSegment:
        """The segment of that number in an object that was read."""
        key = self.log.key(number)

        def decode() -> WalSegment:
            return decode_segment(data, key=key, table=self._table, number=number)

        return await in_thread(decode) if len(data) > _BIG_SEGMENT else decode()
