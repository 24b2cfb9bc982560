"""Building inverted blobs: GreptimeDB's bytes, however the rows arrive."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.fst.fst import Fst
from lakehouse.format.index.greptime_value import encode_array
from lakehouse.format.index.inverted import BLOB_TYPE, InvertedMetas
from lakehouse.format.index.inverted_build import InvertedBuilder, build_inverted
from lakehouse.format.index.roaring import read_bitmap
from lakehouse.format.puffin.footer import MAGIC, BlobMeta, PuffinFooter
from tests.format.index.test_inverted import metas_of, sample_blob
from tests.kit.blob_samples import manifest, spec_bytes

ONE_WORD = bytes.fromhex(
    "3a30000000000000"
    "3a3000000100000000000000100000000000"
    "0300000000000000000000000000000008000000120015aa01000000000000001700000000000000967e6b92"
    "0a1c0a013012170a01301846201a282c3808420810011a01782201784801100a188008"
    "23000000"
)
"""Column 0, ten rows "x", segments of 1,024 rows."""

columns = st.integers(0, 40).flatmap(
    lambda rows: st.fixed_dictionaries(
        {
            target: st.lists(st.none() | st.binary(max_size=3), min_size=rows, max_size=rows)
            for target in ("1", "10", "2")
        }
    )
)


def arrays(values: dict[str, list[bytes | None]]) -> dict[str, pa.Array]:
    """Lists as binary arrays."""
    return {target: pa.array(rows, pa.binary()) for target, rows in values.items()}


def sample_columns() -> dict[str, pa.Array]:
    """The sample's rows, encoded."""
    types = {"string": pa.string(), "int64": pa.int64()}
    return {
        target: encode_array(pa.array(column["rows"], types[column["type"]]))
        for target, column in manifest()["inverted-two.puffin"]["columns"].items()
    }


def test_a_blob_known_byte_for_byte() -> None:
    """The smallest example of the specification comes out of its rows."""
    assert build_inverted({"0": pa.array(["x"] * 10)}) == ONE_WORD


def test_a_number_column_known_byte_for_byte() -> None:
    """One row of an int32 column takes the 81 bytes that upstream writes."""
    blob = build_inverted({"0": encode_array(pa.array([500], pa.int32()))})
    assert blob[:81].hex() == (
        "3a30000000000000"
        "3a3000000100000000000000100000000000"
        "03000000000000000000000000000000"
        "0010f48001c000c080c00800000012011501800100000000000000220000000000000032727a0d"
    )


def test_the_sample_is_rebuilt_from_its_rows() -> None:
    """All column bytes are the sample's; its metadata differ in the order of the map alone."""
    blob, wanted = build_inverted(sample_columns(), 4), sample_blob()
    assert len(blob) == len(wanted)
    assert metas_of(blob) == metas_of(wanted)
    for column in metas_of(wanted).columns.values():
        end = column.base_offset + column.inverted_index_size
        assert blob[column.base_offset : end] == wanted[column.base_offset : end]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {
                "1": pa.array([float(t) for t in range(20)]),
                "2": pa.array([20.0 - t for t in range(20)]),
            },
            {"1": (518, 150, 368), "2": (515, 147, 368)},
        ),
        ({"0": pa.array([500], pa.int32())}, {"0": (81, 55, 26)}),
        ({"0": pa.array([1500], pa.int32())}, {"0": (81, 55, 26)}),
        ({"0": pa.array([24, 124], pa.int32())}, {"0": (103, 59, 44)}),
    ],
)
def test_sizes_are_those_of_upstreams_tests(
    columns: dict[str, pa.Array], expected: dict[str, tuple[int, int, int]]
) -> None:
    """Sizes and offsets that GreptimeDB's own tests expect come out of the rows."""
    blob = build_inverted({target: encode_array(array) for target, array in columns.items()})
    found = {
        target: (column.inverted_index_size, column.fst_size, column.relative_fst_offset)
        for target, column in metas_of(blob).columns.items()
    }
    assert found == expected
    assert {column.null_bitmap_size for column in metas_of(blob).columns.values()} == {8}


def test_a_file_of_250_bytes() -> None:
    """In a puffin file of its own the smallest example takes the size upstream's listing shows."""
    blob = BlobMeta(type=BLOB_TYPE, offset=len(MAGIC), length=len(ONE_WORD))
    data = MAGIC + ONE_WORD + PuffinFooter(blobs=(blob,)).encode()
    assert len(data) == 250
    assert json.loads(data[4 + 109 + 4 : -12])["blobs"][0]["length"] == 109


def expected_index(rows: list[bytes | None], size: int) -> tuple[dict[bytes, list[int]], list[int]]:
    """Segments of each value and of the nulls, by definition."""
    found: dict[bytes, set[int]] = {}
    nulls: set[int] = set()
    for place, value in enumerate(rows):
        (nulls if value is None else found.setdefault(value, set())).add(place // size)
    return {value: sorted(found[value]) for value in sorted(found)}, sorted(nulls)


@settings(deadline=None)
@given(columns, st.integers(1, 9))
def test_an_index_is_what_its_rows_are(values: dict[str, list[bytes | None]], size: int) -> None:
    """Every value leads to the segments it occurs in, and the statistics count them."""
    blob = build_inverted(arrays(values), size)
    metas = metas_of(blob)
    assert list(metas.columns) == sorted(values)
    for target, rows in values.items():
        column = metas.columns[target]
        expected, nulls = expected_index(rows, size)
        start, end = column.fst_range
        found = {}
        for value, place in Fst.parse(blob[start:end]).items():
            at = column.base_offset + (place & 0xFFFFFFFF)
            segments, stop = read_bitmap(blob, at, below=metas.segment_count)
            assert stop - at == place >> 32
            found[value] = segments.tolist()
        assert found == expected
        at = column.base_offset + column.relative_null_bitmap_offset
        assert read_bitmap(blob, at, below=metas.segment_count)[0].tolist() == nulls
        assert column.stats is not None
        assert column.stats.null_count == len(nulls)
        assert column.stats.distinct_count == len(expected)
        assert column.stats.min_value == min(expected, default=b"")
        assert column.stats.max_value == max(expected, default=b"")


@settings(deadline=None)
@given(columns, st.integers(1, 9), st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_pieces_make_the_same_bytes(
    values: dict[str, list[bytes | None]], size: int, cuts: list[int]
) -> None:
    """However rows are cut into pieces and columns ordered, the blob is the same."""
    whole = arrays(values)
    builder = InvertedBuilder(reversed(list(whole)), size)
    start, turn = 0, 0
    while start < len(whole["1"]):
        step = cuts[turn % len(cuts)]
        builder.push({target: array[start : start + step] for target, array in whole.items()})
        start, turn = start + step, turn + 1
    assert builder.finish() == build_inverted(whole, size)


def test_large_pieces_make_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merging what was kept of many pieces loses nothing."""
    chance = np.random.default_rng(3)
    rows = pa.array([b"%d" % number for number in chance.integers(0, 3_000, 40_000)])
    whole = build_inverted({"1": rows}, 64)
    monkeypatch.setattr("lakehouse.format.index.inverted_build._BATCH_ROWS", 1_000)
    monkeypatch.setattr("lakehouse.format.index.inverted_build._MERGE_PAIRS", 2_500)
    assert build_inverted({"1": rows}, 64) == whole
    assert build_inverted({"1": pa.chunked_array([rows[:7], rows[7:30_000], rows[30_000:]])}, 64) == whole


def test_more_segments_than_an_array_container_holds() -> None:
    """Values in more than 4,096 and in more than 65,536 segments take bitmaps and several containers."""
    count = 140_000
    rows = pa.array([b"all" if place % 3 else b"third" for place in range(count)])
    blob = build_inverted({"1": rows}, 1)
    metas = metas_of(blob)
    start, end = metas.columns["1"].fst_range
    for value, place in Fst.parse(blob[start:end]).items():
        segments, _ = read_bitmap(blob, place & 0xFFFFFFFF, below=count)
        wanted = [s for s in range(count) if (s % 3 == 0) == (value == b"third")]
        assert segments.tolist() == wanted


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["b", "a", None, "a"]),
        pa.array(["b", "a", None, "a"], pa.large_string()),
        pa.array(["b", "a", None, "a"]).dictionary_encode(),
        pa.array(["-", "b", "a", None, "a", "-"]).slice(1, 4),
        pa.chunked_array([["b"], [], ["a", None, "a"]]),
    ],
    ids=["string", "large", "dictionary", "slice", "chunks"],
)
def test_any_kind_of_text_array_will_do(array: Any) -> None:
    """Strings, dictionaries, slices and chunks are indexed as the binary values they are."""
    wanted = build_inverted({"1": pa.array([b"b", b"a", None, b"a"])}, 2)
    assert build_inverted({"1": array}, 2) == wanted


def test_a_column_of_nulls_has_an_empty_map() -> None:
    """A column without values keeps its null bitmap and the 39 bytes of a map of nothing."""
    (column,) = metas_of(build_inverted({"1": pa.nulls(5, pa.binary())}, 2)).columns.values()
    assert column.fst_size == 39
    assert column.stats is not None
    assert (column.stats.null_count, column.stats.distinct_count) == (3, 0)


@pytest.mark.parametrize(
    "rows",
    [
        {"1": pa.array(["a"])},
        {"1": pa.array(["a"]), "2": pa.array(["a", "b"])},
        {"2": pa.array(["a"]), "3": None},
    ],
)
def test_rows_must_have_every_column(rows: dict[str, Any]) -> None:
    """All columns of an index come together and with the same number of rows."""
    with pytest.raises(InvalidInputError, match="columns"):
        InvertedBuilder(["1", "2"]).push(rows)


def test_segments_have_rows() -> None:
    """A segment of no rows is a mistake."""
    with pytest.raises(InvalidInputError, match="at least one row"):
        InvertedBuilder(["1"], 0)


def test_the_metadata_say_how_many_rows_there_are() -> None:
    """Rows are counted with their nulls, and the last segment may be short."""
    found = InvertedMetas.from_tail(blob := build_inverted({"1": pa.array(["a"] * 9 + [None])}, 4), len(blob))
    assert isinstance(found, InvertedMetas)
    assert (found.total_row_count, found.segment_row_count, found.segment_count) == (10, 4, 3)


def test_the_specifications_examples_come_back() -> None:
    """The blob of the specification decodes, and both examples are built from their rows."""
    blob = spec_bytes("index-inverted.md", "blob")
    assert blob == ONE_WORD
    assert metas_of(blob).encode() == blob[70:-4]
    column = build_inverted({"0": encode_array(pa.array([500], pa.int32()))})[:81]
    assert column == spec_bytes("index-inverted.md", "int32-column")
