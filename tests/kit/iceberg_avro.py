"""Avro container files of any records, written by the letter of Avro's specification.

pyiceberg writes manifests of data files for v1 and v2 only; tests also need manifests of delete files, of v3,
with fields left out, with other codecs, and damaged ones.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

__all__ = ["SYNC", "avro_file", "avro_schema", "container", "long"]

SYNC = b"sixteen bytes...".ljust(16)
"""Mark between blocks."""


def avro_schema(schema: Schema, name: str) -> Any:
    """The Avro schema of an Iceberg schema, as JSON has it."""
    return AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)


def avro_file(
    schema: Any,
    records: Sequence[Mapping[str, Any]],
    *,
    metadata: Mapping[str, str] | None = None,
    codec: str = "deflate",
    block_records: int = 1_000,
) -> bytes:
    """A container file of records, which are dicts of Avro's own values: bytes for decimals and UUIDs."""
    blocks = [
        (len(part), b"".join(_value(schema, record) for record in part))
        for at in range(0, len(records), block_records)
        if (part := records[at : at + block_records])
    ]
    return container(schema, blocks, metadata=metadata, codec=codec)


def container(
    schema: Any,
    blocks: Sequence[tuple[int, bytes]],
    *,
    metadata: Mapping[str, str] | None = None,
    codec: str = "deflate",
    level: int = 6,
) -> bytes:
    """A container file of blocks, each a count of records and their encoding."""
    meta = {**(metadata or {}), "avro.schema": json.dumps(schema), "avro.codec": codec}
    pairs = b"".join(_bytes(key.encode()) + _bytes(value.encode()) for key, value in meta.items())
    parts = [b"Obj\x01", long(len(meta)), pairs, long(0), SYNC]
    for count, content in blocks:
        packed = _packed(content, codec, level)
        parts += [long(count), _bytes(packed), SYNC]
    return b"".join(parts)


def long(number: int) -> bytes:
    """An integer as Avro has it: zigzag, seven bits in a byte."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 127:
        out.append((rest & 127) | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _bytes(content: bytes) -> bytes:
    return long(len(content)) + content


def _packed(content: bytes, codec: str, level: int) -> bytes:
    if codec == "deflate":
        packer = zlib.compressobj(level, wbits=-15)
        return packer.compress(content) + packer.flush()
    if codec == "zstandard":
        import zstandard

        return zstandard.compress(content)
    return content


def _value(kind: Any, value: Any) -> bytes:
    if isinstance(kind, list):  # a union with null
        if value is None:
            return long(kind.index("null"))
        place = next(at for at, branch in enumerate(kind) if branch != "null")
        return long(place) + _value(kind[place], value)
    name = kind["type"] if isinstance(kind, dict) else kind
    match name:
        case "record":
            return b"".join(_value(field["type"], value.get(field["name"])) for field in kind["fields"])
        case "array":
            return _array(kind["items"], value)
        case "map":
            pairs = b"".join(_bytes(k.encode()) + _value(kind["values"], v) for k, v in value.items())
            return (long(len(value)) + pairs if value else b"") + long(0)
        case "fixed":
            assert len(value) == kind["size"], f"{value!r} for {kind}"
            return bytes(value)
    if isinstance(name, dict):
        return _value(name, value)
    return _leaf(name, value)


def _array(items: Any, values: Any) -> bytes:
    if isinstance(values, Mapping):  # Iceberg's maps are arrays of pairs
        values = [{"key": key, "value": value} for key, value in values.items()]
    return (long(len(values)) + b"".join(_value(items, v) for v in values) if values else b"") + long(0)


def _leaf(name: str, value: Any) -> bytes:
    match name:
        case "null":
            return b""
        case "boolean":
            return b"\x01" if value else b"\x00"
        case "int" | "long":
            return long(int(value))
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "string":
            return _bytes(value.encode())
        case "bytes":
            return _bytes(value)
    raise AssertionError(f"no Avro type: {name}")
