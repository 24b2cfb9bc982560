"""The index block of an SSTable: the key range of each block, and the pieces that are read together.

::

    blocks u32, pieces u32
    stored u32[blocks]         bytes of each data block in the file, head and checksum included
    raw u32[blocks]            bytes of its content
    rows u32[blocks]           rows of each data block
    separator u32[blocks]      bytes of each separator
    count u32[pieces]          blocks of each piece
    first u32[pieces]          bytes of each piece's first key
    last u32[pieces]           bytes of its last key
    separators, first keys, last keys, one after another

Blocks lie back to back behind the header, so their offsets are not written. A separator is not
below any key of its block and below every key of the next: the shortest sufficient prefix of the
next key. A piece is some neighbouring blocks, about a megabyte of them.

Invariant: blocks and pieces of an index that was parsed add up to the file's data and rows, and a
piece's content is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lakehouse.errors import CorruptionError
from lakehouse.format.sstable.entries import ENTRY_BYTES_MIN
from lakehouse.format.sstable.frame import RAW_BYTES_MAX, Footer, Header
from lakehouse.kernels.arrays import I64

__all__ = ["BlockIndex", "IndexBuilder", "IndexPiece"]

_HEAD = struct.Struct("<II")
_BLOCK_ARRAYS = 4
_PIECE_ARRAYS = 3
_PIECE_RAW_BYTES_MAX = 1 << 24
"""Maximum bytes of content of a piece without its last block: bounds the memory of readers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPiece:
    """A piece: neighbouring blocks, with their first and last key."""

    begin: int
    """Number of its first block."""
    end: int
    """Number behind its last block."""
    first_key: bytes
    last_key: bytes


class IndexBuilder:
    """Collects blocks as they are written."""

    def __init__(self, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self._stored: list[int] = []
        self._raw: list[int] = []
        self._rows: list[int] = []
        self._firsts: list[bytes] = []
        self._lasts: list[bytes] = []

    def add(self, *, stored: int, raw: int, rows: int, first_key: bytes, last_key: bytes) -> None:
        """Adds the next block: its bytes in the file, bytes of content, rows and keys."""
        self._stored.append(stored)
        self._raw.append(raw)
        self._rows.append(rows)
        self._firsts.append(first_key)
        self._lasts.append(last_key)

    @property
    def blocks(self) -> int:
        """Number of blocks so far."""
        return len(self._stored)

    @property
    def data_end(self) -> int:
        """End of the last block in the file."""
        return Header.ENCODED_SIZE + sum(self._stored)

    def build(self) -> bytes:
        """Encodes the content of the index block."""
        separators = [
            _separator(last, first) for last, first in zip(self._lasts, self._firsts[1:], strict=False)
        ]
        separators += self._lasts[-1:]  # no key follows the last block, so its own last key serves
        bounds = self._piece_bounds()
        firsts = [self._firsts[begin] for begin, _ in bounds]
        lasts = [self._lasts[end - 1] for _, end in bounds]
        arrays: list[Sequence[int]] = [self._stored, self._raw, self._rows, [*map(len, separators)]]
        arrays += [[end - begin for begin, end in bounds], [*map(len, firsts)], [*map(len, lasts)]]
        head = _HEAD.pack(self.blocks, len(bounds))
        return b"".join(
            [head, *(np.array(array, "<u4").tobytes() for array in arrays), *separators, *firsts, *lasts]
        )

    def _piece_bounds(self) -> list[tuple[int, int]]:
        """Returns the blocks of each piece, ``[begin, end)``; a piece ends once it is large enough."""
        bounds = []
        begin = stored = raw = 0
        for at in range(self.blocks):
            stored += self._stored[at]
            raw += self._raw[at]
            if stored >= self._piece_bytes or raw >= _PIECE_RAW_BYTES_MAX // 2 or at == self.blocks - 1:
                bounds.append((begin, at + 1))
                begin, stored, raw = at + 1, 0, 0
        return bounds


def _separator(last: bytes, first: bytes) -> bytes:
    """Returns the shortest prefix of ``first`` from ``last`` on and below ``first``; else ``last``."""
    same = next((at for at, (a, b) in enumerate(zip(last, first, strict=False)) if a != b), len(last))
    return last if len(last) <= same + 1 or len(first) == same + 1 else first[: same + 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockIndex:
    """The parsed index: the data blocks of a file, and its pieces."""

    offsets: I64
    """Offset of each block in the file, and the end of the last one."""
    raw: I64
    """Bytes of each block's content."""
    firsts: I64
    """Number of each block's first row, and the number of all rows."""
    separators: tuple[bytes, ...]
    pieces: tuple[IndexPiece, ...]

    @classmethod
    def parse(cls, data: bytes, footer: Footer) -> BlockIndex:
        """Parses the content of an index block.

        Raises:
            CorruptionError: it is invalid, or does not fit a file with this footer.
        """
        offset = footer.index.offset
        if len(data) < _HEAD.size:
            raise CorruptionError(f"the index has {len(data)} bytes, too few", offset=offset)
        blocks, pieces = _HEAD.unpack_from(data)
        sizes = [blocks] * _BLOCK_ARRAYS + [pieces] * _PIECE_ARRAYS
        at = _HEAD.size + 4 * sum(sizes)
        if at > len(data):
            raise CorruptionError(f"the index is too short for {blocks} blocks", offset=offset)
        every = np.frombuffer(data, "<u4", sum(sizes), _HEAD.size).astype(np.int64)
        stored, raw, rows, separator, count, first, last = np.split(every, np.cumsum(sizes)[:-1])
        keys, end = _cut(data, at, np.concatenate([separator, first, last]))
        if end != len(data) or int(count.sum()) != blocks or (blocks and not (count.all() and rows.all())):
            raise CorruptionError("the parts of the index do not add up", offset=offset)
        fit = (raw <= RAW_BYTES_MAX) & (rows * ENTRY_BYTES_MIN <= raw)
        if Header.ENCODED_SIZE + int(stored.sum()) != footer.data_end or not fit.all():
            raise CorruptionError("the blocks of the index are not those of the file", offset=offset)
        ends = np.cumsum(count)
        for begin, stop in zip((ends - count).tolist(), ends.tolist(), strict=True):
            if int(raw[begin : stop - 1].sum()) > _PIECE_RAW_BYTES_MAX:
                raise CorruptionError(f"the piece of blocks {begin} to {stop} is too large", offset=offset)
        if any(a > b for a, b in pairwise(keys[:blocks])):
            raise CorruptionError("the separators of the index do not ascend", offset=offset)
        firsts, lasts = keys[blocks : blocks + pieces], keys[blocks + pieces :]
        return cls(
            offsets=Header.ENCODED_SIZE + np.concatenate([[0], np.cumsum(stored)]),
            raw=raw,
            firsts=np.concatenate([[0], np.cumsum(rows)]),
            separators=tuple(keys[:blocks]),
            pieces=tuple(
                IndexPiece(begin=begin, end=stop, first_key=first_key, last_key=last_key)
                for begin, stop, first_key, last_key in zip(
                    (ends - count).tolist(), ends.tolist(), firsts, lasts, strict=True
                )
            ),
        )


def _cut(data: bytes, at: int, sizes: I64) -> tuple[list[bytes], int]:
    """Cuts pieces of these sizes from ``data``, from ``at`` on; returns also the end of the last."""
    ends = at + np.cumsum(sizes)
    starts = (ends - sizes).tolist()
    pieces = [data[begin:end] for begin, end in zip(starts, ends.tolist(), strict=True)]
    return pieces, int(ends[-1]) if len(ends) else at
