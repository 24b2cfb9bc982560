"""Encoder of Avro files: records in the order of a writer's schema, in blocks that are deflated.

Of Avro's types it has those that table metadata use: records, arrays, unions of null and one type, fixed and
primitives. The schema is compiled once to functions, so that an entry costs no look at it.

Invariant: the file depends on nothing but the schema, the members of its header and the records.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeAlias

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.format.avro.file import MAGIC

__all__ = ["encode_avro"]

_BLOCK_RECORDS = 1_000
"""Records of a block: what a reader holds at once beside what it keeps."""
_SYNC_BYTES = 16
_Put: TypeAlias = Callable[[bytearray, Any], None]
"""Function that adds a value's bytes to those before it."""


def encode_avro(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], *, metadata: Mapping[str, str]
) -> bytes:
    """Encodes a file of records.

    Args:
        schema: the writer's schema, as JSON has it.
        records: values by name of field; a field of a union with null may be missing, an array may be given
            as a mapping when its items are records of a key and a value.
        metadata: further members of the header.

    Raises:
        InvalidInputError: a value is none of its field's type.
    """
    put = _compiled(schema)
    blocks: list[tuple[int, bytes]] = []
    left = iter(records)
    while block := list(islice(left, _BLOCK_RECORDS)):
        blocks.append((len(block), _deflated(_encoded(put, block))))
    members = {"avro.schema": json.dumps(schema), "avro.codec": "deflate", **metadata}
    head = bytearray(MAGIC)
    _put_number(head, len(members))
    for name, text in members.items():
        _put_sized(head, name.encode())
        _put_sized(head, text.encode())
    _put_number(head, 0)
    # A mark that the content decides makes the same records the same file.
    sync = hashlib.blake2b(
        bytes(head) + b"".join(data for _, data in blocks), digest_size=_SYNC_BYTES
    ).digest()
    out = head + sync
    for count, data in blocks:
        _put_number(out, count)
        _put_sized(out, data)
        out += sync
    return bytes(out)


def _encoded(put: _Put, records: Iterable[Mapping[str, Any]]) -> bytes:
    out = bytearray()
    for record in records:
        put(out, record)
    return bytes(out)


def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)  # negative: without a header of its own
    return packer.compress(content) + packer.flush()


def _compiled(kind: Any) -> _Put:
    """Returns the function that writes values of a type."""
    if isinstance(kind, list):
        return _optional(kind)
    name = kind["type"] if isinstance(kind, Mapping) else kind
    match name:
        case "record":
            return _record(kind)
        case "array":
            return _array(_compiled(kind["items"]))
        case "fixed":
            return _fixed(kind["size"])
        case str() if name in _PRIMITIVE:
            return _PRIMITIVE[name]
        case Mapping() | list():
            return _compiled(name)
    raise InvalidInputError(f"values of the Avro type {short(kind)} are not written")


def _optional(kinds: list[Any]) -> _Put:
    (other,) = (kind for kind in kinds if kind != "null")
    absent, present = kinds.index("null") << 1, kinds.index(other) << 1
    put_value = _compiled(other)

    def put(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(absent)
        else:
            out.append(present)
            put_value(out, value)

    return put


def _record(kind: Mapping[str, Any]) -> _Put:
    fields = [(field["name"], _compiled(field["type"])) for field in kind["fields"]]

    def put(out: bytearray, value: Any) -> None:
        for name, put_field in fields:
            put_field(out, value.get(name))

    return put


def _array(put_item: _Put) -> _Put:
    def put(out: bytearray, value: Any) -> None:
        if isinstance(value, Mapping):
            value = [{"key": key, "value": item} for key, item in value.items()]
        if value:
            _put_number(out, len(value))
            for item in value:
                put_item(out, item)
        out.append(0)

    return put


def _fixed(size: int) -> _Put:
    def put(out: bytearray, value: Any) -> None:
        if not isinstance(value, bytes) or len(value) != size:
            raise InvalidInputError(f"{short(value)} is not {size} bytes, as its Avro type has it")
        out += value

    return put


def _put_number(out: bytearray, value: Any) -> None:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise InvalidInputError(f"{short(value)} is no whole number of 64 bits, as its Avro type has it")
    rest = value << 1 ^ value >> 63  # zigzag: small numbers of either sign are short
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _put_sized(out: bytearray, value: Any) -> None:
    if not isinstance(value, bytes):
        raise InvalidInputError(f"{short(value)} is not bytes, as its Avro type has it")
    _put_number(out, len(value))
    out += value


def _put_text(out: bytearray, value: Any) -> None:
    if not isinstance(value, str):
        raise InvalidInputError(f"{short(value)} is no text, as its Avro type has it")
    _put_sized(out, value.encode())


def _put_flag(out: bytearray, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidInputError(f"{short(value)} is not true or false, as its Avro type has it")
    out.append(value)


def _real(form: str) -> _Put:
    packed = struct.Struct(form)

    def put(out: bytearray, value: Any) -> None:
        out += packed.pack(value)

    return put


_PRIMITIVE: Mapping[str, _Put] = {
    "boolean": _put_flag,
    "int": _put_number,
    "long": _put_number,
    "float": _real("<f"),
    "double": _real("<d"),
    "bytes": _put_sized,
    "string": _put_text,
}
