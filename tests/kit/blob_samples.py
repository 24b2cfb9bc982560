"""Real files for format tests, and the examples of the specifications."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

from lakehouse.format.index.bloom import BloomMeta
from lakehouse.format.puffin.footer import BlobMeta, PuffinFooter

__all__ = [
    "GREPTIME",
    "ICEBERG",
    "flipped",
    "footer_of",
    "manifest",
    "sample",
    "spec_block",
    "spec_bytes",
    "stored",
]

ROOT = Path(__file__).resolve().parents[2]
GREPTIME = ("bloom-one", "inverted-two", "empty", "empty-lz4-footer", "zstd-blob")
ICEBERG = (
    "empty-puffin-uncompressed",
    "sample-metric-data-compressed-zstd",
    "sample-metric-data-uncompressed",
)


@functools.cache
def sample(name: str) -> bytes:
    """A puffin file by its name without folder and suffix."""
    folder, suffix = ("greptime", "puffin") if name in GREPTIME else ("iceberg-puffin", "bin")
    return (ROOT / "tests" / "data" / folder / f"{name}.{suffix}").read_bytes()


@functools.cache
def manifest() -> dict[str, Any]:
    """What upstream's reader says of the GreptimeDB samples."""
    found: dict[str, Any] = json.loads((ROOT / "tests/data/greptime/manifest.json").read_text())
    return found


def footer_of(data: bytes) -> PuffinFooter:
    """The footer of a whole file."""
    footer = PuffinFooter.parse(data, len(data))
    assert isinstance(footer, PuffinFooter)
    return footer


def bloom_meta(blob: bytes) -> BloomMeta:
    """The metadata of a whole bloom blob."""
    meta = BloomMeta.from_tail(blob, len(blob))
    assert isinstance(meta, BloomMeta)
    return meta


def stored(data: bytes, blob: BlobMeta) -> bytes:
    """A blob's bytes as they stand in the file."""
    return data[blob.offset : blob.end]


def flipped(data: bytes, bit: int) -> bytes:
    """The bytes with one bit turned over."""
    copy = bytearray(data)
    copy[bit >> 3] ^= 1 << (bit & 7)
    return bytes(copy)


def spec_block(page: str, name: str) -> str:
    """A fenced block of a page in docs/spec/v1: the one whose fence says ``name``."""
    text = (ROOT / "docs" / "spec" / "v1" / page).read_text()
    found = re.search(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no block {name!r}"
    return found[1]


def spec_bytes(page: str, name: str) -> bytes:
    """The bytes of a hex block; what follows ``#`` on a line is for people."""
    lines = (line.partition("#")[0] for line in spec_block(page, name).splitlines())
    return bytes.fromhex("".join(lines))
