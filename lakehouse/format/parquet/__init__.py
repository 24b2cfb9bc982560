"""Parquet runs: how rows are encoded, found, checked and decoded.

Words: *run* (sorted rows; one file here) → *piece* (a row group) → *chunk* (a column of it) → *page*. The
*run footer* seals Parquet's own: where chunks are, which keys pieces hold, and checksums of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.parquet.decode import chunk_ranges, decode_chunks, image_of
    from lakehouse.format.parquet.file_footer import FileFooter
    from lakehouse.format.parquet.leaf_columns import LeafColumns, leaf_count
    from lakehouse.format.parquet.run_footer import RunFooter, crc32c
    from lakehouse.format.parquet.stats import GroupStats
    from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet

__all__ = [
    "FileFooter", "GroupStats", "LeafColumns", "ParquetOptions", "RunFooter", "chunk_ranges", "crc32c",
    "decode_chunks", "encode_parquet", "image_of", "leaf_count",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "decode": "chunk_ranges decode_chunks image_of",
        "file_footer": "FileFooter",
        "leaf_columns": "LeafColumns leaf_count",
        "run_footer": "RunFooter crc32c",
        "stats": "GroupStats",
        "writer": "ParquetOptions encode_parquet",
    },
)
