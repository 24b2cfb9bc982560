"""Blobs of indexes: bloom filters, inverted indexes, fulltext indexes, and what they are made of.

Words: *blob* (an index in a puffin file) → *segment* (some neighbouring rows) → *term* (a value or a word,
as bytes). A *filter* tells that a segment cannot have a term; a *bitmap* which segments have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.index.bloom import BloomMeta, BloomSummary, hashes_of, looks, segments_with_hashes
    from lakehouse.format.index.bloom_builder import BloomBuilder, build_bloom
    from lakehouse.format.index.bloom_filter import BLOCK_BYTES
    from lakehouse.format.index.fulltext_bloom import FulltextBloomBuilder
    from lakehouse.format.index.greptime_value import encode_array
    from lakehouse.format.index.inverted import BLOB_TYPE, InvertedColumn, InvertedMetas
    from lakehouse.format.index.inverted_build import InvertedBuilder
    from lakehouse.format.index.inverted_search import (
        AllOf,
        AnyOf,
        BitmapPlan,
        Condition,
        InRange,
        IsNotNull,
        IsNull,
        MatchesRegex,
        OneOf,
        may_hold,
        plan_bitmaps,
        segments_of,
    )
    from lakehouse.format.index.tantivy_directory import TantivyDirectory, TantivyFile
    from lakehouse.format.index.tantivy_store import without_zstd
    from lakehouse.format.index.target_value import NULL_PART, encode_column_set, encode_set_part

__all__ = [
    "BLOB_TYPE", "BLOCK_BYTES", "NULL_PART", "AllOf", "AnyOf", "BitmapPlan", "BloomBuilder", "BloomMeta",
    "BloomSummary", "Condition", "FulltextBloomBuilder", "InRange", "InvertedBuilder", "InvertedColumn",
    "InvertedMetas", "IsNotNull", "IsNull", "MatchesRegex", "OneOf", "TantivyDirectory", "TantivyFile",
    "build_bloom", "encode_array", "encode_column_set", "encode_set_part", "hashes_of", "looks",
    "may_hold", "plan_bitmaps", "segments_of", "segments_with_hashes", "without_zstd",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "bloom": "BloomMeta BloomSummary hashes_of looks segments_with_hashes",
        "bloom_builder": "BloomBuilder build_bloom",
        "bloom_filter": "BLOCK_BYTES",
        "fulltext_bloom": "FulltextBloomBuilder",
        "greptime_value": "encode_array",
        "inverted": "BLOB_TYPE InvertedColumn InvertedMetas",
        "inverted_build": "InvertedBuilder",
        "inverted_search": (
            "AllOf AnyOf BitmapPlan Condition InRange IsNotNull IsNull MatchesRegex OneOf may_hold "
            "plan_bitmaps segments_of"
        ),
        "tantivy_directory": "TantivyDirectory TantivyFile",
        "tantivy_store": "without_zstd",
        "target_value": "NULL_PART encode_column_set encode_set_part",
    },
)
