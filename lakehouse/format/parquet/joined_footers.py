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

from collections.abc import Sequence

from lakehouse.format.parquet.thrift_cursor import LONG, STRUCT, ThriftCursor
from lakehouse.kernels.varint import encode_varint

__all__ = ["join_footers"]


class _Thrift(ThriftCursor):
    """A cursor over Thrift compact bytes that records patches: start, end, new bytes."""

    __slots__ = ("_changes",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._changes: list[tuple[int, int, bytes]] = []

    def add(self, number: int) -> None:
        """Reads a signed number and records a patch that adds to it."""
        start = self.at
        new = _packed(self.integer() + number)
        self._changes.append((start, self.at, new))

    def changed(self, start: int) -> bytes:
        """Returns the bytes from ``start`` to here, all patches applied; none may be before ``start``."""
        parts = []
        for first, end, new in self._changes:
            parts += [bytes(self.data[start:first]), new]
            start = end
        return b"".join([*parts, bytes(self.data[start : self.at])])


def join_footers(footers: Sequence[bytes], shifts: Sequence[int]) -> bytes:
    """Returns the Thrift structure of all files together; all but rows and row groups is the first file's.

    Args:
        footers: Thrift structure of each file.
        shifts: number of bytes by which the chunks of each file move.
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
        bytes([groups << 4 | STRUCT])
        if groups < LONG
        else bytes([LONG << 4 | STRUCT]) + encode_varint(groups)
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
    """Encodes a signed number as Thrift does: zigzag, then as a varint."""
    return encode_varint(number << 1 if number >= 0 else (-number << 1) - 1)
