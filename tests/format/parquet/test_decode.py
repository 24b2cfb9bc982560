"""Column chunks: which bytes are fetched for them, and how little memory a few of a large file take."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.errors import CorruptionError
from lakehouse.format.parquet.decode import chunk_ranges, decode_chunks, image_of
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from tests.kit.parquet_samples import KEYED, footer_of, many_rows

ROWS = many_rows(3_000)
FILE = encode_parquet(ROWS, KEYED, ParquetOptions(row_group_rows=1_000))
DATA = FILE.to_pybytes()
FOOTER = footer_of(FILE)
END = int(FOOTER.starts[-1, -1] + FOOTER.pieces.sizes[-1, -1])


def held_bytes() -> int:
    """Memory this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_neighbours_are_one_range() -> None:
    """All chunks are one range, in whatever order they are asked for."""
    assert chunk_ranges(FOOTER, [2, 0, 1], [0, 1, 2, 3], max_bytes=1 << 30) == [(4, END)]


def test_ranges_are_cut_at_the_bound() -> None:
    """No range is larger than allowed, and together they leave nothing out."""
    ranges = chunk_ranges(FOOTER, [0, 1, 2], [0, 1, 2, 3], max_bytes=1_000)
    assert max(end - start for start, end in ranges) == 1_000
    assert [start for start, _ in ranges] == [4, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] == END


def test_what_lies_between_is_left_out() -> None:
    """Chunks that do not touch are ranges of their own."""
    starts, sizes = FOOTER.starts, FOOTER.pieces.sizes
    expected = [(int(starts[g, 1]), int(starts[g, 2] + sizes[g, 2])) for g in (0, 2)]
    assert chunk_ranges(FOOTER, [0, 2], [1, 2], max_bytes=1 << 30) == expected


def test_chunks_are_decoded_from_their_bytes_alone() -> None:
    """Nothing but the bytes of the ranges is needed for some columns of some row groups."""
    ranges = chunk_ranges(FOOTER, [0, 2], [0, 3], max_bytes=500)
    image = image_of(ranges, [DATA[start:end] for start, end in ranges])
    read = decode_chunks(FOOTER, image, [0, 2], [0, 3])
    wanted = pa.concat_tables([ROWS.slice(0, 1_000), ROWS.slice(2_000)]).select(["id", "note"])
    assert read.equals(wanted)


def test_short_parts_are_refused() -> None:
    """Fewer bytes than the range has are a truncated file."""
    with pytest.raises(CorruptionError, match="cut off"):
        image_of([(4, 10)], [b"12345"])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells what a process holds")
def test_a_few_chunks_of_a_large_file_take_little_memory() -> None:
    """An image takes memory for the bytes in it, not for those between."""
    ranges = [(at, at + 1_000) for at in range(0, 4 << 30, 64 << 20)]
    before = held_bytes()
    image = image_of(ranges, [b"x" * 1_000] * len(ranges))
    assert held_bytes() - before < 8 << 20
    assert len(image) == ranges[-1][1]
    assert bytes(image[-1_000:]) == b"x" * 1_000
    assert not np.any(image[1_000 : 1 << 20])
