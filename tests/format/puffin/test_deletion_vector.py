"""Iceberg's deletion vectors: written as others read them, read only when whole."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.puffin import PuffinFile

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.index.roaring import EMPTY
from lakehouse.format.puffin.builder import PuffinBuilder
from lakehouse.format.puffin.deletion_vector import (
    CARDINALITY,
    DELETION_VECTOR,
    REFERENCED_DATA_FILE,
    decode_deletion_vector,
    deletion_vector_properties,
    encode_deletion_vector,
)
from tests.kit.blob_samples import flipped, spec_bytes

ROWS = 1 << 40
positions = st.lists(st.integers(0, 200) | st.integers(0, ROWS - 1), max_size=60)


def framed(body: bytes) -> bytes:
    """A blob with right length, magic and checksum around any bitmaps."""
    inner = bytes.fromhex("d1d33964") + body
    return struct.pack(">I", len(inner)) + inner + struct.pack(">I", zlib.crc32(inner))


@settings(deadline=None)
@given(positions)
def test_positions_come_back(rows: list[int]) -> None:
    """Positions in any order, with repeats, come back ascending and once."""
    blob = encode_deletion_vector(rows)
    expected = sorted(set(rows))
    assert decode_deletion_vector(blob, row_count=ROWS, cardinality=len(expected)).tolist() == expected


@settings(deadline=None)
@given(positions)
def test_bitmaps_are_the_reference_librarys(rows: list[int]) -> None:
    """Between magic and checksum stands the portable 64-bit bitmap, runs where they are smaller."""
    pyroaring = pytest.importorskip("pyroaring")
    reference = pyroaring.BitMap64(rows)
    reference.run_optimize()
    assert encode_deletion_vector(rows)[8:-4] == reference.serialize()


def test_pyiceberg_reads_ours() -> None:
    """pyiceberg finds the same rows of each data file in a puffin file of ours."""
    reader = pytest.importorskip("pyiceberg.table.deletion_vector")
    rows = {"s3://b/1.parquet": [1, 5, 7, *range(100_000, 200_000)], "s3://b/2.parquet": [0, (1 << 32) + 7]}
    builder = PuffinBuilder(allow_duplicates=True)
    parts: list[bytes | memoryview] = []
    for data_file, positions in rows.items():
        properties = deletion_vector_properties(data_file, len(positions))
        parts += builder.add(DELETION_VECTOR, encode_deletion_vector(positions), properties=properties)
    file = PuffinFile(b"".join([*parts, builder.finish()]))
    found = reader.deletion_vectors_from_puffin_file(file)
    assert {vector.referenced_data_file: vector.to_vector().to_pylist() for vector in found} == rows


def test_a_million_neighbours_take_few_bytes() -> None:
    """Runs are stored as runs."""
    assert len(encode_deletion_vector(np.arange(1_000_000))) < 400


def test_empty_bitmaps_between_keys_are_read() -> None:
    """Java writers fill the gap between two keys with empty bitmaps."""
    one = bytes.fromhex("3a300000010000000000000010000000") + b"\x05\x00"
    body = struct.pack("<Q", 3) + b"".join(
        struct.pack("<I", key) + bitmap for key, bitmap in ((0, one), (1, EMPTY), (2, one))
    )
    assert decode_deletion_vector(framed(body), row_count=ROWS).tolist() == [5, (2 << 32) + 5]


def test_every_flipped_bit_and_truncation_is_found() -> None:
    """A checksum covers all of a blob, so no damage goes unseen."""
    blob = encode_deletion_vector([1, 5, 1 << 33, *range(1000, 2000)])
    for bit in range(8 * len(blob)):
        with pytest.raises(CorruptionError):
            decode_deletion_vector(flipped(blob, bit), row_count=ROWS)
    for size in range(len(blob)):
        with pytest.raises(CorruptionError):
            decode_deletion_vector(blob[:size], row_count=ROWS)


@pytest.mark.parametrize(
    "body",
    [
        struct.pack("<Q", 1),
        struct.pack("<QI", 1, 0),
        struct.pack("<Q", 1 << 60),
        struct.pack("<QI", 1, 1 << 31) + EMPTY,
        struct.pack("<QI", 2, 1) + EMPTY + struct.pack("<I", 1) + EMPTY,
        struct.pack("<QI", 2, 1) + EMPTY + struct.pack("<I", 0) + EMPTY,
        struct.pack("<Q", 0) + b"\0",
        struct.pack("<QI", 1, 0) + b"junk",
    ],
)
def test_bitmaps_that_cannot_be_are_refused_behind_a_right_checksum(body: bytes) -> None:
    """Missing bitmaps, keys out of order or range, and bytes left over are damage."""
    with pytest.raises(CorruptionError):
        decode_deletion_vector(framed(body), row_count=ROWS)


def test_positions_behind_the_file_are_damage() -> None:
    """A vector for more rows than the file has does not belong to it."""
    blob = encode_deletion_vector([3, 9])
    assert decode_deletion_vector(blob, row_count=10).tolist() == [3, 9]
    with pytest.raises(CorruptionError):
        decode_deletion_vector(blob, row_count=9)
    with pytest.raises(CorruptionError, match="number of positions"):
        decode_deletion_vector(blob, row_count=10, cardinality=3)


def test_negative_positions_are_refused() -> None:
    """Rows are counted from 0."""
    with pytest.raises(InvalidInputError, match="-1"):
        encode_deletion_vector([-1, 2])


def test_properties_are_icebergs() -> None:
    """The two properties that a reader needs have Iceberg's names."""
    assert deletion_vector_properties("s3://b/f.parquet", 2) == {
        CARDINALITY: "2",
        REFERENCED_DATA_FILE: "s3://b/f.parquet",
    }
    assert (CARDINALITY, REFERENCED_DATA_FILE) == ("cardinality", "referenced-data-file")


def test_the_specifications_example_comes_back() -> None:
    """The bytes of the specification hold these rows, and these rows make those bytes."""
    blob = spec_bytes("deletion-vector.md", "deletion-vector")
    rows = [1, 5, *range((1 << 32) + 7, (1 << 32) + 1007)]
    assert decode_deletion_vector(blob, row_count=ROWS).tolist() == rows
    assert encode_deletion_vector(rows) == blob
