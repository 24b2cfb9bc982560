"""The footers of several Parquet files of the same columns as one: row groups encoded side by side.

pyarrow encodes a file on one core. Parts of the rows are encoded as files of their own at the same
time; then their column chunks are set one behind the other, and one footer is made of all, in which
offsets are moved. Of Parquet's Thrift structures (compact protocol) this is read; all else is passed
over and kept::

    FileMetaData    3 num_rows    4 row_groups
    RowGroup        1 columns     5 file_offset
    ColumnChunk     3 meta_data
    ColumnMetaData  9 data_page_offset    11 dictionary_page_offset

Files that are joined have neither indexes nor bloom filters, whose offsets stand elsewhere.

Invariant: the result is, byte for byte, the footer of one writer that wrote all row groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakehouse.format.protobuf_wire import encode_varint

__all__ = ["join_footers"]

_STOP, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 3, 7, 8, 9, 10, 12
_INTEGERS = frozenset({4, 5, 6})
_BOOLEANS = frozenset({1, 2})
_LONG = 15
"""Lists of so many elements and more have their length behind the header."""


class _Thrift:
    """A place in Thrift structures, and what shall stand elsewhere in place of what is there."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self._changes: list[tuple[int, int, bytes]] = []

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of the struct here; who takes one reads or skips its value."""
        number = 0
        while (head := self.data[self.at]) != _STOP:
            self.at += 1
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15
        self.at += 1

    def integer(self) -> int:
        """Reads a signed number."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def elements(self) -> tuple[int, int]:
        """Reads the head of a list: how many elements, and their type."""
        head = self.data[self.at]
        self.at += 1
        return (self._varint() if head >> 4 == _LONG else head >> 4), head & 15

    def skip(self, kind: int) -> None:
        """Passes over a value of a field."""
        if kind in _INTEGERS:
            self._varint()
        elif kind == _BINARY:
            size = self._varint()
            self.at += size
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in (_LIST, _SET):
            count, inner = self.elements()
            for _ in range(count):
                # A boolean is its own type as a field, and a byte in a list.
                self.skip(_BYTE if inner in _BOOLEANS else inner)
        elif kind not in _BOOLEANS:
            self.at += {_BYTE: 1, _DOUBLE: 8}[kind]

    def add(self, number: int) -> None:
        """Reads a signed number, and has the sum in its place."""
        start = self.at
        new = _packed(self.integer() + number)
        self._changes.append((start, self.at, new))

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def changed(self, start: int) -> bytes:
        """What stands from ``start`` to here, with all changes, which are behind ``start``."""
        parts = []
        for first, end, new in self._changes:
            parts += [self.data[start:first], new]
            start = end
        return b"".join([*parts, self.data[start : self.at]])


def join_footers(footers: Sequence[bytes], shifts: Sequence[int]) -> bytes:
    """The Thrift structure of all files together; what it says beside row groups is the first file's.

    Args:
        footers: of each file.
        shifts: by how many bytes the chunks of each file move.
    """
    groups, rows = 0, 0
    bodies = []
    spans = []
    for footer, shift in zip(footers, shifts, strict=True):
        thrift = _Thrift(footer)
        for number, kind in thrift.fields():
            start = thrift.at
            if number == 3:
                rows += thrift.integer()
                spans.append((start, thrift.at))
            elif number == 4:
                count, _ = thrift.elements()
                body = thrift.at
                for _ in range(count):
                    _move_group(thrift, shift)
                bodies.append(thrift.changed(body))
                spans.append((start, thrift.at))
                groups += count
            else:
                thrift.skip(kind)
    first, (rows_start, rows_end), (groups_start, groups_end) = footers[0], spans[0], spans[1]
    head = (
        bytes([groups << 4 | _STRUCT])
        if groups < _LONG
        else bytes([_LONG << 4 | _STRUCT]) + encode_varint(groups)
    )
    return b"".join(
        [
            first[:rows_start],
            _packed(rows),
            first[rows_end:groups_start],
            head,
            *bodies,
            first[groups_end:],
        ]
    )


def _move_group(thrift: _Thrift, shift: int) -> None:
    for number, kind in thrift.fields():
        if number == 1:
            for _ in range(thrift.elements()[0]):
                _move_chunk(thrift, shift)
        elif number == 5:
            thrift.add(shift)
        else:
            thrift.skip(kind)


def _move_chunk(thrift: _Thrift, shift: int) -> None:
    for number, kind in thrift.fields():
        if number != 3:
            thrift.skip(kind)
            continue
        for inner, inner_kind in thrift.fields():
            if inner in (9, 11):
                thrift.add(shift)
            else:
                thrift.skip(inner_kind)


def _packed(number: int) -> bytes:
    """A signed number as Thrift writes it."""
    return encode_varint(number << 1 if number >= 0 else (-number << 1) - 1)
