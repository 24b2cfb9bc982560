"""Avro files made here, of any schema and value: what the reader is tested with."""

from __future__ import annotations

import bz2
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["SYNC", "TYPES", "avro_file", "encode_number", "encode_value", "packed", "typed_entries"]

SYNC = bytes(range(16))
_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "snappy": lambda data: (
        pa.Codec("snappy").compress(data, asbytes=True) + struct.pack(">I", zlib.crc32(data))
    ),
    "zstandard": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def packed(data: bytes, codec: str) -> bytes:
    """Compresses the content of a block."""
    return _CODECS[codec](data)


def encode_number(value: int) -> bytes:
    """A long: its sign in the lowest bit, seven bits a byte."""
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left >= 128:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return encode_number(len(data)) + data


def encode_value(schema: Any, value: Any, *, sized_blocks: bool = False) -> bytes:
    """A value in the bytes of its schema; None is the null of a union.

    Args:
        schema: a schema as JSON has it, without references to names.
        value: entries of maps are pairs.
        sized_blocks: True writes the size of each block of arrays and maps, one item to a block.
    """

    def items(encoded: Sequence[bytes]) -> bytes:
        if not encoded:
            return b"\0"
        if sized_blocks:
            return b"".join(encode_number(-1) + _sized(one) for one in encoded) + b"\0"
        return encode_number(len(encoded)) + b"".join(encoded) + b"\0"

    def encoded(schema: Any, value: Any) -> bytes:
        if isinstance(schema, list):
            branch = (
                schema.index("null")
                if value is None
                else next(i for i, s in enumerate(schema) if s != "null")
            )
            return encode_number(branch) + encoded(schema[branch], value)
        kind = schema["type"] if isinstance(schema, dict) else schema
        match kind:
            case "null":
                return b""
            case "boolean":
                return bytes([value])
            case "int" | "long":
                return encode_number(value)
            case "float":
                return struct.pack("<f", value)
            case "double":
                return struct.pack("<d", value)
            case "bytes":
                return _sized(value)
            case "string":
                return _sized(value.encode())
            case "fixed":
                return bytes(value)
            case "enum":
                return encode_number(schema["symbols"].index(value))
            case "array":
                return items([encoded(schema["items"], one) for one in value])
            case "map":
                return items([_sized(key.encode()) + encoded(schema["values"], one) for key, one in value])
            case "record":
                return b"".join(encoded(field["type"], value[field["name"]]) for field in schema["fields"])
        return encoded(kind, value)

    return encoded(schema, value)


def avro_file(
    schema: Any,
    blocks: Sequence[Sequence[Any]],
    codec: str = "deflate",
    *,
    metadata: Mapping[str, bytes] | None = None,
    sized_blocks: bool = False,
) -> bytes:
    """A file with these entries in these blocks."""
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode(), **(metadata or {})}
    parts = [b"Obj\x01", encode_number(len(header))]
    parts += [_sized(name.encode()) + _sized(value) for name, value in header.items()]
    parts += [b"\0", SYNC]
    for block in blocks:
        content = b"".join(encode_value(schema, entry, sized_blocks=sized_blocks) for entry in block)
        parts += [encode_number(len(block)), _sized(packed(content, codec)), SYNC]
    return b"".join(parts)


TYPES: Sequence[tuple[Any, st.SearchStrategy[Any]]] = (
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    ("long", st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70, 70)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=9)),
    ("string", st.text(max_size=9)),
    ({"type": "fixed", "name": "f", "size": 3}, st.binary(min_size=3, max_size=3)),
    ({"type": "enum", "name": "e", "symbols": ["a", "b", "c"]}, st.sampled_from(["a", "b", "c"])),
)
"""Leaf types, and values of each."""


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Types made of others: lists, maps, records and unions with null."""

    def listed(one: tuple[Any, Any]) -> tuple[Any, Any]:
        return {"type": "array", "items": one[0]}, st.lists(one[1], max_size=3)

    def mapped(one: tuple[Any, Any]) -> tuple[Any, Any]:
        pairs = st.tuples(st.text("ab", max_size=2), one[1])
        return {"type": "map", "values": one[0]}, st.lists(pairs, max_size=3)

    def optional(one: tuple[Any, Any], first: bool) -> tuple[Any, Any]:
        if one[0] == "null" or isinstance(one[0], list):
            return one
        return (["null", one[0]] if first else [one[0], "null"]), st.none() | one[1]

    def record(members: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        fields = [{"name": f"x{at}", "type": one[0]} for at, one in enumerate(members)]
        values = {f"x{at}": one[1] for at, one in enumerate(members)}
        return {"type": "record", "name": "r", "fields": fields}, st.fixed_dictionaries(values)

    return (
        st.builds(listed, inner)
        | st.builds(mapped, inner)
        | st.builds(optional, inner, st.booleans())
        | st.builds(record, st.lists(inner, max_size=3))
    )


@st.composite
def typed_entries(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """A record's schema, and some entries of it."""
    inner = st.recursive(st.sampled_from(TYPES), _nested, max_leaves=6)
    members = draw(st.lists(inner, min_size=1, max_size=4))
    fields = [{"name": f"c{at}", "type": one[0]} for at, one in enumerate(members)]
    entry = st.fixed_dictionaries({f"c{at}": one[1] for at, one in enumerate(members)})
    names = iter(range(1_000))

    def renamed(schema: Any) -> Any:
        # Names are defined once in a schema.
        if isinstance(schema, list):
            return [renamed(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        made = {
            key: renamed(one) if key in ("type", "items", "values") else one for key, one in schema.items()
        }
        if "fields" in made:
            made["fields"] = [{**field, "type": renamed(field["type"])} for field in made["fields"]]
        return made | ({"name": f"n{next(names)}"} if "name" in made else {})

    schema = renamed({"type": "record", "name": "entry", "fields": fields})
    return schema, draw(st.lists(entry, max_size=5))
