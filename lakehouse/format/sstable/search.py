"""Lookup of one key in one data block by its restarts, without decoding the other rows.

Invariant: :meth:`SearchBlock.find` finds the rows that :func:`~lakehouse.format.sstable.entries.scan_blocks`
finds; if the bytes are no block, it finds a row within their bounds or none, or raises a BlockError.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from lakehouse.format.sstable.entries import KIND_MAX, RESTART_ROWS, BlockError, trailer_size
from lakehouse.format.sstable.loops import read_varint

__all__ = ["FoundEntry", "SearchBlock"]

_LONG = (128, 0, 0)
"""Sizes that one byte each does not hold: they are read one by one."""


class FoundEntry(NamedTuple):
    """A row in a block: its kind, and the place of its value."""

    kind: int
    begin: int
    """Offset of its value in the content."""
    end: int
    """Offset behind its value."""


class SearchBlock:
    """The content of a block, with the keys of its restarts.

    Args:
        content: the decompressed content of the block.
        rows: number of rows that it must have.

    Raises:
        BlockError: the content is not that of such a block.
    """

    __slots__ = ("_end", "_restarts", "_rows", "content", "keys")

    def __init__(self, content: bytes, rows: int) -> None:
        self.content = content
        self._rows = rows
        self._end = len(content) - trailer_size(rows)
        count = (rows + RESTART_ROWS - 1) // RESTART_ROWS
        if self._end < 0 or int.from_bytes(content[-4:], "little") != rows:
            raise BlockError(0, f"it does not say that it has {rows} rows")
        self._restarts: tuple[int, ...] = struct.unpack_from(f"<{count}I", content, self._end)
        self.keys = [self._restart_key(at) for at in self._restarts]
        """Keys of the restarts: every 16th key."""
        if any(a >= b for a, b in pairwise(self.keys)):
            raise BlockError(0, "its keys do not ascend")

    @property
    def weight(self) -> int:
        """Approximate bytes in memory."""
        return (
            len(self.content) + len(self.content) // 8 + sum(map(len, self.keys)) + 100 * len(self.keys) + 200
        )

    def _restart_key(self, at: int) -> bytes:
        shared, own, _, start = self._parts(at)
        if shared or start + own > self._end:
            raise BlockError(0, "a restart is not where an entry begins")
        return self.content[start : start + own]

    def find(self, key: bytes) -> FoundEntry | None:
        """Returns the row of that key; None when there is none.

        Raises:
            BlockError: the entries at its place are invalid.
        """
        restart = bisect_right(self.keys, key) - 1
        if restart < 0:
            return None
        data, at, last = self.content, self._restarts[restart], self._end - 4
        # Bytes that the key has in common with the entry before, which is less, and the key's others.
        common, rest = 0, key
        for _ in range(min(RESTART_ROWS, self._rows - RESTART_ROWS * restart)):
            entry = at
            # What _parts does for nearly every entry, without the call.
            shared, own, size = data[at + 1 : at + 4] if at <= last else _LONG
            if shared < 128 and own < 128 and size < 128:
                at += 4
            else:
                shared, own, size, at = self._parts(at)
            if shared < common:
                return None  # greater than the entry before, where that one has the key's bytes
            if shared == common:
                part = data[at : at + own]
                if part >= rest:
                    at += own
                    kind = data[entry]
                    if at + size > self._end or kind > KIND_MAX:
                        raise BlockError(0, "an entry goes beyond its end, or is of no kind")
                    return FoundEntry(kind, at, at + size) if part == rest else None
                if part and part[0] == rest[0]:
                    same = 1
                    while same < len(part) and part[same] == rest[same]:
                        same += 1
                    common, rest = common + same, rest[same:]
            at += own + size
        return None

    def _parts(self, at: int) -> tuple[int, int, int, int]:
        """Returns of an entry the bytes shared, its own bytes, the size of its value, and its key's place."""
        data, end = self.content, self._end
        if at + 4 > end:
            raise BlockError(0, "an entry begins behind its end")
        shared, own, size = data[at + 1 : at + 4]  # one byte each, nearly always
        if shared < 128 and own < 128 and size < 128:
            return shared, own, size, at + 4
        shared, at = read_varint(data, at + 1, end)
        own, at = read_varint(data, at, end) if at > 0 else (0, -1)
        size, at = read_varint(data, at, end) if at > 0 else (0, -1)
        if at < 0:
            raise BlockError(0, "a size in it has no end")
        return shared, own, size, at
