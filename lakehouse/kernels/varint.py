"""Numbers of variable length, as protobuf and Thrift write them."""

from __future__ import annotations

__all__ = ["encode_varint"]


def encode_varint(value: int) -> bytes:
    """One unsigned number of at most 64 bits."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
