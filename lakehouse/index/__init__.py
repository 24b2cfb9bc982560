"""Indexes in puffin files: built, searched, and enumerated as rows that say what is where."""

from __future__ import annotations

from lakehouse.format.fst.read import KeyRange
from lakehouse.format.index.inverted_search import (
    AllOf,
    AnyOf,
    InRange,
    IsNotNull,
    IsNull,
    MatchesRegex,
    OneOf,
)
from lakehouse.format.schema.target_key import (
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    JsonPathTarget,
    decode_target_key,
    encode_target_key,
)
from lakehouse.format.text.config import Analyzer, FulltextConfig
from lakehouse.format.text.match import matches
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
