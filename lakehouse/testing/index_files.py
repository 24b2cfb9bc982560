"""Sample puffin files with every kind of index, made from a few rows."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.format.index import InvertedBuilder, build_bloom, encode_array
from lakehouse.format.puffin import PuffinBuilder

__all__ = ["FULLTEXT", "all_kinds", "puffin"]

FULLTEXT = {"fulltext_config": '{"analyzer":"English","case_sensitive":false}'}


def puffin(*blobs: tuple[str, bytes, dict[str, str]]) -> bytes:
    """Makes a puffin file of blobs."""
    builder = PuffinBuilder(allow_duplicates=True)
    chunks = [
        bytes(chunk)
        for kind, data, properties in blobs
        for chunk in builder.add(kind, data, properties=properties)
    ]
    return b"".join(chunks) + builder.finish()


def all_kinds(rows: int = 20, *, filler: int = 0) -> bytes:
    """Makes a file with an inverted index of columns 1 and 2, fulltext bloom of 4, tantivy of 5, bloom of 1.

    ``filler`` bytes between the blobs and the footer push the metadata out of a short tail.
    """
    numbers = encode_array(pa.array([float(row) for row in range(rows)]))
    inverted = InvertedBuilder(["1", "2"], segment_row_count=1024)
    inverted.push({"1": numbers, "2": numbers})
    words = pa.array([[b"y"]] * rows, pa.list_(pa.binary()))
    blobs = [
        ("greptime-inverted-index-v1", inverted.finish(), {}),
        ("greptime-fulltext-index-bloom-4", build_bloom(words, 4, 0.001), FULLTEXT),
        ("greptime-fulltext-index-v1-5", b'{"files":[]}', FULLTEXT),
        ("greptime-bloom-filter-v1-1", build_bloom(numbers, 2, 0.01), {}),
    ]
    if filler:
        blobs.append(("filler", bytes(filler), {}))
    return puffin(*blobs)
