"""Indexes in puffin files: built, searched, and enumerated as rows that say what is where."""

from __future__ import annotations

from lakehouse.format.fst_read import KeyRange
from lakehouse.format.fulltext import Analyzer, FulltextConfig
from lakehouse.format.fulltext_match import matches
from lakehouse.format.inverted_search import AllOf, AnyOf, InRange, IsNotNull, IsNull, MatchesRegex, OneOf
from lakehouse.format.target_key import (
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    JsonPathTarget,
    decode_target_key,
    encode_target_key,
)
from lakehouse.index.build import IndexSpec, PuffinIndexBuilder
from lakehouse.index.classify import blob_type, classify
from lakehouse.index.conditions import HasWords, Holds
from lakehouse.index.enumerate import Authorise, IndexMetaScan, ScanStats, iterate_index_metas
from lakehouse.index.greptime_manifests import GreptimeManifests
from lakehouse.index.json_schemas import SCHEMA_NAMES, json_schema
from lakehouse.index.models import (
    BloomInfo,
    FulltextInfo,
    IndexEntry,
    IndexFileLocator,
    IndexType,
    InvertedInfo,
    MetaInfo,
)
from lakehouse.index.reader import MetaCache, PuffinReader
from lakehouse.index.rows import COMPACT, FLAT, GREPTIME, SHAPES, RowShape, parse_row
from lakehouse.index.search import IndexSearcher
from lakehouse.index.selection import RowSelection
from lakehouse.index.sources import (
    FileListSource,
    FileProblem,
    GreptimeListing,
    GuardedSource,
    IndexFile,
    IndexSource,
    PrefixSource,
)
from lakehouse.index.writer import PuffinWriter

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
