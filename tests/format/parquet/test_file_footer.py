"""Footers of files that other programs wrote, and the rows that are read by them."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.parquet.decode import decode_chunks
from lakehouse.format.parquet.file_footer import FileFooter
from lakehouse.format.parquet.run_footer import RunFooter
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from lakehouse.kernels.need_more import NeedMore
from tests.kit.blob_samples import flipped
from tests.kit.parquet_samples import KEYED, many_rows

OURS = encode_parquet(many_rows(100), KEYED, ParquetOptions(row_group_rows=40)).to_pybytes()
_PLACE = pa.struct({"x": pa.int32(), "y": pa.string()})
ROWS = pa.table(
    {
        "id": pa.array(range(900), pa.int64()),
        "name": pa.array([None if n % 7 == 0 else f"name-{n % 50}" for n in range(900)], pa.string()),
        "size": pa.array([n / 3 for n in range(900)], pa.float64()),
        "tags": pa.array([[f"t{n % 3}"] * (n % 4) for n in range(900)], pa.list_(pa.string())),
        "place": pa.array([{"x": n, "y": None} for n in range(900)], _PLACE),
    }
)


def written(rows: pa.Table = ROWS, **options: Any) -> bytes:
    """The rows as a file that pyarrow wrote."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, **{"row_group_size": 400, **options})
    return sink.getvalue()


def parsed(file: bytes) -> FileFooter:
    """The footer of a whole file."""
    footer = FileFooter.parse(file, len(file))
    assert isinstance(footer, FileFooter)
    return footer


def read(file: bytes) -> pa.Table:
    """All rows of a file."""
    footer = parsed(file)
    groups, leaves = range(footer.metadata.num_row_groups), range(footer.metadata.num_columns)
    return decode_chunks(footer, np.frombuffer(file, np.uint8), groups, leaves)


def test_either_footer_finds_the_same_in_a_file_of_ours() -> None:
    """Row counts, places and sizes of chunks are those that the sealed footer has, and so are the rows."""
    plain, sealed = parsed(OURS), RunFooter.parse(OURS, len(OURS))
    assert isinstance(sealed, RunFooter)
    assert plain.group_rows.tolist() == sealed.group_rows.tolist()
    assert plain.starts.tolist() == sealed.starts.tolist()
    assert plain.sizes.tolist() == sealed.sizes.tolist()
    assert (plain.rows, plain.size) == (sealed.rows, sealed.size)
    assert (plain.is_sealed, sealed.is_sealed) == (False, True)
    by_sealed = decode_chunks(sealed, np.frombuffer(OURS, np.uint8), range(3), range(4))
    assert read(OURS).equals(by_sealed)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_of_all_codecs_and_versions_are_read(codec: str, version: str) -> None:
    """What pyarrow wrote with any codec and in either version of pages reads back as it was."""
    file = written(compression=codec, data_page_version=version, data_page_size=512)
    assert read(file).equals(ROWS)


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_texts_without_a_dictionary_are_read(encoding: str) -> None:
    """Every encoding of texts that Parquet has is read."""
    file = written(use_dictionary=False, column_encoding={"name": encoding})
    assert read(file).equals(ROWS)


def test_what_duckdb_wrote_is_read(tmp_path: Path) -> None:
    """A file of DuckDB has the rows that DuckDB finds in it."""
    path = tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        connection.register("rows", ROWS)
        connection.execute(f"copy rows to '{path}' (format parquet, row_group_size 400)")
        expected = connection.sql(f"from '{path}'").to_arrow_table()
    found = read(path.read_bytes())
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("length", [1, 8, 60])
def test_a_short_tail_says_what_is_missing(length: int) -> None:
    """A tail that does not reach asks for a range, and with that range it is parsed."""
    file = written()
    tail = file[-length:]
    while isinstance(found := FileFooter.parse(tail, len(file)), NeedMore):
        tail = file[found.start : found.end]
    assert found.rows == 900


def test_an_encrypted_file_is_refused() -> None:
    """A file whose footer is encrypted is no damage, and the error says what to do."""
    with pytest.raises(InvalidInputError, match="encrypted Parquet, which cannot be read: write it in plain"):
        FileFooter.parse(OURS[:-4] + b"PARE", len(OURS))


def test_a_file_in_parts_is_refused() -> None:
    """Column chunks in other objects are not looked for."""
    metadata = pq.read_metadata(io.BytesIO(written()))
    metadata.set_file_path("part-0.parquet")
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)
    with pytest.raises(InvalidInputError, match="in other files"):
        parsed(sink.getvalue())


def test_chunks_outside_of_the_file_are_refused() -> None:
    """Metadata whose chunks cannot be in front of it is damaged."""
    sink = io.BytesIO()
    pq.read_metadata(io.BytesIO(written())).write_metadata_file(sink)
    with pytest.raises(CorruptionError, match="outside of the file"):
        parsed(sink.getvalue())


@pytest.mark.parametrize("cut", [1, 9, 300, 4_000])
def test_a_cut_file_is_refused(cut: int) -> None:
    """A file without its last bytes does not end as Parquet does."""
    file = written()[:-cut]
    with pytest.raises(CorruptionError, match="no end of Parquet"):
        FileFooter.parse(file, len(file))


def test_no_flipped_bit_ends_in_a_foreign_error() -> None:
    """Damaged bytes, in pages or footer, are refused as damage or give rows that can be used."""
    file = written(compression="gzip", data_page_size=512)
    dice = random.Random(7)
    refused = 0
    for _ in range(400):
        try:
            read(flipped(file, dice.randrange(8 * len(file)))).to_pylist()
        except (CorruptionError, InvalidInputError):
            refused += 1
    assert refused > 200


def test_no_flipped_bit_of_a_footer_ends_the_process() -> None:
    """pyarrow aborts where a chunk says what it does not expect: none of that is handed to it."""
    file = written(ROWS.slice(0, 9).select(["id", "name"]))
    length = int.from_bytes(file[-8:-4], "little")
    refused = 0
    for bit in range(8 * (len(file) - 8 - length), 8 * (len(file) - 8)):
        try:
            read(flipped(file, bit)).to_pylist()
        except (CorruptionError, InvalidInputError):
            refused += 1
    assert refused > 1_000


def test_page_checksums_are_looked_at() -> None:
    """Where the writer gave pages checksums, every flipped bit of a page is found."""
    file = written(compression="none", use_dictionary=False, write_page_checksum=True)
    footer = parsed(file)
    at = int(footer.starts[0, 0] + footer.sizes[0, 0]) - 1
    with pytest.raises(CorruptionError, match="cannot be decoded"):
        read(flipped(file, 8 * at))


def test_texts_that_are_none_are_refused() -> None:
    """Bytes that are not UTF-8 in a column of text are damage, found before they are handed out."""
    rows = pa.table({"name": ["xylophone"]})
    file = written(rows, compression="none").replace(b"xylophone", b"xylopho\xff\xfe")
    with pytest.raises(CorruptionError, match="cannot be decoded"):
        read(file)
