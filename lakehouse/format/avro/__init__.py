"""Avro object container files: a header with the writer's schema, and compressed blocks of entries.

Words: *file* → *block* (entries that are compressed together) → *entry* (a value of the writer's schema) →
*leaf* (a primitive within it). A *program* is the schema as instructions for one loop over the bytes; it
fills *streams*, numbers of one leaf one after another, and a *slot* says which streams belong to which part
of the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.avro.arrow import slot_array, slot_field, spans_array
    from lakehouse.format.avro.file import AvroFile
    from lakehouse.format.avro.program import Keep, Program, Slot, compile_program
    from lakehouse.format.avro.schema import AvroField, AvroType, parse_avro_schema
    from lakehouse.format.avro.streams import Streams, gathered
    from lakehouse.format.avro.write import encode_avro

__all__ = [
    "AvroField", "AvroFile", "AvroType", "Keep", "Program", "Slot", "Streams", "compile_program",
    "encode_avro", "gathered", "parse_avro_schema", "slot_array", "slot_field", "spans_array",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "arrow": "slot_array slot_field spans_array",
        "file": "AvroFile",
        "program": "Keep Program Slot compile_program",
        "schema": "AvroField AvroType parse_avro_schema",
        "streams": "Streams gathered",
        "write": "encode_avro",
    },
)
