"""Pages of column chunks: headers that lie are refused before anything is decoded, others are added up."""

from __future__ import annotations

import contextlib
import functools
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError
from lakehouse.format.parquet import pages, room, writer
from lakehouse.format.parquet.pages import LeafShape, PageError, read_pages
from lakehouse.format.parquet.room import way_to_read
from lakehouse.format.parquet.run_footer import RunFooter
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, StringType
from lakehouse.kernels.arrays import U8
from tests.house.source_tree import ROOT
from tests.kit.crafted_runs import (
    claimed_dictionary,
    claimed_page,
    data_page,
    dictionary_page,
    read_run,
    sealed_run,
    with_chunks,
)
from tests.kit.parquet_samples import keyed_rows

TEXT = LeafShape(is_text=True, width=4, stored=4, repeats=False)
NUMBER = LeafShape(is_text=False, width=8, stored=8, repeats=False)
CODECS = ("none", "snappy", "lz4", "zstd")
ROWS = pa.table(
    {
        "id": pa.array(range(400), pa.int64()),
        "city": pa.array([f"city-{number % 7}" for number in range(400)]),
        "part": pa.array(
            [None if number % 3 else b"x" * (number % 50) for number in range(400)], pa.binary()
        ),
        "tags": pa.array([[f"t{number % 5}"] * (number % 4) for number in range(400)], pa.list_(pa.string())),
    }
)
"""Numbers, texts of a dictionary, nulls, and a list."""


def chunk(*parts: bytes) -> U8:
    """These bytes as a column chunk."""
    return np.frombuffer(b"".join(parts), np.uint8)


def footer_of(data: bytes) -> RunFooter:
    """The footer of a file."""
    footer = RunFooter.parse(data, len(data))
    assert isinstance(footer, RunFooter)
    return footer


def chunk_at(data: bytes, group: int, leaf: int) -> bytes:
    """One of its chunks."""
    footer = footer_of(data)
    start = int(footer.starts[group, leaf])
    return data[start : start + int(footer.pieces.sizes[group, leaf])]


@functools.cache
def sample(version: str, codec: str) -> bytes:
    """A file of :data:`ROWS` with several pages in a chunk."""
    return sealed_run(
        ROWS, data_page_version=version, compression=codec, max_rows_per_page=90, row_group_size=300
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_sound_files_are_read(version: str, codec: str) -> None:
    """Data pages of both versions and every codec give the rows that were written."""
    assert read_run(sample(version, codec)).equals(ROWS)


@pytest.mark.parametrize(
    "encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "RLE_DICTIONARY"]
)
def test_texts_of_every_encoding_are_read(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However texts are encoded, and however little memory leaves no doubt, they are read."""
    how = {"use_dictionary": encoding == "RLE_DICTIONARY"}
    if not how["use_dictionary"]:
        how["column_encoding"] = {"city": encoding}  # type: ignore[assignment]
    rows = ROWS.select(["id", "city"])
    data = sealed_run(rows, **how)
    assert read_run(data).equals(rows)
    footer = footer_of(data)
    certain = sum(
        read_pages(chunk(chunk_at(data, 0, leaf)), footer.shapes[leaf], "snappy").bytes_read
        for leaf in range(2)
    )
    monkeypatch.setattr(room, "bytes_allowed", lambda _: certain + 5_000)
    assert read_run(data).equals(rows)


@given(keyed_rows(), st.sampled_from(CODECS))
@settings(max_examples=30, deadline=None)
def test_no_sound_file_is_in_doubt(found: tuple[TableSchema, pa.Table], codec: str) -> None:
    """Whatever columns a table has, its files are read without counting, and estimates are not too low."""
    schema, rows = found
    data = encode_parquet(rows, schema, ParquetOptions(row_group_rows=5, compression=codec)).to_pybytes()
    footer = footer_of(data)
    groups, leaves = footer.pieces.sizes.shape
    way = way_to_read(footer, np.frombuffer(data, np.uint8), range(groups), range(leaves))
    assert way.room is None
    assert way.slice_rows is None
    assert read_run(data).num_rows == rows.num_rows


LIES = {
    "a size below nothing": (NUMBER, [data_page(-1, 8, 1), bytes(8)], "says -1"),
    "more bytes than there are": (NUMBER, [data_page(80, 80, 10), bytes(8)], "and the chunk 8 more"),
    "more than the codec makes": (NUMBER, [data_page(1 << 30, 8, 1), bytes(8)], "say that they become"),
    "a header cut off": (NUMBER, [data_page(8, 8, 1)[:-1]], "runs out of the chunk"),
    "bytes behind the last page": (NUMBER, [data_page(8, 8, 1), bytes(8), b"\0"], "has no field"),
    "no page": (NUMBER, [b"\x15\x0a\x15\x10\x15\x10\x00", bytes(8)], "page of type 5"),
    "a second dictionary": (
        TEXT, [dictionary_page(8, 8, 1), bytes(8), dictionary_page(8, 8, 1), bytes(8)], "not the first page",
    ),
    "a dictionary behind": (
        TEXT, [data_page(8, 8, 1), bytes(8), dictionary_page(8, 8, 1), bytes(8)], "not the first page",
    ),
    "a dictionary of too many": (TEXT, [dictionary_page(8, 8, 3), bytes(8)], "3 values in 8 bytes"),
    "no dictionary": (TEXT, [data_page(8, 8, 1, encoding=8), bytes(8)], "there is no dictionary"),
    "an encoding nobody knows": (TEXT, [data_page(8, 8, 1, encoding=77), bytes(8)], "encoded in way 77"),
    "structures without end": (NUMBER, [b"\x4c" + b"\x1c" * 5_000], "nested|more fields"),
    "a list without end": (NUMBER, [b"\x49\xf8\xff\xff\xff\x7f"], "more fields"),
    "a number without end": (NUMBER, [b"\x15" + b"\xff" * 40], "more than 64 bits"),
}  # fmt: skip
"""Chunks, and what is said of them."""


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused(name: str) -> None:
    """A header that says what cannot be is refused, with the place where it begins."""
    shape, parts, message = LIES[name]
    with pytest.raises(PageError, match=message) as raised:
        read_pages(chunk(*parts), shape, "none" if name != "more than the codec makes" else "zstd")
    assert 0 <= raised.value.at < sum(map(len, parts))


def test_pages_that_are_not_compressed_do_not_become_more() -> None:
    """Without a codec a page has the bytes that it says, in both ways to read its header."""
    with pytest.raises(PageError, match="say that they become 9"):
        read_pages(chunk(data_page(9, 8, 1), bytes(8)), NUMBER, "none")
    with pytest.raises(PageError, match="say that they become 7"):
        read_pages(chunk(data_page(7, 8, 1), bytes(8)), NUMBER, "none")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_both_ways_to_read_a_header_agree(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers read at once and field by field give the same."""
    data = sample(version, "zstd")
    footer = footer_of(data)
    chunks = [chunk(chunk_at(data, *place)) for place in itertools.product(range(2), range(4))]
    shapes = footer.shapes * 2
    quick = [read_pages(*one, "zstd") for one in zip(chunks, shapes, strict=True)]
    monkeypatch.setattr(pages, "_QUICK", lambda *_: None)
    monkeypatch.setattr(pages, "_QUICK_DICTIONARY", lambda *_: None)
    assert [read_pages(*one, "zstd") for one in zip(chunks, shapes, strict=True)] == quick


@pytest.mark.parametrize(("values", "more"), [(301, 0), (299, 0), (300, 1), (300, -1)])
def test_counts_other_than_the_footers_are_refused(values: int, more: int) -> None:
    """Values and bytes of all pages are those that the footer says; the error names column and place."""
    rows = pa.table({"id": pa.array([7] * 300, pa.int64())})
    data = sealed_run(rows, compression="zstd", use_dictionary=False)
    old = chunk_at(data, 0, 0)
    size = footer_of(data).metadata.row_group(0).column(0).total_uncompressed_size
    head = len(data_page(size, 200, values))
    crafted = data_page(size - head + more, len(old) - head, values) + bytes(len(old) - head)
    with pytest.raises(CorruptionError, match="and the footer says") as raised:
        read_run(with_chunks(data, {(0, 0): crafted}))
    assert raised.value.context["column"] == "id"
    assert raised.value.context["offset"] == 4
    assert "row group 0" in raised.value.message


@given(
    st.sampled_from(["1.0", "2.0"]),
    st.sampled_from(CODECS),
    st.integers(0, 7),
    st.integers(0, 1 << 20),
    st.binary(min_size=1, max_size=6),
)
@settings(max_examples=300, deadline=None)
def test_no_header_makes_anything_but_an_error(
    version: str, codec: str, number: int, at: int, garbage: bytes
) -> None:
    """Bytes overwritten in pages under right checksums give an error or as many rows, and nothing else."""
    data = sample(version, codec)
    place = (number // 4, number % 4)
    old = chunk_at(data, *place)
    start = at % min(len(old), 120)
    changed = (old[:start] + garbage + old[start + len(garbage) :])[: len(old)]
    found = None
    with contextlib.suppress(CorruptionError):
        found = read_run(with_chunks(data, {place: changed}))
    assert found is None or (found.schema, found.num_rows) == (ROWS.schema, ROWS.num_rows)


@given(st.sampled_from(["1.0", "2.0"]), st.integers(0, 7), st.integers(1, 1 << 20))
@settings(max_examples=60, deadline=None)
def test_no_end_of_a_chunk_can_be_left_out(version: str, number: int, cut: int) -> None:
    """A chunk without its end is refused wherever it ends, except between two pages, where counts tell."""
    data = sample(version, "zstd")
    place = (number // 4, number % 4)
    whole = chunk_at(data, *place)
    shape = footer_of(data).shapes[place[1]]
    every = read_pages(chunk(whole), shape, "zstd")
    try:
        found = read_pages(chunk(whole[: -1 - cut % (len(whole) - 1)]), shape, "zstd")
    except PageError:
        return
    assert found.values < every.values
    assert found.size < every.size


def test_nulls_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nulls, of which a few bytes may be any number, take what values take, and so may be too many."""
    rows = pa.table({"a": pa.nulls(10_000, pa.int64()), "b": pa.nulls(10_000, pa.string())})
    data = sealed_run(rows)
    monkeypatch.setattr(room, "bytes_allowed", lambda _: 100_000)
    with pytest.raises(CorruptionError, match=r"column 'a' of row group 0.*100,000 are allowed"):
        read_run(data)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.list_(pa.string())])
def test_one_long_value_is_no_bomb(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most rows have short values of a dictionary, a long one leaves doubt, and counting settles it."""
    texts = ["short", "x" * 30_000, *["other", "short"] * 500]
    values = pa.array([[text] for text in texts] if pa.types.is_list(kind) else texts).cast(kind)
    rows = pa.table([values], ["a"])
    monkeypatch.setattr(room, "bytes_allowed", lambda _: 200_000)
    assert read_run(sealed_run(rows)).equals(rows)


def test_a_single_row_may_take_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row group of one row each column may take what otherwise all of them may."""
    row = pa.table({"a": ["x" * 6_000], "b": ["y" * 6_000]})
    two = pa.concat_tables([row, row])
    monkeypatch.setattr(room, "bytes_allowed", lambda _: 10_000)
    how = {"compression": "none", "use_dictionary": False}
    assert read_run(sealed_run(two, row_group_size=1, **how)).equals(two)
    with pytest.raises(CorruptionError, match="10,000 are allowed"):
        read_run(sealed_run(two, **how))


_CHILD = """
import resource, sys
from pathlib import Path
from tests.kit.crafted_runs import read_run
from lakehouse.errors import CorruptionError
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 30),) * 2)
for path in sys.argv[1:]:
    try:
        read_run(Path(path).read_bytes())
    except CorruptionError as error:
        print(error)
"""
"""Reads files with a GiB of memory. Arrow decompresses pages into memory that tests do not count."""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells what a process holds")
def test_no_room_is_made_for_what_pages_say(tmp_path: Path) -> None:
    """Pages that say 2 GiB or 2^31 values are refused by a process that could not make room for them."""
    bombs = [
        claimed_page((1 << 31) - 1, 0),
        claimed_page((1 << 31) - 1, 1 << 17),
        claimed_page(8_000, 0, values=(1 << 31) - 1),
        claimed_dictionary(),
    ]
    paths = [tmp_path / str(number) for number in range(len(bombs))]
    for path, bomb in zip(paths, bombs, strict=True):
        path.write_bytes(bomb)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.count("page at byte")) == (0, len(bombs)), done.stderr


def test_row_groups_of_large_rows_are_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row group of several rows takes more memory than a writer's bound, wherever large rows are."""
    schema = TableSchema(fields=(Field(id=1, name="note", type=StringType()),), highest_field_id=1)
    texts = ["x"] * 60 + ["x" * 900] * 3 + ["x" * 5_000]
    rows = pa.table([pa.array(texts)], schema=schema.arrow())
    monkeypatch.setattr(writer, "_GROUP_BYTES_MAX", 2_000)
    data = encode_parquet(rows, schema, ParquetOptions(row_group_rows=32)).to_pybytes()
    counts = footer_of(data).pieces.rows.tolist()
    assert sum(counts) == 64
    starts = [0, *itertools.accumulate(counts)]
    groups = [rows.slice(start, count) for start, count in zip(starts, counts, strict=False)]
    assert all(group.num_rows == 1 or group.nbytes <= 2_000 for group in groups)
    assert read_run(data).equals(rows)
