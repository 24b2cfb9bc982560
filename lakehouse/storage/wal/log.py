"""The write-ahead log of one table: its segments, and the tail above a number.

Invariant: segments are numbered without gaps from 1, and a number is created once. Every commit covers
at least the segments that a listing before it shows.
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
"""Bytes above which a segment is decoded in a thread, as it would hold up the event loop."""


class Wal:
    """Reads and extends the log of one table.

    Args:
        store: the store that holds the table.
        root: the table's directory.
        table: the table's uuid.
    """

    def __init__(self, store: ObjectStore, root: str, table: uuid.UUID) -> None:
        self.log = DenseLog(store, join(root, WAL_PREFIX), WAL_SUFFIX, timed=False)
        self._root, self._table = root, table

    async def tail(self, snapshot: Snapshot) -> Tail:
        """Returns the part of the log that the snapshot does not cover, listed after the call began."""
        after = snapshot.wal.upto if snapshot.wal is not None else 0
        return self.tail_of(await self.log.listed(after=after), after=after)

    def tail_of(self, listed: Sequence[tuple[int, int]], *, after: int) -> Tail:
        """Returns the segments above a number, from a listing that begins there or below."""
        sizes: list[int] = []
        for number, size in listed:
            expected = after + len(sizes) + 1
            if number > expected:
                raise CorruptionError(
                    f"WAL segment {self.log.key(expected)} is missing, and {self.log.key(number)} is "
                    "there: the log has a gap. Rows that were acknowledged may be lost.",
                    key=self.log.key(expected),
                    expected=expected,
                    got=number,
                )
            # A listing may begin further down than what is asked for.
            if number == expected:
                sizes.append(size)
        return Tail(after=after, sizes=tuple(sizes))

    async def read(self, number: int, *, snapshot: int | None = None) -> WalSegment:
        """Reads an existing segment; ``snapshot`` refers to it, for messages."""
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
        """Decodes the segment of that number from an object that was read."""
        key = self.log.key(number)

        def decode() -> WalSegment:
            return decode_segment(data, key=key, table=self._table, number=number)

        return await in_thread(decode) if len(data) > _BIG_SEGMENT else decode()
