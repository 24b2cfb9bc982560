"""The examples of the specification of SSTables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import KIND_COLUMN
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.type_notation import parse_type
from lakehouse.format.schema.types import Field, Primitive, StringType, arrow_type
from lakehouse.format.sstable.reader import SstableFile, decode_sstable
from lakehouse.format.sstable.rows import RowLayout, pack_rows, unpack_rows
from lakehouse.format.sstable.writer import SstableOptions, encode_sstable
from tests.kit.blob_samples import spec_bytes

SCHEMA = TableSchema(
    fields=(
        Field(id=1, name="id", type=Primitive("int64"), required=True),
        Field(id=2, name="n", type=Primitive("int16")),
        Field(id=3, name="s", type=StringType()),
    ),
    primary_key=("id",),
    highest_field_id=3,
)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 300], pa.int64()),
        "n": pa.array([7, None, None], pa.int16()),
        "s": pa.array(["ab", None, "c"]),
        KIND_COLUMN: pa.array([0, 2, 1], pa.int8()),
    }
)


def test_the_file_of_the_specification_is_read_and_written() -> None:
    """The example is the rows that stand above it, and they are the example, byte for byte."""
    data = spec_bytes("sstable.md", "file")
    assert decode_sstable(data).to_pydict() == ROWS.to_pydict()
    assert encode_sstable(ROWS, SCHEMA, SstableOptions(codec="none")) == data


def test_the_filter_of_the_specification_knows_its_keys() -> None:
    """The bloom filter of the example holds its three keys, and denies most others."""
    data = spec_bytes("sstable.md", "file")
    file = SstableFile.parse(data, len(data))
    assert isinstance(file, SstableFile)
    bloom = file.bloom(data[file.footer.bloom.offset : file.footer.bloom.end])
    codec = RowKeyCodec(SCHEMA.key_fields)
    assert [number for number in range(301) if bloom.may_hold(codec.encode_one((number,)))][:2] == [1, 2]
    assert bloom.may_hold(codec.encode_one((300,)))


def test_the_row_of_the_specification_is_read_and_written() -> None:
    """The example of nested values is the values that stand above it, and they are the example."""
    numbers = iter(range(1, 20))
    texts = ("boolean", "array<string>", "struct<x: int, y: int>", "map<string,tinyint>")
    fields = [
        Field(id=next(numbers), name=f"c{at}", type=parse_type(text, lambda: next(numbers)))
        for at, text in enumerate(texts)
    ]
    values: list[Any] = [True, ["a", None], {"x": 258, "y": None}, [("k", 5)]]
    layout = RowLayout.of(fields)
    columns = [pa.array([one], arrow_type(field.type)) for one, field in zip(values, fields, strict=True)]
    data = spec_bytes("sstable.md", "row")
    assert pack_rows(layout, columns, 1).data.tobytes() == data
    found = unpack_rows(layout, np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]))
    assert [one and one[0].as_py() for one in found] == values
