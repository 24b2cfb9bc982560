"""SSTables: rows to bytes and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys.column_stats import stats_of
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import SEQUENCE_COLUMN, RowKind
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive, StringType, arrow_type
from lakehouse.format.sstable import writer as sstable
from lakehouse.format.sstable.frame import CODECS
from lakehouse.format.sstable.reader import SstableFile, decode_sstable
from lakehouse.format.sstable.writer import SstableOptions, encode_sstable
from tests.kit.sstable_samples import SCHEMA, WAYS, looped, rows_of, with_kinds
from tests.kit.type_strategies import column_sets
from tests.kit.type_strategies import values_of as any_values_of
from tests.kit.typed_values import KEY_KINDS, values_of


def parsed(data: bytes) -> SstableFile:
    """The metadata of a whole file."""
    file = SstableFile.parse(data, len(data))
    assert isinstance(file, SstableFile)
    return file


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableSchema, pa.Table]:
    """Sorted rows of any schema with a key, with kinds or without."""
    key_kinds = draw(st.lists(st.sampled_from(KEY_KINDS), min_size=1, max_size=2))
    others = draw(column_sets())
    used = {one.name.casefold() for one in others}
    keys = tuple(
        Field(id=1000 + at, name=f"key {at}", type=kind, required=True) for at, kind in enumerate(key_kinds)
    )
    fields = draw(st.permutations([*keys, *(one for one in others if one.name.casefold() in used)]))
    schema = TableSchema(
        fields=tuple(fields), primary_key=tuple(one.name for one in keys), highest_field_id=2000
    )
    count = draw(st.integers(0, 40))
    columns = {
        one.name: draw(_column(any_values_of(one.type, required=one.required), count)) for one in others
    }
    columns |= {one.name: draw(_column(values_of(one.type), count)) for one in keys}
    rows = pa.table({one.name: pa.array(columns[one.name], arrow_type(one.type)) for one in fields})
    encoded = RowKeyCodec(keys).encode([rows.column(one.name) for one in keys]).to_pylist()
    order = {key: at for at, key in enumerate(encoded)}
    rows = rows.take(pa.array([order[key] for key in sorted(order)], pa.int64()))
    if draw(st.booleans()):
        rows = with_kinds(rows, draw(_column(st.sampled_from([0, 1, 2]), rows.num_rows)))
    return schema, rows


def _column(values: st.SearchStrategy[Any], count: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=count, max_size=count)


@pytest.mark.parametrize("way", WAYS)
@settings(deadline=None, max_examples=60)
@given(tables(), st.sampled_from(CODECS), st.integers(1, 400), st.integers(1, 400))
def test_rows_come_back(
    way: str, sample: tuple[TableSchema, pa.Table], codec: str, block_bytes: int, piece_bytes: int
) -> None:
    """Rows of any columns, kinds and layout are decoded as they were encoded."""
    schema, rows = sample
    options = SstableOptions(block_bytes=block_bytes, piece_bytes=piece_bytes, codec=codec)
    with looped(way):
        found = decode_sstable(encode_sstable(rows, schema, options))
    found.validate(full=False)
    if found.num_columns < rows.num_columns:  # kinds are left out when all are inserts
        assert set(rows.column("_VALUE_KIND").to_pylist()) <= {RowKind.INSERT}
        rows = rows.drop_columns(["_VALUE_KIND"])
    assert found.column_names == rows.column_names
    assert found.to_pydict() == rows.to_pydict()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 1000])
def test_files_of_any_number_of_rows_come_back(codec: str, count: int) -> None:
    """A file may have no row, one, or blocks of them."""
    rows = rows_of(count)
    found = decode_sstable(encode_sstable(rows, SCHEMA, SstableOptions(codec=codec, block_bytes=512)))
    assert found.equals(rows)
    assert found.schema.equals(SCHEMA.arrow(), check_metadata=True)


def test_the_same_rows_give_the_same_bytes() -> None:
    """A file depends neither on the chunks of its rows nor on how loops run."""
    rows = rows_of(300)
    chunked = pa.concat_tables([rows.slice(0, 7), rows.slice(7, 200), rows.slice(207)])
    files = set()
    for way in WAYS:
        with looped(way):
            files |= {encode_sstable(rows, SCHEMA), encode_sstable(chunked, SCHEMA)}
    assert len(files) == 1


def test_rows_are_written_in_slices() -> None:
    """Rows beyond a slice go on in another block, and keys ascend across the border."""
    rows = rows_of(100)
    with mock.patch.object(sstable, "_SLICE_ROWS", 30):
        data = encode_sstable(rows, SCHEMA)
        assert decode_sstable(data).equals(rows)
        assert np.diff(parsed(data).index.firsts).tolist() == [30, 30, 30, 10]
        wrong = pa.concat_tables([rows.slice(0, 30), rows.slice(29)])
        with pytest.raises(InvalidInputError) as caught:
            encode_sstable(wrong, SCHEMA)
        assert caught.value.context["row"] == 30
        wrong = pa.concat_tables([rows.slice(0, 40), rows.slice(39)])
        with pytest.raises(InvalidInputError) as caught:
            encode_sstable(wrong, SCHEMA)
        assert caught.value.context["row"] == 40


def test_giant_values_come_back() -> None:
    """A value of megabytes is a block of its own size, and its neighbours are not affected."""
    rows = rows_of(5)
    notes = pa.array(["a", "b" * 5_000_000, None, "c" * 70_000, "d"])
    rows = rows.set_column(2, rows.schema.field(2), notes)
    for codec in CODECS:
        data = encode_sstable(rows, SCHEMA, SstableOptions(codec=codec, block_bytes=4096))
        assert decode_sstable(data).equals(rows)
        assert int(parsed(data).index.raw.max()) > 5_000_000


def test_a_row_beyond_the_limit_is_refused() -> None:
    """A row that a reader would not make room for is an InvalidInputError."""
    with mock.patch("lakehouse.format.sstable.frame.RAW_BYTES_MAX", 10_000):
        rows = rows_of(2).set_column(2, SCHEMA.arrow().field(2), pa.array(["a", "b" * 20_000]))
        with pytest.raises(InvalidInputError, match="write smaller rows"):
            encode_sstable(rows, SCHEMA)


def test_deleted_rows_keep_key_and_kind_alone() -> None:
    """A row without values costs its key, and comes back with its kind."""
    ids = pa.array(range(100), pa.int64())
    rows = pa.table([ids, pa.nulls(100, pa.float64()), pa.nulls(100, pa.string())], schema=SCHEMA.arrow())
    rows = with_kinds(rows, [int(RowKind.DELETE)] * 100)
    data = encode_sstable(rows, SCHEMA, SstableOptions(codec="none", bloom_bits_per_key=0))
    assert decode_sstable(data).to_pydict() == rows.to_pydict()
    assert int(parsed(data).index.raw.sum()) < 100 * 7
    assert parsed(data).meta.kinds == (0, 0, 100)


def test_a_table_without_a_key_keeps_its_order() -> None:
    """Rows of an append-only table come back in their order, equal ones too, and there is no filter."""
    schema = replace(SCHEMA, primary_key=())
    rows = pa.concat_tables([rows_of(50), rows_of(50), rows_of(3)])
    data = encode_sstable(rows, schema, SstableOptions(block_bytes=256))
    assert decode_sstable(data).equals(rows)
    assert parsed(data).footer.bloom.size == 0


def test_sequences_are_kept_where_there_are_any() -> None:
    """The snapshots that rows came with are a column of the file, unless all rows inherit theirs."""
    rows = rows_of(3).append_column(SEQUENCE_COLUMN, pa.array([5, None, 7], pa.int64()))
    assert decode_sstable(encode_sstable(rows, SCHEMA)).to_pydict() == rows.to_pydict()
    blank = rows_of(3).append_column(SEQUENCE_COLUMN, pa.nulls(3, pa.int64()))
    assert decode_sstable(encode_sstable(blank, SCHEMA)).equals(rows_of(3))


def test_the_metadata_describes_the_rows() -> None:
    """A file says its columns, key, counts, bounds, codec and properties, without its schema at hand."""
    rows = with_kinds(rows_of(50), [0] * 40 + [1] * 7 + [2] * 3)
    properties = {"made by": "a test", "ü": "✓"}
    data = encode_sstable(rows, replace(SCHEMA, id=7), SstableOptions(codec="zstd", properties=properties))
    meta = parsed(data).meta
    assert (meta.schema_id, meta.fields, meta.key) == (7, SCHEMA.fields, (1,))
    assert (meta.rows, meta.kinds, meta.codec) == (50, (40, 7, 3), "zstd")
    assert meta.stats == stats_of(rows, SCHEMA.fields)
    assert meta.properties == properties


def test_known_stats_are_not_computed_again() -> None:
    """Stats that are handed in stand in the file as they are."""
    known = stats_of(rows_of(5), SCHEMA.fields[:1])
    assert parsed(encode_sstable(rows_of(10), SCHEMA, stats=known)).meta.stats == known


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (rows_of(3).drop_columns(["note"]), "'note' of type string"),
        (rows_of(3).set_column(1, "amount", pa.array([1, 2, 3])), "of type double, not int64"),
        (pa.concat_tables([rows_of(2), rows_of(1)]), "key of row 2 is not above"),
        (with_kinds(rows_of(3), [0, 3, 0]), "some row has another"),
        (with_kinds(rows_of(3), [0, -1, 0]), "some row has another"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: pa.Table, wrong: str) -> None:
    """A missing column, another type, keys out of order and unknown kinds are errors that say so."""
    with pytest.raises(InvalidInputError, match=wrong):
        encode_sstable(rows, SCHEMA)


@pytest.mark.parametrize(
    "options",
    [
        {"codec": "lzo"},
        {"block_bytes": 0},
        {"block_bytes": 1 << 25},
        {"bloom_bits_per_key": 65},
        {"piece_bytes": 0},
    ],
)
def test_layouts_out_of_bounds_are_refused(options: dict[str, Any]) -> None:
    """Options that no reader would accept are an InvalidInputError."""
    with pytest.raises(InvalidInputError):
        SstableOptions(**options)


def test_columns_of_text_and_numbers_are_unpacked_apart() -> None:
    """Rows of some blocks come with the columns asked for and no others, and their kinds."""
    rows = with_kinds(rows_of(500), [at % 3 for at in range(500)])
    data = encode_sstable(rows, SCHEMA, SstableOptions(block_bytes=512))
    file = parsed(data)
    blocks = [2, 3, 7]
    contents = [file.content(at, data[slice(*file.block_range(at))]) for at in blocks]
    found = file.rows(blocks, contents, file.columns({3}))
    bounds = file.index.firsts.tolist()
    parts = [rows.slice(bounds[at], bounds[at + 1] - bounds[at]).select([2, 3]) for at in blocks]
    expected = pa.concat_tables(parts)
    assert found.to_pydict() == expected.to_pydict()


def test_a_key_of_several_columns_is_found() -> None:
    """Point reads build key columns of every kind from the key's bytes."""
    schema = TableSchema(
        fields=(
            Field(id=1, name="day", type=Primitive("date"), required=True),
            Field(id=2, name="v", type=Primitive("boolean")),
            Field(id=3, name="name", type=StringType(), required=True),
        ),
        primary_key=("name", "day"),
        highest_field_id=3,
    )
    rows = pa.table({"day": [0, 1, 5], "v": [True, None, False], "name": ["a", "a", "b"]})
    rows = pa.table(
        [rows["day"].cast(pa.int32()).cast(pa.date32()), rows["v"], rows["name"]], schema=schema.arrow()
    )
    data = encode_sstable(rows, schema)
    file = parsed(data)
    block = file.search_block(0, data[slice(*file.block_range(0))])
    keys = RowKeyCodec(schema.key_fields).encode([rows["name"], rows["day"]]).to_pylist()
    for at, key in enumerate(keys):
        found = file.row(0, block, key, file.columns({1, 2, 3}))
        assert found is not None
        assert found.drop_columns(["_VALUE_KIND"]).equals(rows.slice(at, 1))
