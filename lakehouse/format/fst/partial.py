"""Lookup of keys in an FST of which only some bytes were read; finds the bytes still to read.

A lookup visits a node for each byte of its key, most of them close together, so that a few pages of a
list of terms of megabytes suffice.

Invariant: an answer is what :class:`lakehouse.format.fst.fst.Fst` would give, or :class:`MissingBytes`. The
checksum of the whole map cannot be verified: the caller has checked the bytes that it adds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakehouse.errors import CorruptionError
from lakehouse.format.fst.fst import COUNTS, FOOTER_BYTES
from lakehouse.format.fst.node import HEADER_BYTES
from lakehouse.format.fst.read import look_up
from lakehouse.kernels.arrays import U64, Mask

__all__ = ["FstParts", "MissingBytes"]


class MissingBytes(Exception):
    """Raised when lookups need bytes that were not added yet.

    Args:
        places: one place for each lookup that cannot go on, ascending.
    """

    def __init__(self, places: Sequence[int]) -> None:
        super().__init__(f"bytes {', '.join(map(str, places))} are not at hand")
        self.places = tuple(places)


class FstParts:
    """A map of which some bytes are there, at first none; ``size`` is its length in bytes."""

    __slots__ = ("_bytes", "_size")

    def __init__(self, size: int) -> None:
        if size < HEADER_BYTES + FOOTER_BYTES:
            raise CorruptionError(
                f"an FST has {size} bytes, fewer than the smallest possible",
                offset=0,
                expected=HEADER_BYTES + FOOTER_BYTES,
                got=size,
            )
        self._size = size
        self._bytes = _Bytes()

    def add(self, start: int, data: bytes) -> None:
        """Adds bytes of the map that begin at ``start``."""
        self._bytes.parts.append((start, start + len(data), data))

    @property
    def footer(self) -> tuple[int, int]:
        """Place of the number of keys and the root, ``[start, end)``: the bytes needed first."""
        return self._size - FOOTER_BYTES, self._size

    @property
    def key_count(self) -> int:
        """Number of keys that the footer states."""
        return self._counts()[0]

    def get_many(self, keys: Sequence[bytes]) -> tuple[Mask, U64]:
        """Returns for each key whether it is there, and its value or 0.

        Raises:
            MissingBytes: some lookups need more bytes.
        """
        _, root = self._counts()
        hits, values = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.uint64)
        missing: set[int] = set()
        for at, key in enumerate(keys):
            query, end = np.frombuffer(key, np.uint8), np.array([len(key)])
            try:
                hit, value = look_up(self._bytes, root, query, end, compiled=False)  # type: ignore[arg-type]
            except MissingBytes as error:
                missing.update(error.places)
            else:
                hits[at], values[at] = hit[0], value[0]
        if missing:  # of all lookups together, so that one round of reads serves them all
            raise MissingBytes(sorted(missing))
        return hits, values

    def _counts(self) -> tuple[int, int]:
        """Returns the number of keys and the address of the root."""
        footer = self._size - FOOTER_BYTES
        keys, root = COUNTS.unpack(bytes(map(self._bytes.__getitem__, range(footer, footer + COUNTS.size))))
        if root != (footer - 1 if footer > HEADER_BYTES else 0):
            raise CorruptionError(
                f"an FST names byte {root} as its root, which is not the node written last",
                offset=footer + 8,
                expected=footer - 1,
                got=root,
            )
        return keys, root


class _Bytes:
    """Some bytes of a longer sequence; raises :class:`MissingBytes` for others."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[tuple[int, int, bytes]] = []
        """First place, the place behind the last, and the bytes between; the newest part is last."""

    def __getitem__(self, place: int) -> int:
        for start, end, data in reversed(self.parts):
            if start <= place < end:
                return data[place - start]
        raise MissingBytes([place])
