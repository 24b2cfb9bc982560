"""Sealed objects: what is encoded can be decoded."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.metadata.database_marker import DatabaseMarker, decode_database, encode_database
from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.metadata.manifest import encode_manifest
from lakehouse.format.metadata.name_pointer import encode_pointer
from lakehouse.format.metadata.sealed_json import seal
from lakehouse.format.metadata.snapshot import SegmentRange, decode_snapshot, encode_snapshot
from lakehouse.format.metadata.wal_segment import SegmentHeader, encode_segment
from lakehouse.format.puffin.footer import BlobMeta, PuffinFooter
from lakehouse.format.schema.schema_object import SchemaObject, encode_schema
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import Field, Primitive
from lakehouse.format.sstable.meta import FileMeta
from tests.kit.table_samples import ENTRY, POINTER, SNAPSHOT, TABLE, TOKEN

MARKER = DatabaseMarker(name="sales", token=TOKEN)
SCHEMA = SchemaObject(
    schema=TableSchema(fields=(Field(id=1, name="a", type=Primitive("double")),), highest_field_id=1),
    table=TABLE,
    token=TOKEN,
    time_ms=1,
)
META = FileMeta(
    schema_id=1,
    fields=SCHEMA.schema.fields,
    key=(),
    rows=1,
    kinds=(1, 0, 0),
    codec="none",
    stats={},
    properties={},
)
HEADER = SegmentHeader(table=TABLE, number=1, epoch=1, token=TOKEN, time_ms=1, schema_id=0)
BLOB = BlobMeta(type="t", offset=4, length=1)


def with_type(kind: Any) -> SchemaObject:
    """The schema with another type for its column."""
    field = dataclasses.replace(SCHEMA.schema.fields[0], type=kind)
    return dataclasses.replace(SCHEMA, schema=dataclasses.replace(SCHEMA.schema, fields=(field,)))


UNREADABLE = {
    "schema: no type": (encode_schema, with_type(None)),
    "schema: a type of Arrow": (encode_schema, with_type(float)),
    "schema: a time of text": (encode_schema, dataclasses.replace(SCHEMA, time_ms="now")),
    "snapshot: a message of bytes": (encode_snapshot, dataclasses.replace(SNAPSHOT, message=b"x")),
    "snapshot: a message of numbers": (encode_snapshot, dataclasses.replace(SNAPSHOT, message=5)),
    "snapshot: id 0": (encode_snapshot, dataclasses.replace(SNAPSHOT, id=0)),
    "snapshot: NaN": (encode_snapshot, dataclasses.replace(SNAPSHOT, time_ms=math.nan)),
    "snapshot: a negative size": (
        encode_snapshot,
        dataclasses.replace(SNAPSHOT, added=(dataclasses.replace(ENTRY, size=-1),)),
    ),
    "snapshot: segments that end before they begin": (
        encode_snapshot,
        dataclasses.replace(SNAPSHOT, segments=(SegmentRange(first=5, last=4, size=1),)),
    ),
    "snapshot: earliest 0": (encode_snapshot, dataclasses.replace(SNAPSHOT, earliest=0)),
    "pointer: a name of None": (encode_pointer, dataclasses.replace(POINTER, name=None)),
    "marker: a comment of numbers": (encode_database, dataclasses.replace(MARKER, comment=5)),
    "footer: an offset in the magic": (
        PuffinFooter.encode,
        PuffinFooter(blobs=(dataclasses.replace(BLOB, offset=0),)),
    ),
    "footer: a property of numbers": (PuffinFooter.encode, PuffinFooter(properties={"a": 1})),
    "footer: a field id of 64 bits": (
        PuffinFooter.encode,
        PuffinFooter(blobs=(dataclasses.replace(BLOB, fields=(2**40,)),)),
    ),
    "meta block: kinds that do not add up": (FileMeta.pack, dataclasses.replace(META, kinds=(2, 0, 0))),
    "meta block: a codec of None": (FileMeta.pack, dataclasses.replace(META, codec=None)),
    "segment: an epoch of text": (encode_segment, dataclasses.replace(HEADER, epoch="1")),
    "segment: a token that is none": (encode_segment, dataclasses.replace(HEADER, token="ab")),
    "segment: a writer of a long name": (
        encode_segment,
        dataclasses.replace(HEADER, writers={"w" * 70_000: 1}),
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_could_not_be_read_is_not_written(name: str) -> None:
    """An encoder of metadata refuses a value that its decoder would refuse or read as another."""
    encode, value = UNREADABLE[name]
    with pytest.raises(InvalidInputError):
        encode(value)


@pytest.mark.parametrize(
    "change", [{"size": -1}, {"bucket": 2**31}, {"rows": 2**60}, {"checksum": -1}, {"path": None}]
)
def test_a_manifest_that_could_not_be_read_is_not_written(change: dict[str, Any]) -> None:
    """Entries out of range make no manifest."""
    odd: FileEntry = dataclasses.replace(ENTRY, **change)
    with pytest.raises((InvalidInputError, ValueError)):
        encode_manifest([odd], table=TABLE)


def test_halves_of_surrogate_pairs_are_named_by_their_place() -> None:
    """Text that is no UTF-8 is refused with the member it stands in."""
    with pytest.raises(InvalidInputError, match=r"snapshot\.message is 'a\\ud800': half of a surrogate pair"):
        encode_snapshot(dataclasses.replace(SNAPSHOT, message="a\ud800"))
    with pytest.raises(InvalidInputError, match=r"schema\.options\.o is "):
        encode_schema(
            dataclasses.replace(SCHEMA, schema=dataclasses.replace(SCHEMA.schema, options={"o": "\udfff"}))
        )


def test_a_marker_survives() -> None:
    """A database's marker comes back as it was."""
    for marker in (MARKER, dataclasses.replace(MARKER, comment="for ä")):
        assert decode_database(encode_database(marker), key="k") == marker


def test_a_refusal_does_not_speak_of_repair() -> None:
    """Damage ends with the way out, a value that was refused does not: nothing is damaged."""
    with pytest.raises(InvalidInputError) as refused:
        encode_snapshot(dataclasses.replace(SNAPSHOT, id=0))
    assert "repair" not in refused.value.message
    with pytest.raises(CorruptionError, match="`lakehouse table repair`"):
        decode_snapshot(seal({"format": 1, "id": 0}), key="k")
