"""Indexes in puffin files: building, searching, and enumerating them as rows of metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.fst import KeyRange
    from lakehouse.format.index import AllOf, AnyOf, InRange, IsNotNull, IsNull, MatchesRegex, OneOf
    from lakehouse.format.schema import (
        ColumnSetTarget,
        ColumnTarget,
        ExpressionTarget,
        IndexTarget,
        JsonPathTarget,
        decode_target_key,
        encode_target_key,
    )
    from lakehouse.format.text import Analyzer, FulltextConfig, matches
    from lakehouse.index.building.builder import IndexSpec, PuffinIndexBuilder
    from lakehouse.index.greptime.sources import GreptimeListing, GreptimeManifests
    from lakehouse.index.metas.enumerate import Authorise, IndexMetaScan, ScanStats, iterate_index_metas
    from lakehouse.index.metas.json_schemas import SCHEMA_NAMES, json_schema
    from lakehouse.index.metas.rows import COMPACT, FLAT, GREPTIME, SHAPES, RowShape, parse_row
    from lakehouse.index.metas.sources import (
        FileListSource,
        FileProblem,
        GuardedSource,
        IndexFile,
        IndexSource,
        PrefixSource,
    )
    from lakehouse.index.models import (
        BloomInfo,
        FulltextInfo,
        IndexEntry,
        IndexFileLocator,
        IndexType,
        InvertedInfo,
        MetaInfo,
    )
    from lakehouse.index.puffin.blob_types import blob_type, classify
    from lakehouse.index.puffin.reader import MetaCache, PuffinReader
    from lakehouse.index.puffin.writer import PuffinWriter
    from lakehouse.index.search.searcher import IndexSearcher
    from lakehouse.index.search.selection import RowSelection
    from lakehouse.index.search.target_conditions import HasWords, Holds

__all__ = [
    "COMPACT", "FLAT", "GREPTIME", "SCHEMA_NAMES", "SHAPES", "AllOf", "Analyzer", "AnyOf", "Authorise",
    "BloomInfo", "ColumnSetTarget", "ColumnTarget", "ExpressionTarget", "FileListSource", "FileProblem",
    "FulltextConfig", "FulltextInfo", "GreptimeListing", "GreptimeManifests", "GuardedSource", "HasWords",
    "Holds", "InRange", "IndexEntry", "IndexFile", "IndexFileLocator", "IndexMetaScan", "IndexSearcher",
    "IndexSource", "IndexSpec", "IndexTarget", "IndexType", "InvertedInfo", "IsNotNull", "IsNull",
    "JsonPathTarget", "KeyRange", "MatchesRegex", "MetaCache", "MetaInfo", "OneOf", "PrefixSource",
    "PuffinIndexBuilder", "PuffinReader", "PuffinWriter", "RowSelection", "RowShape", "ScanStats",
    "blob_type", "classify", "decode_target_key", "encode_target_key", "iterate_index_metas", "json_schema",
    "matches", "parse_row",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "lakehouse.format.fst": "KeyRange",
        "lakehouse.format.index": "AllOf AnyOf InRange IsNotNull IsNull MatchesRegex OneOf",
        "lakehouse.format.schema": (
            "ColumnSetTarget ColumnTarget ExpressionTarget IndexTarget JsonPathTarget "
            "decode_target_key encode_target_key"
        ),
        "lakehouse.format.text": "Analyzer FulltextConfig matches",
        "lakehouse.index.building.builder": "IndexSpec PuffinIndexBuilder",
        "lakehouse.index.greptime.sources": "GreptimeListing GreptimeManifests",
        "lakehouse.index.metas.enumerate": "Authorise IndexMetaScan ScanStats iterate_index_metas",
        "lakehouse.index.metas.json_schemas": "SCHEMA_NAMES json_schema",
        "lakehouse.index.metas.rows": "COMPACT FLAT GREPTIME SHAPES RowShape parse_row",
        "lakehouse.index.metas.sources": (
            "FileListSource FileProblem GuardedSource IndexFile IndexSource PrefixSource"
        ),
        "models": "BloomInfo FulltextInfo IndexEntry IndexFileLocator IndexType InvertedInfo MetaInfo",
        "lakehouse.index.puffin.blob_types": "blob_type classify",
        "lakehouse.index.puffin.reader": "MetaCache PuffinReader",
        "lakehouse.index.puffin.writer": "PuffinWriter",
        "lakehouse.index.search.searcher": "IndexSearcher",
        "lakehouse.index.search.selection": "RowSelection",
        "lakehouse.index.search.target_conditions": "HasWords Holds",
    },
)
