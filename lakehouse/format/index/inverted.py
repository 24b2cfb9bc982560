"""Inverted index blobs: terms of several columns, each with the segments it occurs in.

::

    column 0 | column 1 | ... | InvertedIndexMetas (protobuf) | u32 length of it
    column:  null bitmap | bitmap of each value, in byte order | FST of the values

A bit of a bitmap is a segment of ``segment_row_count`` rows. The FST maps an encoded value
to size << 32 | offset of its bitmap, offset counted from the column's first byte. A reader
relies on the offsets alone: other writers may put the parts of a column in another order.

Invariant: an :class:`InvertedMetas` that was decoded is consistent: columns lie in the blob
before the metadata and do not overlap, and the parts of a column lie inside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, Self

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.index.protobuf import Message, MessageField
from lakehouse.format.schema.index_defaults import SEGMENT_ROW_COUNT
from lakehouse.kernels.need_more import LENGTH_BYTES, NeedMore, metadata_from_tail

__all__ = [
    "BLOB_TYPE",
    "BitmapType",
    "InvertedColumn",
    "InvertedMetas",
    "InvertedStats",
    "segment_row_count_for",
]

BLOB_TYPE = "greptime-inverted-index-v1"
"""The puffin blob's type; one blob holds all columns of a file."""
_SEGMENTS_MAX = 1 << 32
"""Maximum number of segments, because bitmaps hold 32-bit numbers."""

_STATS = Message(
    "InvertedIndexStats",
    MessageField(number=1, name="null_count", kind="uint64"),
    MessageField(number=2, name="distinct_count", kind="uint64"),
    MessageField(number=3, name="min_value", kind="bytes"),
    MessageField(number=4, name="max_value", kind="bytes"),
)
_COLUMN = Message(
    "InvertedIndexMeta",
    MessageField(number=1, name="name", kind="string"),
    MessageField(number=2, name="base_offset", kind="uint64"),
    MessageField(number=3, name="inverted_index_size", kind="uint64"),
    MessageField(number=4, name="relative_fst_offset", kind="uint32"),
    MessageField(number=5, name="fst_size", kind="uint32"),
    MessageField(number=6, name="relative_null_bitmap_offset", kind="uint32"),
    MessageField(number=7, name="null_bitmap_size", kind="uint32"),
    MessageField(number=8, name="stats", kind="message", message=_STATS),
    MessageField(number=9, name="bitmap_type", kind="enum"),
)


def _metas_of(column: Message) -> Message:
    entry = Message(
        "InvertedIndexMetas.MetasEntry",
        MessageField(number=1, name="key", kind="string"),
        MessageField(number=2, name="value", kind="message", message=column),
    )
    return Message(
        "InvertedIndexMetas",
        MessageField(number=1, name="metas", kind="message", message=entry, repeated=True),
        MessageField(number=2, name="total_row_count", kind="uint64"),
        MessageField(number=3, name="segment_row_count", kind="uint64"),
    )


_METAS = _metas_of(_COLUMN)
_METAS_WITHOUT_STATS = _metas_of(Message(_COLUMN.name, *(f for f in _COLUMN.fields if f.name != "stats")))


class BitmapType(IntEnum):
    """Encoding of bitmaps; stored, never renumber."""

    BIT_VEC = 0
    """Plain bits, least significant first, up to the last one set; files before 2025-03-10."""
    ROARING = 1
    """Portable Roaring bitmaps."""


_BITMAP_TYPE_NAMES: Mapping[int, str] = {BitmapType.BIT_VEC: "BitVec", BitmapType.ROARING: "Roaring"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InvertedStats:
    """Statistics of a column that the writer stored."""

    null_count: int
    """Segments (not rows) with a null in them."""
    distinct_count: int
    """Number of distinct values."""
    min_value: bytes
    """Least value in byte order, encoded; empty when there is none."""
    max_value: bytes
    """Greatest value in byte order, encoded; empty when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvertedColumn:
    """The index of one column: the places of its parts in the blob, and its statistics."""

    name: str
    """Target key: the column id in decimal, as GreptimeDB has it."""
    base_offset: int
    """First byte of the column, from the start of the blob."""
    inverted_index_size: int
    """Bytes of the column: null bitmap, bitmaps and FST."""
    relative_fst_offset: int
    """First byte of the FST, from ``base_offset``."""
    fst_size: int
    relative_null_bitmap_offset: int
    """First byte of the null bitmap, from ``base_offset``."""
    null_bitmap_size: int
    stats: InvertedStats | None
    """Statistics; None when the writer gave none, or the reader asked for none."""
    bitmap_type: int
    """A :class:`BitmapType`, or a number this release does not know."""

    @property
    def fst_range(self) -> tuple[int, int]:
        """Place of the FST in the blob, ``[start, end)``."""
        start = self.base_offset + self.relative_fst_offset
        return start, start + self.fst_size

    @property
    def bitmap_type_name(self) -> str:
        """``Roaring``, ``BitVec``, or an unknown number in decimal, as GreptimeDB shows it."""
        return _BITMAP_TYPE_NAMES.get(self.bitmap_type, str(self.bitmap_type))


@dataclass(frozen=True, slots=True, kw_only=True)
class InvertedMetas:
    """The metadata at the end of an inverted blob."""

    columns: Mapping[str, InvertedColumn]
    """Columns by target key, ascending."""
    total_row_count: int
    """Rows of the file, nulls included."""
    segment_row_count: int
    """Rows that a bit of a bitmap stands for."""

    @property
    def segment_count(self) -> int:
        """Segments of the file; the last one may have fewer rows."""
        return -(-self.total_row_count // self.segment_row_count)

    def encode(self) -> bytes:
        """Encodes the message, columns by target key, without the u32 length that follows it in the blob."""
        entries = [{"key": name, "value": asdict(column)} for name, column in sorted(self.columns.items())]
        return _METAS.encode(
            {
                "metas": entries,
                "total_row_count": self.total_row_count,
                "segment_row_count": self.segment_row_count,
            }
        )

    @classmethod
    def from_tail(cls, tail: bytes | memoryview, blob_size: int, *, stats: bool = True) -> Self | NeedMore:
        """Returns the metadata of a blob whose last bytes are ``tail``, or the tail that would hold it.

        Without ``stats`` it takes a third less time, which suffices to list indexes.
        """
        message = metadata_from_tail(tail, blob_size, what="inverted index blob")
        if isinstance(message, NeedMore):
            return message
        return cls.decode(message, blob_size - LENGTH_BYTES - len(message), stats=stats)

    @classmethod
    def decode(cls, data: bytes | memoryview, columns_size: int, *, stats: bool = True) -> Self:
        """Decodes the metadata from its message, which ``columns_size`` bytes of the blob precede."""
        values = (_METAS if stats else _METAS_WITHOUT_STATS).decode(data)
        columns = [_column(entry, columns_size) for entry in values["metas"]]
        # In the order of their bytes, so that each has to be compared with the one before only.
        columns.sort(key=lambda column: column.base_offset)
        end = 0
        for column in columns:
            if column.base_offset < end:
                raise _metadata_error(
                    f"column {column.name!r} overlaps another", f"at {end} or behind", column.base_offset
                )
            end = column.base_offset + column.inverted_index_size
        metas = cls(
            columns={column.name: column for column in sorted(columns, key=lambda column: column.name)},
            total_row_count=values["total_row_count"],
            segment_row_count=values["segment_row_count"],
        )
        if len(metas.columns) != len(columns):
            raise _metadata_error("a column occurs twice", len(metas.columns), len(columns))
        if metas.segment_row_count < 1:
            raise _metadata_error("segments have no rows", "1 or more", metas.segment_row_count)
        if metas.segment_count > _SEGMENTS_MAX:
            raise _metadata_error(
                "there are more segments than a bitmap can hold", _SEGMENTS_MAX, metas.segment_count
            )
        return metas


def segment_row_count_for(row_group_size: int, wanted: int = SEGMENT_ROW_COUNT) -> int:
    """Returns the rows of a segment: as ``wanted``, or a whole row group if that does not divide it."""
    if row_group_size < 1 or wanted < 1:
        raise InvalidInputError(
            f"row groups and segments have at least one row, not {row_group_size} and {wanted}"
        )
    return row_group_size if row_group_size % wanted else wanted


def _column(entry: Mapping[str, Any], columns_size: int) -> InvertedColumn:
    """Returns a column from its map entry, checked."""
    name, value = entry["key"], entry["value"]
    if value is None or value["name"] not in (name, ""):
        raise _metadata_error("a column has two names", name, value and value["name"])
    stats = value.get("stats")
    value |= {"name": name, "stats": stats and InvertedStats(**stats)}
    column = InvertedColumn(**value)
    size = column.inverted_index_size
    for what, start, length, room in (
        ("column", column.base_offset, size, columns_size),
        ("FST", column.relative_fst_offset, column.fst_size, size),
        ("null bitmap", column.relative_null_bitmap_offset, column.null_bitmap_size, size),
    ):
        if start + length > room:
            raise _metadata_error(
                f"the {what} of column {name!r} reaches too far", f"at most {room}", start + length
            )
    return column


def _metadata_error(what: str, expected: object, got: object) -> CorruptionError:
    return CorruptionError(
        f"inverted index metadata is damaged: {what}: expected {expected}, got {got}",
        expected=expected,
        got=got,
    )
