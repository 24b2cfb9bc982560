"""Thrift structures in the compact protocol, read field by field: footers and page headers of Parquet.

Who reads knows which fields it wants and passes over the others, so no schema is needed.

Invariant: a cursor moves forward with every step, and only over bytes that are there.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["BINARY", "BOOLEANS", "I32", "INTEGERS", "LIST", "LONG", "STRUCT", "ThriftCursor"]

BOOLEANS = frozenset({1, 2})
"""A boolean is its own type as a field: true, false."""
I32 = 5
BINARY = 8
LIST = 9
STRUCT = 12
LONG = 15
"""Lists of so many elements and more have their length behind the header."""

_STOP, _BYTE, _DOUBLE, _SET = 0, 3, 7, 10
INTEGERS = frozenset({4, I32, 6})
"""Numbers of 16, 32 and 64 bits are written alike."""
_FIXED = {_BYTE: 1, _DOUBLE: 8}
_BITS_MAX = 63
_DEPTH_MAX = 16


class ThriftCursor:
    """A place in Thrift structures. Reading what is no such structure raises ValueError or IndexError.

    Args:
        data: the bytes.
        at: where to begin.
        fields_max: how many fields and elements may be read; None = all there are.
    """

    __slots__ = ("_left", "at", "data")

    def __init__(self, data: bytes | memoryview, at: int = 0, *, fields_max: int | None = None) -> None:
        self.data = data
        self.at = at
        self._left = len(data) if fields_max is None else fields_max

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of the struct here; who takes one reads or skips its value."""
        number = 0
        while (head := self.data[self.at]) != _STOP:
            self.at += 1
            before, number = number, number + (head >> 4) if head >> 4 else self.integer()
            if number <= before:
                raise ValueError(f"field {number} stands behind field {before}")
            self._count(1)
            yield number, head & 15
        self.at += 1

    def integer(self) -> int:
        """Reads a signed number."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        """Reads bytes or a text."""
        size = self._varint()
        begin, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise IndexError(f"{size:,} bytes reach behind the end")
        return bytes(self.data[begin : self.at])

    def elements(self) -> tuple[int, int]:
        """Reads the head of a list: how many elements, and their type."""
        head = self.data[self.at]
        self.at += 1
        count = self._varint() if head >> 4 == LONG else head >> 4
        self._count(count)
        return count, head & 15

    def skip(self, kind: int, depth: int = 0) -> None:
        """Passes over a value of a field."""
        if kind in INTEGERS:
            self._varint()
        elif kind == BINARY:
            size = self._varint()
            self.at += size
        elif kind in (STRUCT, LIST, _SET):
            if depth > _DEPTH_MAX:
                raise ValueError(f"its structures are nested more than {_DEPTH_MAX} deep")
            self._skip_inner(kind, depth + 1)
        elif kind in _FIXED:
            self.at += _FIXED[kind]
        elif kind not in BOOLEANS:
            raise ValueError(f"there is no type {kind}")

    def _skip_inner(self, kind: int, depth: int) -> None:
        if kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth)
            return
        count, inner = self.elements()
        for _ in range(count):
            # A boolean is a byte in a list.
            self.skip(_BYTE if inner in BOOLEANS else inner, depth)

    def _count(self, read: int) -> None:
        self._left -= read
        if self._left < 0:
            raise ValueError("it has more fields than it may have")

    def _varint(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        if byte < 128:
            return byte
        value, shift = byte & 127, 7
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > _BITS_MAX:
                raise ValueError("a number has more than 64 bits")
