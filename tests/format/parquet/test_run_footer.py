"""Footers of Parquet runs: parsed from any tail, and proof against every flipped bit."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import CorruptionError, UnsupportedVersionError
from lakehouse.format.metadata.file_entry import KIND_COLUMN
from lakehouse.format.parquet.decode import decode_chunks
from lakehouse.format.parquet.file_footer import TRAILER
from lakehouse.format.parquet.run_footer import PIECES_KEY, PieceTable, RunFooter, RunHead, crc32c
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from lakehouse.kernels.need_more import NeedMore
from tests.kit.blob_samples import flipped, spec_bytes
from tests.kit.parquet_samples import KEYED, many_rows

FILE = encode_parquet(many_rows(100), KEYED, ParquetOptions(row_group_rows=40)).to_pybytes()
FOOTER = int.from_bytes(FILE[-8:-4], "little") + TRAILER.size


def parsed(file: bytes) -> RunFooter:
    """The footer of a whole file."""
    footer = RunFooter.parse(file, len(file))
    assert isinstance(footer, RunFooter)
    return footer


def resealed(file: bytes, old: bytes, new: bytes) -> bytes:
    """The file with other bytes in its footer and a right checksum."""
    start = len(file) - FOOTER
    footer = re.sub(rb'"crc32c":"[0-9a-f]{8}', b'"crc32c":"00000000', file[start:].replace(old, new))
    return file[:start] + footer.replace(b'"crc32c":"00000000', b'"crc32c":"%08x' % crc32c(footer))


def test_chunks_are_where_parquet_says() -> None:
    """Offsets and sizes of the column chunks are those of Parquet's own metadata."""
    footer = parsed(FILE)
    for group in range(3):
        for leaf in range(4):
            chunk = footer.metadata.row_group(group).column(leaf)
            first = chunk.dictionary_page_offset or chunk.data_page_offset
            assert footer.starts[group, leaf] == first
            assert footer.pieces.sizes[group, leaf] == chunk.total_compressed_size


@pytest.mark.parametrize("length", [1, 7, 8, 100, FOOTER - 1])
def test_a_short_tail_says_what_is_missing(length: int) -> None:
    """A tail that does not reach asks for a range, and with that range it is parsed."""
    tail = FILE[-length:]
    while isinstance(found := RunFooter.parse(tail, len(FILE)), NeedMore):
        assert found.end == len(FILE)
        tail = FILE[found.start : found.end]
    assert found.rows == 100
    assert len(tail) == FOOTER


def test_every_flipped_bit_of_a_footer_is_found() -> None:
    """No single bit of a footer, its length and the magic can change unnoticed."""
    for bit in range(8 * (len(FILE) - FOOTER), 8 * len(FILE)):
        with pytest.raises(CorruptionError):
            RunFooter.parse(flipped(FILE, bit), len(FILE))


@pytest.mark.parametrize("length", [0, 4, 11, 12, 500, len(FILE) - 1])
def test_files_that_were_cut_off_are_refused(length: int) -> None:
    """What is left of a file whose end is missing is no Parquet file."""
    with pytest.raises(CorruptionError):
        RunFooter.parse(FILE[:length], length)


def test_files_of_other_programs_are_refused_by_name() -> None:
    """A Parquet file that is no run is refused, and the message says so."""
    sink = io.BytesIO()
    pq.write_table(many_rows(3), sink)
    with pytest.raises(CorruptionError, match="some other program wrote it"):
        parsed(sink.getvalue())


def test_newer_versions_are_refused_by_name() -> None:
    """A sound file of a version to come asks for an upgrade."""
    with pytest.raises(UnsupportedVersionError, match="version 7"):
        parsed(resealed(FILE, b'{"version":1,', b'{"version":7,'))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"kinds":[', b'"finds":['),
        (b'"kinds":[100,', b'"kinds":[101,'),
        (b"lakehouse.pieces", b"lakehouse.others"),
    ],
)
def test_sealed_nonsense_is_refused(old: bytes, new: bytes) -> None:
    """A footer with a right checksum that contradicts itself is refused."""
    with pytest.raises(CorruptionError):
        parsed(resealed(FILE, old, new))


def test_bytes_between_chunks_and_footer_are_refused() -> None:
    """Chunks end where the footer begins; a file in which they do not was put together wrongly."""
    with pytest.raises(CorruptionError, match="up to byte"):
        parsed(FILE[:-FOOTER] + b"x" + FILE[-FOOTER:])


def test_heads_read_back() -> None:
    """A head is what was packed."""
    head = RunHead(schema_id=7, kinds=(1, 2, 3))
    assert RunHead.unpack(head.pack()) == head


def test_piece_tables_read_back() -> None:
    """A table of pieces is what was packed, keys of any length and bytes included."""
    table = PieceTable(
        rows=np.array([5, 6], np.uint32),
        sizes=np.arange(6, dtype=np.uint32).reshape(2, 3),
        checksums=np.arange(6, 12, dtype=np.uint32).reshape(2, 3),
        flags=np.array([[0, 1, 0], [1, 0, 0]], np.uint8),
        keys=(b"", b"\x00\xff", b"a", b"a" * 300),
    )
    read = PieceTable.unpack(table.pack())
    assert read.keys == table.keys
    for part in ("rows", "sizes", "checksums", "flags"):
        assert np.array_equal(getattr(read, part), getattr(table, part))


@pytest.mark.parametrize("text", [b"", b"?", b"AAAA", b"AQAAAAEAAAABAAAA"])
def test_piece_tables_that_do_not_add_up_are_refused(text: bytes) -> None:
    """Text that is no base64, or whose counts and bytes disagree, is corruption."""
    with pytest.raises(CorruptionError):
        PieceTable.unpack(text)


def test_the_example_of_the_specification_is_true() -> None:
    """The file drawn in the specification is a run with the rows it says, and its pieces are those drawn."""
    file = spec_bytes("parquet-run.md", "file")
    footer = parsed(file)
    assert footer.head == RunHead(schema_id=3, kinds=(1, 0, 1))
    assert base64.b64decode(footer.pieces.pack()) == spec_bytes("parquet-run.md", "pieces")
    assert footer.metadata.metadata[PIECES_KEY.encode()] == footer.pieces.pack()
    image = np.frombuffer(file, np.uint8)
    read = decode_chunks(footer, image, [0], [0, 1, 2])
    assert read.to_pylist() == [
        {"id": 7, "n": "a", KIND_COLUMN: 0},
        {"id": 9, "n": None, KIND_COLUMN: 2},
    ]
