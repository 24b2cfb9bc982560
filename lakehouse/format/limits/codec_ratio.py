"""Bounds of compression: the most bytes that a compressed byte can stand for, by codec.

They tell a size that no compressed bytes can have, which is damage, from one that is possible.

LZ4 extends the length of a match by 255 with each byte, zstd repeats a byte over a block of 128 KiB with
four, Snappy copies 64 bytes with three, deflate 258 with two bits, and Brotli a block of 16 MiB with a few.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BYTES_OF_ONE"]

BYTES_OF_ONE: Mapping[str, int] = {
    "none": 1,
    "snappy": 22,
    "lz4": 255,
    "gzip": 1_032,
    "zstd": 32_768,
    "brotli": 1 << 24,
}
"""Maximum bytes of content per compressed byte, by codec."""
