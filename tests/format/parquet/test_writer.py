"""Parquet runs: written by us, read by anybody."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import KIND_COLUMN, SEQUENCE_COLUMN
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import (
    FIELD_ID,
    KIND_FIELD,
    SEQUENCE_FIELD,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
)
from tests.kit.parquet_samples import FIELDS, KEYED, footer_of, keyed_rows, many_rows

OPTIONS = ParquetOptions()


def plain(file: pa.Buffer) -> pa.Table:
    """The file as pyarrow alone reads it."""
    return pq.read_table(pa.BufferReader(file))


def with_kinds(rows: pa.Table, kinds: list[int]) -> pa.Table:
    """The rows with their kinds."""
    return rows.append_column(KIND_COLUMN, pa.array(kinds, pa.int8()))


def id_of(field: pa.Field) -> int:
    """The id in a field's metadata."""
    return int(field.metadata[FIELD_ID])


@given(keyed_rows())
@settings(max_examples=60, deadline=None)
def test_every_type_reads_back_with_any_parquet_reader(found: tuple[TableSchema, pa.Table]) -> None:
    """pyarrow finds the columns by name with the values that were written, and their field ids."""
    schema, rows = found
    read = plain(encode_parquet(rows, schema, OPTIONS))
    assert read.column_names == rows.column_names
    assert read.cast(rows.schema).equals(rows)
    assert [id_of(field) for field in read.schema] == [field.id for field in schema.fields]


def test_other_programs_read_runs(tmp_path: Path) -> None:
    """DuckDB and polars read what pyarrow wrote for us, and DuckDB sees the field ids."""
    rows = with_kinds(many_rows(3_000), [0] * 2_999 + [2])
    path = tmp_path / "run.parquet"
    path.write_bytes(encode_parquet(rows, KEYED, ParquetOptions(row_group_rows=1_000)))
    with duckdb.connect() as db:
        read = db.sql("SELECT * FROM read_parquet(?)", params=[str(path)]).to_arrow_table()
        ids = db.execute("SELECT name, field_id FROM parquet_schema(?)", [str(path)]).fetchall()
    assert read.cast(rows.schema).equals(rows)
    assert [*ids][1:] == [(field.name, field.id) for field in (*FIELDS, KIND_FIELD)]
    assert pl.read_parquet(path).to_dicts() == rows.to_pylist()


def test_nested_fields_have_ids() -> None:
    """Fields within structs, lists and maps carry their ids in the file."""
    kind = StructType(
        (
            Field(id=3, name="tags", type=ListType(Field(id=4, name="element", type=StringType()))),
            Field(
                id=5,
                name="sizes",
                type=MapType(
                    Field(id=6, name="key", type=StringType(), required=True),
                    Field(id=7, name="value", type=Primitive("int32")),
                ),
            ),
        )
    )
    schema = TableSchema(fields=(Field(id=2, name="s", type=kind),), highest_field_id=7)
    rows = pa.Table.from_pylist([{"s": {"tags": ["a"], "sizes": [("x", 1)]}}], schema=schema.arrow())
    (column,) = plain(encode_parquet(rows, schema, OPTIONS)).schema
    tags, sizes = column.type
    found = [column, tags, tags.type.value_field, sizes, sizes.type.key_field, sizes.type.item_field]
    assert [id_of(field) for field in found] == [2, 3, 4, 5, 6, 7]


def test_columns_that_say_nothing_are_left_out() -> None:
    """A file of inserts whose place is inherited has the table's columns and no others."""
    rows = with_kinds(many_rows(3), [0, 0, 0])
    rows = rows.append_column(SEQUENCE_COLUMN, pa.nulls(3, pa.int64()))
    assert plain(encode_parquet(rows, KEYED, OPTIONS)).column_names == KEYED.arrow().names


def test_kinds_and_sequence_numbers_are_plain_columns() -> None:
    """Other kinds than inserts, and numbers that are not inherited, stand in columns with reserved ids."""
    rows = with_kinds(many_rows(3), [0, 1, 2])
    rows = rows.append_column(SEQUENCE_COLUMN, pa.array([7, None, 8], pa.int64()))
    file = encode_parquet(rows, KEYED, OPTIONS)
    read = plain(file)
    assert read.column_names[-2:] == [SEQUENCE_COLUMN, KIND_COLUMN]
    assert read[KIND_COLUMN].to_pylist() == [0, 1, 2]
    assert read[SEQUENCE_COLUMN].to_pylist() == [7, None, 8]
    assert [id_of(field) for field in read.schema][-2:] == [SEQUENCE_FIELD.id, KIND_FIELD.id]
    assert SEQUENCE_FIELD.id < KIND_FIELD.id < 2**31 - 201  # Iceberg's begin there
    assert footer_of(file).head.kinds == (1, 1, 1)


def test_deleted_rows_may_lack_required_values() -> None:
    """Rows of kind delete hold nulls in required columns, nested ones too; the file has those as optional."""
    pair = StructType((Field(id=3, name="a", type=Primitive("int32"), required=True),))
    fields = (
        FIELDS[0],
        Field(id=2, name="pair", type=pair, required=True),
        Field(
            id=4,
            name="pairs",
            type=ListType(Field(id=5, name="element", type=pair, required=True)),
            required=True,
        ),
        Field(id=6, name="n", type=Primitive("int32"), required=True),
    )
    schema = TableSchema(fields=fields, primary_key=("id",), highest_field_id=6)
    wanted = schema.arrow()
    lost = [pa.nulls(2, kind) for kind in wanted.types[1:]]
    loose = pa.schema([field.with_nullable(True) for field in wanted])
    whole = pa.Table.from_pylist([{"id": 1, "pair": {"a": 1}, "pairs": [{"a": 2}], "n": 3}], schema=loose)
    rows = pa.concat_tables([whole, pa.table([pa.array([2, 3]), *lost], schema=loose)])
    read = plain(encode_parquet(with_kinds(rows, [0, 2, 2]), schema, OPTIONS))
    assert read.to_pylist() == [
        {"id": 1, "pair": {"a": 1}, "pairs": [{"a": 2}], "n": 3, KIND_COLUMN: 0},
        {"id": 2, "pair": None, "pairs": None, "n": None, KIND_COLUMN: 2},
        {"id": 3, "pair": None, "pairs": None, "n": None, KIND_COLUMN: 2},
    ]
    assert not read.schema.field("id").nullable


def test_row_groups_are_as_large_as_asked() -> None:
    """Every row group but the last has ``row_group_rows`` rows, and the footer knows its keys."""
    rows = many_rows(2_500)
    footer = footer_of(encode_parquet(rows, KEYED, ParquetOptions(row_group_rows=1_000)))
    assert footer.pieces.rows.tolist() == [1_000, 1_000, 500]
    keys = RowKeyCodec(KEYED.key_fields).encode([rows["id"]])
    assert footer.first_keys == keys.take([0, 1_000, 2_000]).to_pylist()
    assert footer.last_keys == keys.take([999, 1_999, 2_499]).to_pylist()
    assert footer.head.schema_id == KEYED.id


def test_files_without_rows_are_read() -> None:
    """No row makes a file without row groups."""
    file = encode_parquet(many_rows(0), KEYED, OPTIONS)
    assert footer_of(file).rows == 0
    assert plain(file).num_rows == 0


def test_tables_without_a_key_have_row_groups_without_bounds() -> None:
    """The footer of an append-only table's file holds no keys."""
    schema = TableSchema(fields=FIELDS, highest_field_id=4)
    footer = footer_of(encode_parquet(many_rows(10), schema, ParquetOptions(row_group_rows=4)))
    assert footer.pieces.rows.tolist() == [4, 4, 2]
    assert footer.first_keys == footer.last_keys == []


def test_the_same_rows_make_the_same_file() -> None:
    """Bytes depend on nothing but rows, schema and options, chunks of the input included."""
    rows = many_rows(20_000)
    pieces = pa.concat_tables([rows.slice(0, 7), rows.slice(7)])
    assert encode_parquet(rows, KEYED, OPTIONS).equals(encode_parquet(pieces, KEYED, OPTIONS))


@pytest.mark.parametrize(
    ("codec", "stored"), [("none", "UNCOMPRESSED"), ("snappy", "SNAPPY"), ("lz4", "LZ4"), ("zstd", "ZSTD")]
)
def test_codecs(codec: str, stored: str) -> None:
    """Pages are compressed with the codec of the options."""
    file = encode_parquet(many_rows(10), KEYED, ParquetOptions(compression=codec))
    assert footer_of(file).metadata.row_group(0).column(0).compression == stored
    assert plain(file).num_rows == 10


def _encodings(kind: DataType, column: pa.Array, options: ParquetOptions = OPTIONS) -> set[str]:
    """How the values of a column are stored."""
    schema = TableSchema(fields=(Field(id=1, name="x", type=kind),), highest_field_id=1)
    file = encode_parquet(pa.table({"x": column}), schema, options)
    assert plain(file).column(0).combine_chunks().equals(column)
    chunk = footer_of(file).metadata.row_group(0).column(0)
    return {"DICTIONARY"} if chunk.has_dictionary_page else set(chunk.encodings) - {"RLE"}


def test_integers_are_deltas_unless_that_saves_nothing() -> None:
    """Integers and times are stored as deltas, few different ones as a dictionary, random ones plain."""
    draw = np.random.default_rng(3)
    ascending = pa.array(np.arange(50_000) * 7 + draw.integers(0, 5, 50_000))
    few = pa.array(draw.integers(0, 1 << 40, 50)[draw.integers(0, 50, 50_000)])
    scattered = pa.array(draw.integers(-(1 << 62), 1 << 62, 50_000))
    assert _encodings(Primitive("int64"), ascending) == {"DELTA_BINARY_PACKED"}
    moments = ascending.cast(pa.timestamp("us", tz="UTC"))
    assert _encodings(Primitive("timestamp"), moments) == {"DELTA_BINARY_PACKED"}
    exact = ascending.cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2))
    assert _encodings(DecimalType(12, 2), exact) == {"DELTA_BINARY_PACKED"}
    assert _encodings(Primitive("int64"), few) == {"DICTIONARY"}
    assert _encodings(Primitive("int64"), scattered) == {"PLAIN"}


def test_old_readers_can_be_spared_deltas() -> None:
    """Without ``delta`` no column is stored as deltas."""
    assert _encodings(Primitive("int64"), pa.array(range(5_000)), ParquetOptions(delta=False)) == {"PLAIN"}


def test_text_gets_a_dictionary_where_it_repeats() -> None:
    """Repeated text and doubles are stored as a dictionary, unique ones without the attempt."""
    draw = np.random.default_rng(4)
    cities = pa.array(np.char.add("city ", draw.integers(0, 500, 50_000).astype("U")))
    unique = pa.array(np.char.add("note ", np.arange(50_000).astype("U")))
    prices = pa.array(draw.integers(0, 500, 50_000) / 10)
    assert _encodings(StringType(), cities) == {"DICTIONARY"}
    assert _encodings(Primitive("double"), prices) == {"DICTIONARY"}
    assert _encodings(StringType(), unique) == {"PLAIN"}
    assert _encodings(Primitive("double"), pa.array(draw.random(50_000))) == {"PLAIN"}


def test_sorted_repeats_get_no_dictionary() -> None:
    """Values that come up twice, beside each other, fill a row group with others: no dictionary."""
    each = np.repeat(np.arange(150_000), 2)
    assert _encodings(StringType(), pa.array(np.char.add("note ", each.astype("U")))) == {"PLAIN"}
    apart = np.random.default_rng(6).integers(0, 1 << 40, 150_000).cumsum()[each]
    assert _encodings(Primitive("int64"), pa.array(apart)) == {"DELTA_BINARY_PACKED"}


def test_numbers_that_do_not_compress_are_not_compressed() -> None:
    """Random doubles are stored as they are, others and text with the codec."""
    draw = np.random.default_rng(5)
    schema = TableSchema(fields=FIELDS[1:], highest_field_id=4)
    for amounts, stored in ((draw.random(5_000), "UNCOMPRESSED"), (np.arange(5_000) / 8, "ZSTD")):
        rows = many_rows(5_000).drop_columns("id").set_column(0, "amount", pa.array(amounts))
        footer = footer_of(encode_parquet(rows, schema, OPTIONS))
        codecs = [footer.metadata.row_group(0).column(leaf).compression for leaf in range(3)]
        assert codecs == [stored, "ZSTD", "ZSTD"]


def test_names_with_dots_do_not_mix_columns_up() -> None:
    """A column ``a.b`` of text and a field ``b`` of integers in a struct ``a`` are both written."""
    inner = StructType((Field(id=2, name="b", type=Primitive("int64")),))
    fields = (Field(id=1, name="a", type=inner), Field(id=3, name="a.b", type=StringType()))
    schema = TableSchema(fields=fields, highest_field_id=3)
    rows = pa.Table.from_pylist(
        [{"a": {"b": n}, "a.b": f"text {n}"} for n in range(2_000)], schema=schema.arrow()
    )
    assert plain(encode_parquet(rows, schema, OPTIONS)).cast(rows.schema).equals(rows)
