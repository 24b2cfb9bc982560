"""Bounds of the memory that the pages of column chunks need, computed before any of them is decoded.

Each page begins with a header (Thrift) that states its decompressed bytes and its number of values, and
decoders allocate memory for those. A dictionary has a value once and rows repeat it. So a few bytes
may ask for any amount of memory. Here the headers of a chunk are walked, compared with the footer, and
added up; no page is decompressed but a dictionary whose size leaves doubt.

Invariant: an accepted chunk has pages that fill it exactly and have the footer's bytes and values,
and :attr:`ChunkPages.bytes_max` is not less than the memory that pyarrow uses for it.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse.format.limits.codec_ratio import BYTES_OF_ONE
from lakehouse.format.parquet.thrift_cursor import BINARY, BOOLEANS, I32, STRUCT, ThriftCursor
from lakehouse.kernels.arrays import U8

__all__ = ["ChunkPages", "LeafShape", "PageError", "bytes_allowed", "read_pages"]

_BYTES_MAX = 2 << 30
_BYTES_OF_ONE = 16
"""Bytes that are backed by so few times less in the file are no bomb, however many."""

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_ABOUT = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
"""Number of the field of a page header that describes pages of a type."""
_FALSE = 2
_I64 = 6
_BOUND_BYTES = (8, 4, *(size for size in range(49) if size not in (4, 8)))
"""Bytes of the bounds of pages whose headers are read the quick way, those of numbers first."""
_PLAIN, _PLAIN_DICTIONARY, _RLE, _DELTA, _DELTA_LENGTH, _DELTA_TEXT, _RLE_DICTIONARY, _SPLIT = (
    0, 2, 3, 5, 6, 7, 8, 9,
)  # fmt: skip
_BY_NUMBER = (_PLAIN_DICTIONARY, _RLE_DICTIONARY)
_PLAIN_OR_NUMBERS = frozenset({_PLAIN, _DELTA, *_BY_NUMBER})
_ENCODINGS = frozenset({_PLAIN, _RLE, _DELTA, _DELTA_LENGTH, _DELTA_TEXT, _SPLIT, *_BY_NUMBER})
_HEADER_FIELDS_MAX = 1_000
_I32_MAX = (1 << 31) - 1

_TEXT = "BYTE_ARRAY"
_FIXED = "FIXED_LEN_BYTE_ARRAY"
_WIDTHS: Mapping[str, int] = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
_DECIMAL_BYTES = 16
_LISTED_BYTES = 2
"""Minimum bytes of a value in a list: its levels take so many while they are decoded."""
_LENGTH = struct.Struct("<I")
_OFFSET_BYTES = 4
_ENTRY_BYTES = 16
"""Bytes that pyarrow uses for each text of a dictionary, beside the text itself."""
_ENTRIES_LOOKED_AT = 1 << 20
"""Dictionaries of more are taken for one long value."""
_ARROW_NAMES = {"lz4": "lz4_raw"}


class PageError(ValueError):
    """A page is not what it can be; ``at`` is where its header begins in the chunk."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafShape:
    """Layout of the values of a leaf column, the same in all row groups."""

    is_text: bool
    """True if values have lengths of their own."""
    width: int
    """Bytes that a value takes in memory; of texts, what says where they end."""
    stored: int
    """Bytes that it takes in a dictionary at least."""
    repeats: bool
    """True if the leaf lies in a list or a map, so that rows have any number of values."""

    @classmethod
    def of(cls, column: Any) -> LeafShape:
        """Returns the shape of a column of a ``pyarrow.parquet.ParquetSchema``."""
        kind = column.physical_type
        repeats = column.max_repetition_level > 0
        if kind == _TEXT:
            return cls(is_text=True, width=_OFFSET_BYTES, stored=_LENGTH.size, repeats=repeats)
        width = stored = column.length if kind == _FIXED else _WIDTHS[kind]
        if column.logical_type.type == "DECIMAL":
            width = max(width, _DECIMAL_BYTES)
        width = max(width, _LISTED_BYTES) if repeats else width
        return cls(is_text=False, width=width, stored=stored, repeats=repeats)


@dataclass(slots=True, kw_only=True)
class ChunkPages:
    """The pages of one column chunk, added up."""

    shape: LeafShape
    """Shape of the chunk's column."""
    size: int = 0
    """Decompressed bytes of all pages, headers included."""
    values: int = 0
    """Number of values, nulls included."""
    numbered: int = 0
    """Values that are numbers of a dictionary's."""
    longest: int = 0
    """Bytes that no value of the dictionary exceeds."""
    dictionary: tuple[int, int, int, int] | None = None
    """Where its page is in the chunk, from and to, how many bytes it becomes and how many values it has."""
    shared_bytes: int = 0
    """Bytes that texts become at most which say only what is new in them."""
    shared_page: int = 0
    """Bytes of the largest page of such texts, and so of one of them at most."""

    @property
    def bytes_max(self) -> int:
        """Bytes that the chunk may become in memory."""
        return self.bytes_read + self.shared_bytes + self.repeated_bytes

    @property
    def bytes_read(self) -> int:
        """The same without what a dictionary's values take more where rows repeat them."""
        values = self.values * self.shape.width
        if not self.shape.is_text:
            return max(values, self.size)
        entries = self.dictionary[-1] if self.dictionary is not None else 0
        return values + self.size + entries * _ENTRY_BYTES

    @property
    def repeated_bytes(self) -> int:
        """Bytes that the values of a dictionary take at most where rows have them."""
        return self.numbered * self.longest

    def look_at_dictionary(self, chunk: U8, codec: str) -> None:
        """Finds out how long the longest value of the dictionary is, which decompresses its page.

        What cannot be decompressed is left for the decoder to refuse.
        """
        if self.dictionary is None or self.dictionary[-1] > _ENTRIES_LOOKED_AT:
            return
        start, end, size, count = self.dictionary
        page = pa.py_buffer(chunk[start:end])
        try:
            if codec != "none":
                page = pa.decompress(page, decompressed_size=size, codec=_ARROW_NAMES.get(codec, codec))
        except (pa.ArrowException, OSError):
            return
        self.longest = _longest_value(page, count)


def bytes_allowed(stored: int) -> int:
    """Bytes that chunks of a row group may take in memory together, which have so many in the file."""
    return max(_BYTES_MAX, _BYTES_OF_ONE * stored)


def read_pages(chunk: U8, shape: LeafShape, codec: str) -> ChunkPages:
    """The pages of a column chunk.

    Args:
        chunk: all of it.
        shape: of its column.
        codec: that its pages are compressed with, a key of ``BYTES_OF_ONE``.

    Raises:
        PageError: a header is none, or says what cannot be, or the last page does not end with the chunk.
    """
    ratio = BYTES_OF_ONE[codec]
    found = ChunkPages(shape=shape)
    data = memoryview(chunk.data)
    at, end = 0, len(data)
    while at < end:
        quick = _QUICK(data, at)
        try:
            if quick is None:
                after = _add_page(found, data, at, ratio)
            else:
                body = quick.end()
                whole, packed, values, encoding = map(_number_of, quick.groups())
                after = body + packed
                fits = whole == packed if ratio == 1 else whole <= packed * ratio
                if after > end or not fits or encoding not in _PLAIN_OR_NUMBERS:
                    after = _add_page(found, data, at, ratio)  # which tells what is wrong, if anything is
                else:
                    found.size += body - at + whole
                    found.values += values
                    if encoding in _BY_NUMBER:
                        found.numbered += values
        except IndexError:
            raise PageError("its header runs out of the chunk", at) from None
        except (ValueError, KeyError) as error:
            text = f"its header has no field {error}" if isinstance(error, KeyError) else str(error)
            raise PageError(text, at) from error
        at = after
    if found.numbered and found.dictionary is None:
        raise PageError("its values are numbers of a dictionary's, and there is no dictionary", 0)
    return found


def _add_page(found: ChunkPages, data: memoryview, at: int, ratio: int) -> int:
    """Adds the page whose header begins at ``at``; where the next one begins."""
    quick = _QUICK_DICTIONARY(data, at)
    if quick is not None:
        whole, packed, *rest = map(_number_of, quick.groups())
        kind, body, about = _DICTIONARY, quick.end(), dict(enumerate(rest, 1))
    else:
        cursor = ThriftCursor(data, at, fields_max=_HEADER_FIELDS_MAX)
        kind, whole, packed, about = _header(cursor)
        body = cursor.at
    end = len(data)
    after = body + packed
    if after > end:
        raise ValueError(f"it has {packed:,} bytes, and the chunk {max(end - body, 0):,} more")
    found.size += body - at + whole
    if kind == _DATA_V2:
        _check_levels(whole, packed, about, ratio)
    elif whole > packed * ratio or (ratio == 1 and whole != packed):
        raise _impossible_size_error(whole, packed)
    if kind != _DICTIONARY:
        _add_data(found, about, kind, whole)
    elif at:
        raise ValueError("it is a dictionary, and not the first page")
    else:
        _add_dictionary(found, about, (body, after), whole)
    return after


def _quick_headers() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Match headers of data pages of version 1 and of dictionaries as Parquet's writers write them.

    That takes a third of the time of reading them field by field. The groups are the numbers that are needed.
    All else that may begin a page does not match, and neither do bounds of more bytes than are listed.
    """
    number = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
    passed = number[1:-1]
    texts = b"|".join(b"%b.{%d}" % (re.escape(bytes([size])), size) for size in _BOUND_BYTES)

    def fields(*kinds: int) -> bytes:
        heads = (delta << 4 | kind for kind in kinds for delta in range(1, 16))
        return b"[%b]" % b"".join(rb"\x%02x" % head for head in heads)

    bounds = rb"(?:%b(?:%b)|%b[\x80-\xff]{0,9}[\x00-\x7f]|%b)*" % (
        fields(BINARY), texts, fields(_I64), fields(*BOOLEANS),
    )  # fmt: skip
    sizes = rb"\x15" + number + rb"\x15" + number
    data = rb"\x15\x00" + sizes + rb"\x2c" + sizes + (rb"\x15" + passed) * 2
    dictionary = rb"\x15\x04" + sizes + rb"\x4c" + sizes + rb"[\x11\x12]?\x00\x00"
    return (
        re.compile(data + rb"(?:\x1c%b\x00)?\x00\x00" % bounds, re.DOTALL),
        re.compile(dictionary, re.DOTALL),
    )


_QUICK, _QUICK_DICTIONARY = (one.match for one in _quick_headers())


@functools.lru_cache(maxsize=4096)
def _number_of(packed: bytes) -> int:
    """The size or count that was written as these bytes."""
    value = 0
    for byte in reversed(packed):
        value = value << 7 | byte & 127
    if value & 1 or value >> 1 > _I32_MAX:
        raise ValueError(f"its header says {(value >> 1) ^ -(value & 1):,} where a size or a count has to be")
    return value >> 1


def _header(cursor: ThriftCursor) -> tuple[int, int, int, dict[int, int]]:
    """Type of the page, its bytes decompressed and as they are, and what is said of such pages by field."""
    plain: dict[int, int] = {}
    about: dict[int, dict[int, int]] = {}
    for number, kind in cursor.fields():
        if number < 4:
            plain[number] = _number(cursor, kind)
        elif kind == STRUCT:
            about[number] = _numbers(cursor)
        else:
            cursor.skip(kind)
    if plain[1] not in _ABOUT:
        raise ValueError(f"it is a page of type {plain[1]}, which no run has")
    return plain[1], plain[2], plain[3], about[_ABOUT[plain[1]]]


def _numbers(cursor: ThriftCursor) -> dict[int, int]:
    """The numbers and truth values of a struct by field."""
    found: dict[int, int] = {}
    for number, kind in cursor.fields():
        if kind == I32:
            found[number] = _number(cursor, kind)
        elif kind in BOOLEANS:
            found[number] = kind
        else:
            cursor.skip(kind)
    return found


def _number(cursor: ThriftCursor, kind: int) -> int:
    if kind != I32:
        raise ValueError(f"its header has a value of type {kind} where a number has to be")
    value = cursor.integer()
    if not 0 <= value <= _I32_MAX:
        raise ValueError(f"its header says {value:,} where a size or a count has to be")
    return value


def _check_levels(whole: int, packed: int, about: dict[int, int], ratio: int) -> None:
    """Refuses a page of version 2, whose levels are not compressed, that says it becomes more than it can."""
    levels = about[5] + about[6]
    if min(whole, packed) < levels:
        raise ValueError(f"its levels have {levels:,} bytes, and all of it {min(whole, packed):,}")
    ratio = 1 if about.get(7) == _FALSE else ratio
    if whole - levels > (packed - levels) * ratio or (ratio == 1 and whole != packed):
        raise _impossible_size_error(whole, packed)


def _impossible_size_error(whole: int, packed: int) -> ValueError:
    return ValueError(f"{packed:,} bytes say that they become {whole:,}")


def _add_data(found: ChunkPages, about: dict[int, int], kind: int, size: int) -> None:
    values, encoding = about[1], about[4 if kind == _DATA_V2 else 2]
    if encoding not in _ENCODINGS:
        raise ValueError(f"its values are encoded in way {encoding}, which no run has")
    found.values += values
    if encoding in _BY_NUMBER:
        found.numbered += values
    elif encoding == _DELTA_TEXT:
        # A text may begin with all of the one before.
        found.shared_bytes += values * size
        found.shared_page = max(found.shared_page, size)


def _add_dictionary(found: ChunkPages, about: dict[int, int], place: tuple[int, int], size: int) -> None:
    count, encoding = about[1], about[2]
    if encoding not in (_PLAIN, _PLAIN_DICTIONARY):
        raise ValueError(f"its dictionary is encoded in way {encoding}, which no run has")
    # Room is made for as many values as it says.
    if count * found.shape.stored > size:
        raise ValueError(f"its dictionary has {count:,} values in {size:,} bytes")
    found.dictionary = (*place, size, count)
    found.longest = size - count * _LENGTH.size if found.shape.is_text else 0


def _longest_value(page: pa.Buffer, count: int) -> int:
    """Length of the longest of so many texts, each behind its length."""
    data, unpack = memoryview(page), _LENGTH.unpack_from
    at = longest = 0
    try:
        for _ in range(count):
            (size,) = unpack(data, at)
            at += _LENGTH.size + size
            if size > longest:  # a third of the time that max takes
                longest = size
    except struct.error:
        at = len(data) + 1
    if at > len(data):
        raise PageError("its dictionary ends within a value", 0)
    return longest
