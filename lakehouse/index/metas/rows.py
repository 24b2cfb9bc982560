"""Index entries as rows: the compact, the flat and GreptimeDB's own shape.

*Compact* rows will always have these ten columns: file, index, target, and two JSON columns with the
metadata that differ from kind to kind. *Flat* rows have the same content with a column for each fact,
null where it does not apply. *GreptimeDB* rows are exactly those of
``information_schema.ssts_index_meta``.

Invariants: within version 1 columns are neither renamed nor removed nor retyped; ``parse_row``
of an entry's compact row is that entry, but for the file's path and size, which compact rows
do not have. An entry with an ``error`` belongs in GreptimeDB rows alone, whose ``meta_json`` has the
metadata that are known; callers that make other rows leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Self, TypeVar

import pyarrow as pa

from lakehouse.errors import FormatError, InvalidInputError, UnsupportedVersionError
from lakehouse.format.schema import ExpressionTarget, JsonPathTarget
from lakehouse.index.metas.row_json import (
    META_SCHEMA_VERSION,
    greptime_meta_json,
    greptime_target,
    meta_json,
    parse_meta,
    parse_target,
    target_columns,
    target_json,
    target_type,
)
from lakehouse.index.models import (
    BloomInfo,
    FulltextInfo,
    IndexEntry,
    IndexFileLocator,
    IndexType,
    InvertedInfo,
)

__all__ = ["COMPACT", "FLAT", "GREPTIME", "SHAPES", "RowShape", "parse_row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    name: str
    type: pa.DataType
    nullable: bool
    per_file: bool
    """True if ``get`` takes the locator; else it takes the entry."""
    get: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """Shape of rows: the columns, and how they are computed from entries."""

    name: str
    schema: pa.Schema
    _columns: tuple[_Column, ...] = field(repr=False)

    @classmethod
    def _of(cls, name: str, *columns: _Column) -> Self:
        schema = pa.schema(
            [pa.field(column.name, column.type, nullable=column.nullable) for column in columns]
        )
        return cls(name=name, schema=schema, _columns=columns)

    def to_dict(self, entry: IndexEntry) -> dict[str, Any]:
        """Returns the row of an entry as a dict by column name."""
        locator = entry.locator
        return {column.name: column.get(locator if column.per_file else entry) for column in self._columns}

    def to_batch(self, entries: Sequence[IndexEntry]) -> pa.RecordBatch:
        """Returns the rows of entries as a record batch."""
        # Entries of a file follow each other and share their locator: its values are computed once.
        locators: list[IndexFileLocator] = []
        owners = []
        for entry in entries:
            if not locators or locators[-1] is not entry.locator:
                locators.append(entry.locator)
            owners.append(len(locators) - 1)
        rows = pa.array(owners, pa.int32())
        arrays = []
        for column in self._columns:
            values = map(column.get, locators if column.per_file else entries)
            array = pa.array(list(values), column.type)
            arrays.append(array.take(rows) if column.per_file else array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _file(name: str, kind: pa.DataType, *, nullable: bool = False) -> _Column:
    """Makes a column of an attribute of the locator."""
    return _Column(name=name, type=kind, nullable=nullable, per_file=True, get=attrgetter(name))


def _entry(
    name: str, kind: pa.DataType, get: Callable[[IndexEntry], Any], *, nullable: bool = False
) -> _Column:
    """Makes a column of values that differ from entry to entry."""
    return _Column(name=name, type=kind, nullable=nullable, per_file=False, get=get)


def _parts(part: str, kind: type) -> list[_Column]:
    """Makes columns of a flat row: the fields of one part of the metadata, named after it."""
    return [_part_field(part, field_.name, _ARROW_TYPES[str(field_.type)]) for field_ in fields(kind)]


def _part_field(part: str, key: str, kind: pa.DataType) -> _Column:
    part_of, value_of = attrgetter(part), attrgetter(key)

    def get(entry: IndexEntry) -> Any:
        info = entry.meta and part_of(entry.meta)
        return info and value_of(info)

    return _entry(key if key.startswith(part) else f"{part}_{key}", kind, get, nullable=True)


def _target_field(name: str, attribute: str, kind: pa.DataType, target: type) -> _Column:
    """Makes a column of a flat row: a field of targets of one type, null for other targets."""
    value_of = attrgetter(attribute)

    def get(entry: IndexEntry) -> Any:
        return value_of(entry.target) if isinstance(entry.target, target) else None

    return _entry(name, kind, get, nullable=True)


def _greptime_blob_size(entry: IndexEntry) -> int:
    """Returns the bytes of an index: for an inverted one those of its column, for others the blob's."""
    inverted = entry.meta and entry.meta.inverted
    size = inverted.inverted_index_size if inverted else entry.blob_size
    if size is None:
        raise InvalidInputError(
            f"the index of {entry.target_key!r} has no size, and a GreptimeDB row must have one: the entry "
            "is from a row that did not say, so read the file again",
            target_key=entry.target_key,
        )
    return size


_WORDS = {kind: kind.value for kind in IndexType}
_GREPTIME_WORDS = {kind: kind.greptime for kind in IndexType}
_STRING, _U64 = pa.string(), pa.uint64()
_ARROW_TYPES = {
    "int | None": _U64,
    "str | None": _STRING,
    "bool | None": pa.bool_(),
    "float | None": pa.float64(),
}
_TARGET_KEY = _entry("target_key", _STRING, attrgetter("target_key"))
_CORE = (
    _file("table_dir", _STRING),
    _file("region_id", _U64),
    _file("file_id", _STRING),
    _file("node_id", _U64, nullable=True),
    _entry("index_type", _STRING, lambda entry: _WORDS[entry.index_type]),
    _entry("target_type", _STRING, lambda entry: target_type(entry.target)),
    _TARGET_KEY,
    _entry("blob_size", _U64, attrgetter("blob_size"), nullable=True),
)

COMPACT = RowShape._of(
    "compact",
    *_CORE,
    _entry("target_json", _STRING, lambda entry: target_json(entry.target), nullable=True),
    _entry("meta_json", _STRING, lambda entry: meta_json(entry.index_type, entry.meta), nullable=True),
)
"""Compact rows: ten columns, two of them JSON."""

FLAT = RowShape._of(
    "flat",
    *_CORE,
    _entry(
        "target_columns", pa.list_(pa.uint32()), lambda entry: target_columns(entry.target), nullable=True
    ),
    _target_field("target_json_path", "pointer", _STRING, JsonPathTarget),
    _target_field("target_expr_hash", "expr_hash", _U64, ExpressionTarget),
    _target_field("target_expr", "expr", _STRING, ExpressionTarget),
    _entry("meta_schema_version", pa.uint32(), lambda _: META_SCHEMA_VERSION),
    *_parts("bloom", BloomInfo),
    *_parts("fulltext", FulltextInfo),
    *_parts("inverted", InvertedInfo),
)
"""Flat rows: compact rows with a column for each key of their JSON."""

GREPTIME = RowShape._of(
    "greptime",
    _file("table_dir", _STRING),
    _file("index_file_path", _STRING),
    _file("region_id", _U64),
    _file("table_id", pa.uint32()),
    _file("region_number", pa.uint32()),
    _file("region_group", pa.uint8()),
    _file("region_sequence", pa.uint32()),
    _file("file_id", _STRING),
    _file("index_file_size", _U64, nullable=True),
    _entry("index_type", _STRING, lambda entry: _GREPTIME_WORDS[entry.index_type]),
    _entry("target_type", _STRING, lambda entry: greptime_target(entry.target, entry.target_key)[0]),
    _TARGET_KEY,
    _entry("target_json", _STRING, lambda entry: greptime_target(entry.target, entry.target_key)[1]),
    _entry("blob_size", _U64, _greptime_blob_size),
    _entry("meta_json", _STRING, lambda entry: greptime_meta_json(entry.meta), nullable=True),
    _file("node_id", _U64, nullable=True),
)
"""GreptimeDB rows: the 16 columns of its ``information_schema.ssts_index_meta``."""

SHAPES: Mapping[str, RowShape] = {shape.name: shape for shape in (COMPACT, FLAT, GREPTIME)}
"""All shapes by name."""


def parse_row(row: Mapping[str, Any]) -> IndexEntry:
    """Returns the entry of a compact row, of this release, an older or a newer one.

    Missing columns and keys read as None; columns and JSON keys that this release does not know are
    ignored. JSON columns may be text, or values that an engine has parsed already.

    Raises:
        UnsupportedVersionError: the index is of a kind that this release does not know.
        FormatError: the row is no compact row.
    """
    word = _given(row, "index_type", str)
    try:
        index_type = IndexType(word)
    except ValueError as error:
        raise UnsupportedVersionError(
            f"index type {word!r} is unknown to this release: upgrade lakehouse to read such rows", got=word
        ) from error
    target_key = _given(row, "target_key", str)
    return IndexEntry(
        locator=IndexFileLocator(
            table_dir=_given(row, "table_dir", str),
            region_id=_given(row, "region_id", int),
            file_id=_given(row, "file_id", str),
            node_id=row.get("node_id"),
        ),
        index_type=index_type,
        target=parse_target(target_key, row.get("target_json")),
        target_key=target_key,
        blob_size=row.get("blob_size"),
        meta=parse_meta(row.get("meta_json")),
    )


_T = TypeVar("_T", str, int)


def _given(row: Mapping[str, Any], name: str, kind: type[_T]) -> _T:
    value = row.get(name)
    if not isinstance(value, kind):
        raise FormatError(
            f"column {name!r} of an index row is {value!r:.80}, expected {kind.__name__}: is it compact?",
            expected=kind.__name__,
            got=value,
        )
    return value
