"""Places of column chunks, read from a footer that nobody sealed.

pyarrow parses such footers too, and ends the process at the first chunk that says what it does not expect (a
codec that there is none of, a histogram of the wrong length). So what it would fail at is looked for here, in
one walk through the Thrift structures of the row groups, which finds the places on the way.

Invariant: pyarrow can tell of every chunk of a footer that was walked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.parquet.thrift_cursor import BINARY, INTEGERS, LIST, STRUCT, ThriftCursor
from lakehouse.kernels.arrays import I64

__all__ = ["ChunkPlaces", "chunk_places"]

_ROW_GROUPS = 4
_CHUNKS, _GROUP_ROWS = 1, 3
_FILE_PATH, _ABOUT, _CRYPTO, _ENCRYPTED = 1, 3, 8, 9
_PATH, _CODEC, _SIZE, _DATA_AT, _DICTIONARY_AT, _SIZES = 3, 4, 7, 9, 11, 16
_TEXT_BYTES = 1
_CODECS = range(8)
_NUMBERS = frozenset({_CODEC, _SIZE, _DATA_AT, _DICTIONARY_AT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlaces:
    """Rows of row groups, and places of their column chunks."""

    group_rows: I64
    """Rows of each row group."""
    starts: I64
    """First byte of each chunk, row groups × leaf columns."""
    sizes: I64
    """Bytes of each chunk, in the same shape."""


class _Leaf:
    """Properties of a leaf column that its chunks are compared with."""

    __slots__ = ("is_text", "levels")

    def __init__(self, column: Any) -> None:
        self.is_text = column.physical_type == "BYTE_ARRAY"
        self.levels = {2: column.max_repetition_level + 1, 3: column.max_definition_level + 1}
        """Lengths of the histograms of levels, by number of field."""


def chunk_places(footer: bytes, schema: Any, start: int) -> ChunkPlaces:
    """Reads the places of all chunks.

    Args:
        footer: the file's Thrift metadata.
        schema: the file's ``pyarrow.parquet.ParquetSchema``.
        start: place of the footer in the file, for errors.

    Raises:
        CorruptionError: it is no such metadata, or its chunks are not as the schema has them.
        InvalidInputError: chunks are encrypted or in other files.
    """
    cursor = ThriftCursor(footer)
    leaves = [_Leaf(schema.column(number)) for number in range(len(schema))]
    rows: list[int] = []
    starts: list[int] = []
    sizes: list[int] = []
    try:
        for number, kind in cursor.fields():
            if number != _ROW_GROUPS:
                cursor.skip(kind)
                continue
            rows.extend(_row_group(cursor, leaves, starts, sizes) for _ in _structs(cursor, kind))
    except InvalidInputError:
        raise
    except (IndexError, ValueError) as error:
        raise CorruptionError(
            f"the Parquet footer does not describe its column chunks: {error}", offset=start + cursor.at
        ) from error
    shape = (len(rows), len(leaves))
    return ChunkPlaces(
        group_rows=np.array(rows, np.int64),
        starts=np.array(starts, np.int64).reshape(shape),
        sizes=np.array(sizes, np.int64).reshape(shape),
    )


def _structs(cursor: ThriftCursor, kind: int) -> Iterator[int]:
    """Yields the numbers of the structs of a list, each to be read before the next."""
    count, inner = cursor.elements() if kind == LIST else (0, kind)
    if kind != LIST or (count and inner != STRUCT):
        raise ValueError(f"it has a value of type {inner} where a list of structures has to be")
    yield from range(count)


def _row_group(cursor: ThriftCursor, leaves: Sequence[_Leaf], starts: list[int], sizes: list[int]) -> int:
    """Reads a row group; returns its number of rows."""
    rows, chunks = -1, 0
    for number, kind in cursor.fields():
        if number == _CHUNKS:
            for leaf in _structs(cursor, kind):
                if leaf == len(leaves):
                    raise ValueError(f"a row group has more than the {len(leaves)} columns of the schema")
                start, size = _chunk(cursor, leaves[leaf])
                starts.append(start)
                sizes.append(size)
                chunks += 1
        elif number == _GROUP_ROWS and kind in INTEGERS:
            rows = cursor.integer()
        else:
            cursor.skip(kind)
    if rows < 0 or chunks != len(leaves):
        raise ValueError(f"a row group has {rows} rows in {chunks} chunks, the schema {len(leaves)} columns")
    return rows


def _chunk(cursor: ThriftCursor, leaf: _Leaf) -> tuple[int, int]:
    """Reads a column chunk; returns its first byte and its size."""
    place: tuple[int, int] | None = None
    for number, kind in cursor.fields():
        if number == _ABOUT and kind == STRUCT:
            place = _place(cursor, leaf)
        elif number == _FILE_PATH and kind == BINARY:
            raise InvalidInputError("the file keeps column chunks in other files, which is not read")
        elif number in (_CRYPTO, _ENCRYPTED):
            raise InvalidInputError(
                "the file has encrypted columns, which cannot be read: write them in plain"
            )
        else:
            cursor.skip(kind)
    if place is None:
        raise ValueError("a column chunk has no place")
    return place


def _place(cursor: ThriftCursor, leaf: _Leaf) -> tuple[int, int]:
    found: dict[int, int] = {}
    for number, kind in cursor.fields():
        if number in _NUMBERS and kind in INTEGERS:
            found[number] = cursor.integer()
        elif number == _PATH and kind == LIST:
            _check_names(cursor)
        elif number == _SIZES and kind == STRUCT:
            _check_histograms(cursor, leaf)
        else:
            cursor.skip(kind)
    codec, size, data_at = (found.get(number, -1) for number in (_CODEC, _SIZE, _DATA_AT))
    if codec not in _CODECS:
        raise ValueError(f"a column chunk is compressed in way {codec}, and there are {len(_CODECS)}")
    if size < 0 or data_at < 0:
        raise ValueError("a column chunk has no place")
    # Some writers leave the place of a dictionary that is not there at 0, and without rows that of the data.
    return min((at for at in (found.get(_DICTIONARY_AT, 0), data_at) if at), default=0), size


def _check_names(cursor: ThriftCursor) -> None:
    count, inner = cursor.elements()
    for _ in range(count):
        if inner != BINARY:
            raise ValueError(f"a name has type {inner}")
        cursor.binary().decode()


def _check_histograms(cursor: ThriftCursor, leaf: _Leaf) -> None:
    for number, kind in cursor.fields():
        if number == _TEXT_BYTES and not leaf.is_text:
            raise ValueError("a column chunk that is no text has a length of texts")
        if number in leaf.levels and kind == LIST:
            count, inner = cursor.elements()
            # pyarrow takes none for "not written".
            if count not in (0, leaf.levels[number]):
                raise ValueError(f"a column chunk has a histogram of {count} levels")
            for _ in range(count):
                cursor.skip(inner)
        else:
            cursor.skip(kind)
