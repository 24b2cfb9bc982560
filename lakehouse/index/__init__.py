"""Indexes in puffin files: what is in them, where they are, and the rows that tell."""

from __future__ import annotations

from lakehouse.index.classify import blob_type, classify
from lakehouse.index.enumerate import IndexMetaScan, ScanStats, iterate_index_metas
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
from lakehouse.index.reader import PuffinReader
from lakehouse.index.rows import COMPACT, FLAT, GREPTIME, SHAPES, RowShape, parse_row
from lakehouse.index.sources import (
    FileListSource,
    FileProblem,
    GreptimeListing,
    IndexFile,
    IndexSource,
    PrefixSource,
)
from lakehouse.index.writer import PuffinWriter

__all__ = [
    "COMPACT",
    "FLAT",
    "GREPTIME",
    "SCHEMA_NAMES",
    "SHAPES",
    "BloomInfo",
    "FileListSource",
    "FileProblem",
    "FulltextInfo",
    "GreptimeListing",
    "GreptimeManifests",
    "IndexEntry",
    "IndexFile",
    "IndexFileLocator",
    "IndexMetaScan",
    "IndexSource",
    "IndexType",
    "InvertedInfo",
    "MetaInfo",
    "PrefixSource",
    "PuffinReader",
    "PuffinWriter",
    "RowShape",
    "ScanStats",
    "blob_type",
    "classify",
    "iterate_index_metas",
    "json_schema",
    "parse_row",
]
