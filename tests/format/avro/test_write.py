"""Avro files that we write: what was written is read again, by our reader and by another."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.avro import AvroFile, encode_avro
from tests.kit.avro_files import encode_value

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "n", "type": "long", "field-id": 1},
        {"name": "t", "type": ["null", "string"], "field-id": 2},
        {"name": "b", "type": ["null", "bytes"], "field-id": 3},
        {"name": "f", "type": "boolean", "field-id": 4},
        {"name": "x", "type": {"type": "fixed", "name": "four", "size": 4}, "field-id": 5},
        {"name": "d", "type": "double", "field-id": 6},
        {
            "name": "m",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "k7_v8",
                    "fields": [
                        {"name": "key", "type": "int", "field-id": 7},
                        {"name": "value", "type": "bytes", "field-id": 8},
                    ],
                },
            },
            "field-id": 9,
        },
    ],
}
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
RECORDS = st.fixed_dictionaries(
    {
        "n": INT64,
        "t": st.none() | st.text(),
        "b": st.none() | st.binary(),
        "f": st.booleans(),
        "x": st.binary(min_size=4, max_size=4),
        "d": st.floats(allow_nan=False),
        "m": st.dictionaries(st.integers(-(1 << 31), (1 << 31) - 1), st.binary(), max_size=4),
    }
)


@given(st.lists(RECORDS, min_size=1, max_size=5))
def test_the_bytes_are_those_of_the_specification(records: list[dict[str, Any]]) -> None:
    """A block has the bytes that a writer by the letter of Avro's specification makes."""
    data = encode_avro(SCHEMA, records, metadata={"format-version": "2"})
    file = AvroFile.parse(data, key="k")
    start, end, count = file.blocks.tolist()
    pairs = [
        {**one, "m": [{"key": key, "value": value} for key, value in one["m"].items()]} for one in records
    ]
    assert zlib.decompress(data[start:end], -zlib.MAX_WBITS) == b"".join(
        encode_value(SCHEMA, one) for one in pairs
    )
    assert (count, file.metadata["format-version"]) == (len(records), b"2")


@given(st.lists(RECORDS, max_size=5))
def test_our_reader_reads_what_was_written(records: list[dict[str, Any]]) -> None:
    """Our own reader has the same values, and the ids of fields."""
    file = AvroFile.parse(encode_avro(SCHEMA, records, metadata={}), key="k")
    assert [field.field_id for field in file.schema.fields] == [1, 2, 3, 4, 5, 6, 9]
    assert file.to_arrow(["n", "t", "b", "f", "x", "d"]).to_pylist() == [
        {name: value for name, value in record.items() if name != "m"} for record in records
    ]


def test_many_records_become_several_blocks() -> None:
    """No block has more than a thousand records, so that a reader need not hold all of them."""
    records = [{"n": number} for number in range(2_500)]
    schema = {"type": "record", "name": "r", "fields": SCHEMA["fields"][:1]}
    file = AvroFile.parse(encode_avro(schema, records, metadata={}), key="k")
    assert file.blocks[2::3].tolist() == [1_000, 1_000, 500]
    assert file.to_arrow().column("n").to_pylist() == list(range(2_500))


def test_the_same_records_are_the_same_file() -> None:
    """Nothing in a file is left to chance."""
    record = {"n": 1, "f": True, "x": b"abcd", "d": 0.5, "m": {}}
    assert encode_avro(SCHEMA, [record], metadata={}) == encode_avro(SCHEMA, [record], metadata={})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", 1 << 63),
        ("long", True),
        ("int", None),
        ("string", b"bytes"),
        ("bytes", "text"),
        ("boolean", 1),
        ({"type": "fixed", "name": "f", "size": 2}, b"abc"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Any, value: object) -> None:
    """A value that its type cannot have is an InvalidInputError, and no damaged file."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}
    with pytest.raises(InvalidInputError, match="Avro type"):
        encode_avro(schema, [{"v": value}], metadata={})


def test_a_type_that_is_not_written_is_refused() -> None:
    """Types that metadata of tables do not use are refused by name."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": {"type": "enum", "name": "e"}}]}
    with pytest.raises(InvalidInputError, match="enum"):
        encode_avro(schema, [], metadata={})
