"""Column chunks of a Parquet run as Arrow tables: which bytes to fetch, and what is in them.

The chunks stand in an *image*: bytes as long as the file up to the last chunk wanted, in which only
the wanted ones are filled in. pyarrow reads them there without calling back into Python.

Invariant: no chunk is decoded whose checksum was not found right, so pyarrow sees nothing but what
the writer wrote; and none before it is known how much memory that takes
(:mod:`lakehouse.format.parquet.room`).
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.errors import CorruptionError
from lakehouse.format.parquet.file_footer import FileFooter, with_moments
from lakehouse.format.parquet.room import WayToRead, way_to_read
from lakehouse.format.parquet.texts import with_texts
from lakehouse.kernels.arrays import I64, U8

__all__ = ["chunk_ranges", "decode_chunks", "image_of"]

_DENSE_SHARE = 4
"""An image of which less than one part in so many is filled in is mapped in small pages."""


def chunk_ranges(
    footer: FileFooter, groups: Sequence[int], leaves: Sequence[int], *, max_bytes: int
) -> list[tuple[int, int]]:
    """Returns the byte ranges of column chunks: joins neighbours, then cuts at ``max_bytes``."""
    picked = np.ix_(groups, leaves)
    starts: I64 = footer.starts[picked].reshape(-1)
    order = np.argsort(starts)
    starts = starts[order]
    ends: I64 = starts + footer.sizes[picked].reshape(-1)[order]
    gaps = np.flatnonzero(starts[1:] != ends[:-1])
    firsts = starts[np.concatenate(([0], gaps + 1))].tolist()
    lasts = ends[np.concatenate((gaps, [len(ends) - 1]))].tolist()
    return [
        (at, min(at + max_bytes, end))
        for start, end in zip(firsts, lasts, strict=True)
        for at in range(start, end, max_bytes)
    ]


def image_of(ranges: Sequence[tuple[int, int]], parts: Sequence[bytes]) -> U8:
    """Makes an image with these bytes at these places.

    Raises:
        CorruptionError: a part is shorter than its range.
    """
    size = ranges[-1][1]
    held = sum(len(part) for part in parts)
    # Memory that is never touched is never there. Huge pages make filling it three times as quick
    # and would make a few bytes here and there take two megabytes each.
    image: U8
    if held * _DENSE_SHARE >= size:
        image = np.empty(size, np.uint8)
    else:
        image = np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    for (start, end), part in zip(ranges, parts, strict=True):
        if len(part) != end - start:
            raise CorruptionError(
                f"the file ends at byte {start + len(part)}, a column chunk at byte {end}: it is cut off",
                offset=start,
                expected=end - start,
                got=len(part),
            )
        image[start:end] = np.frombuffer(part, np.uint8)
    return image


def decode_chunks(
    footer: FileFooter,
    image: U8,
    groups: Sequence[int],
    leaves: Sequence[int],
    *,
    rows: I64 | None = None,
) -> pa.Table:
    """Rows of some row groups, with the columns that some leaves make.

    Args:
        footer: of the file.
        image: the chunks.
        groups: numbers of the row groups.
        leaves: numbers of the columns.
        rows: numbers of rows, counted through the groups; None = all.

    Raises:
        CorruptionError: a chunk is not as it was written, or says that it is more than it can be.
    """
    for group in groups:
        for leaf in leaves:
            start, size = int(footer.starts[group, leaf]), int(footer.sizes[group, leaf])
            footer.check_chunk(group, leaf, image[start : start + size])
    way = way_to_read(footer, image, groups, leaves)
    try:
        file = pq.ParquetFile(  # io-ok: bytes in memory
            pa.BufferReader(pa.py_buffer(image)),
            metadata=footer.metadata,
            read_dictionary=way.dictionaries,
            pre_buffer=False,
            page_checksum_verification=not footer.is_sealed,
            coerce_int96_timestamp_unit="us",
        )
        found = _read(file.reader, list(groups), list(leaves), way)
        expected = int(footer.group_rows[list(groups)].sum(dtype=np.int64))
        if found.num_rows != expected:
            raise ValueError(f"they have {found.num_rows:,} rows, and the footer says {expected:,}")
        found = with_texts(found if rows is None else found.take(pa.array(rows)), bytes_max=way.room)
        if footer.moments:
            found = found.cast(with_moments(found.schema, footer.moments))
        if not footer.is_sealed:
            found.validate(full=True)  # no checksum told that texts are UTF-8
        return found
    except pa.ArrowMemoryError:
        raise  # of the machine, and not of the file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptionError(f"row groups {list(groups)} cannot be decoded: {error}") from error


def _read(reader: Any, groups: list[int], leaves: list[int], way: WayToRead) -> pa.Table:
    """Reads the rows with pyarrow, all at once or in slices."""
    # One thread: callers who want more of them have row groups side by side, which is quicker
    # than columns of unequal weight.
    if way.slice_rows is None:
        return reader.read_row_groups(groups, column_indices=leaves, use_threads=False)
    slices: list[pa.RecordBatch] = []
    room = way.room
    batches = reader.iter_batches(way.slice_rows, groups, column_indices=leaves, use_threads=False)
    for one in batches:
        room -= one.nbytes
        if room < 0:
            raise ValueError(f"they take more than {way.room:,} bytes in memory")
        slices.append(one)
    return pa.Table.from_batches(slices)
