"""JSON columns of rows of index metadata: written fast, and read whatever keys they lack.

There are two dialects. That of compact rows is ours: any target, lower-case analyzers, the configuration
of fulltext indexes in full, and ``meta_schema_version`` beside the parts. GreptimeDB's dialect knows
columns only. Keys are in alphabetical order in both, so equal metadata is equal text.

Invariant: everything written reads back unchanged; a missing key reads as None and an unknown key is
ignored, so rows of older and of newer releases can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from lakehouse.errors import FormatError
from lakehouse.format.schema import (
    TARGET_EXPR,
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    JsonPathTarget,
    decode_column_target,
    decode_target_key,
)
from lakehouse.index.models import (
    BloomInfo,
    FulltextInfo,
    IndexType,
    InvertedInfo,
    MetaInfo,
)

__all__ = [
    "META_SCHEMA_VERSION",
    "greptime_meta_json",
    "greptime_target",
    "meta_json",
    "parse_meta",
    "parse_target",
    "target_columns",
    "target_json",
    "target_type",
]

META_SCHEMA_VERSION = 1
"""Version of the schema of ``meta_json``, which is in every compact row."""
_TARGET_UNKNOWN = '{"error":"failed_to_decode"}'
"""``target_json`` of a key that could not be decoded."""
_TARGET_TYPES: Mapping[type, str] = {
    ColumnTarget: "column",
    ColumnSetTarget: "columns",
    JsonPathTarget: "json_path",
    ExpressionTarget: "expression",
    type(None): "unknown",
}
_BLOOM = '"bloom":{"bloom_filter_size":%s,"row_count":%s,"rows_per_segment":%s,"segment_count":%s}'
_INVERTED = (
    '"inverted":{"base_offset":%s,"bitmap_type":%s,"fst_size":%s,"inverted_index_size":%s,'
    '"null_bitmap_size":%s,"relative_fst_offset":%s,"relative_null_bitmap_offset":%s,'
    '"segment_row_count":%s,"total_row_count":%s}'
)
_FULLTEXT_BLOOM = (
    '"fulltext":{"analyzer":%s,"case_sensitive":%s,"false_positive_rate":%s,"granularity":%s,"raw_config":%s}'
)
_FULLTEXT_TANTIVY = '"fulltext":{"analyzer":%s,"case_sensitive":%s,"raw_config":%s}'
_GREPTIME_FULLTEXT = '"fulltext":{"analyzer":"%s","case_sensitive":%s}'
_value: Callable[[object], str] = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def target_type(target: IndexTarget | None) -> str:
    """Returns the type of a target: ``column``, ``columns``, ``json_path``, ``expression`` or ``unknown``."""
    return _TARGET_TYPES[type(target)]


def target_columns(target: IndexTarget | None) -> tuple[int, ...] | None:
    """Returns the ids of the columns that a target names, ascending; None when it names none."""
    if isinstance(target, ColumnTarget | JsonPathTarget):
        return (target.column_id,)
    return target.column_ids if isinstance(target, ColumnSetTarget) else None


def target_json(target: IndexTarget | None) -> str:
    """Writes ``target_json`` of a compact row."""
    match target:
        case ColumnTarget():
            return f'{{"columns":[{target.column_id}]}}'
        case ColumnSetTarget():
            return f'{{"columns":[{",".join(map(str, target.column_ids))}]}}'
        case JsonPathTarget():
            return f'{{"column":{target.column_id},"json_path":{_value(target.pointer)}}}'
        case ExpressionTarget():
            expr = "" if target.expr is None else f'"expr":{_value(target.expr)},'
            return f'{{{expr}"expr_hash":{target.expr_hash}}}'
    return _TARGET_UNKNOWN


def greptime_target(target: IndexTarget | None, target_key: str) -> tuple[str, str]:
    """Writes ``target_type`` and ``target_json`` of a GreptimeDB row, which knows columns only."""
    if target is None:
        # GreptimeDB does not limit the length of keys, so it may decode a column's key that we refuse.
        try:
            target = decode_column_target(target_key)
        except FormatError:
            return "unknown", _TARGET_UNKNOWN
    if isinstance(target, ColumnTarget):
        return "column", f'{{"column":{target.column_id}}}'
    return "unknown", _TARGET_UNKNOWN


def meta_json(index_type: IndexType, meta: MetaInfo | None) -> str | None:
    """Writes ``meta_json`` of a compact row."""
    if meta is None:
        return None
    parts = _parts(meta)
    if (info := meta.fulltext) is not None:
        analyzer, sensitive, raw = map(_value, (info.analyzer, info.case_sensitive, info.raw_config))
        if index_type is IndexType.FULLTEXT_TANTIVY:
            text = _FULLTEXT_TANTIVY % (analyzer, sensitive, raw)
        else:
            rate, granularity = map(_value, (info.false_positive_rate, info.granularity))
            text = _FULLTEXT_BLOOM % (analyzer, sensitive, rate, granularity, raw)
        parts.append(text)
    return f'{{{"".join(f"{part}," for part in parts)}"meta_schema_version":{META_SCHEMA_VERSION}}}'


def greptime_meta_json(meta: MetaInfo | None) -> str | None:
    """Writes ``meta_json`` of a GreptimeDB row."""
    if meta is None:
        return None
    parts = _parts(meta)
    if (info := meta.fulltext) is not None:
        analyzer = "Chinese" if info.analyzer == "chinese" else "English"
        parts.append(_GREPTIME_FULLTEXT % (analyzer, "true" if info.case_sensitive else "false"))
    return f"{{{','.join(parts)}}}" if parts else None


def _parts(meta: MetaInfo) -> list[str]:
    """Writes the parts that are the same in both dialects."""
    parts = []
    if (bloom := meta.bloom) is not None:
        numbers = (bloom.bloom_filter_size, bloom.row_count, bloom.rows_per_segment, bloom.segment_count)
        parts.append(_BLOOM % _or_null(numbers))
    if (info := meta.inverted) is not None:
        values = (
            info.base_offset,
            _value(info.bitmap_type),
            info.fst_size,
            info.inverted_index_size,
            info.null_bitmap_size,
            info.relative_fst_offset,
            info.relative_null_bitmap_offset,
            info.segment_row_count,
            info.total_row_count,
        )
        parts.append(_INVERTED % _or_null(values))
    return parts


def _or_null(values: tuple[object, ...]) -> tuple[object, ...]:
    if None in values:
        return tuple("null" if value is None else value for value in values)
    return values


def parse_target(target_key: str, document: object) -> IndexTarget | None:
    """Returns the target of a row's key, with the text of an expression from ``target_json``."""
    expr = None if document is None else _json_object(document, "target_json").get("expr")
    try:
        return decode_target_key(target_key, {TARGET_EXPR: expr} if isinstance(expr, str) else None)
    except FormatError:
        return None


def parse_meta(document: object) -> MetaInfo | None:
    """Reads the metadata in ``meta_json`` of a row, text or parsed; None when there are none."""
    if document is None:
        return None
    table = _json_object(document, "meta_json")
    meta = MetaInfo(
        bloom=_part(BloomInfo, table, "bloom"),
        fulltext=_part(FulltextInfo, table, "fulltext"),
        inverted=_part(InvertedInfo, table, "inverted"),
    )
    return None if meta == MetaInfo() else meta


_Part = TypeVar("_Part", BloomInfo, FulltextInfo, InvertedInfo)
_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "int | None": (int,),
    "str | None": (str,),
    "bool | None": (bool,),
    "float | None": (int, float),
}


def _part(kind: type[_Part], document: Mapping[str, Any], name: str) -> _Part | None:
    if document.get(name) is None:
        return None
    table = _json_object(document[name], f"{name!r} of meta_json")
    values = {}
    for field in fields(kind):
        value = values[field.name] = table.get(field.name)
        # By type() and not isinstance(): JSON tells booleans from numbers, Python does not.
        if value is not None and type(value) not in _JSON_TYPES[str(field.type)]:
            raise FormatError(f"{field.name!r} in {name!r} of meta_json is {value!r:.80}", got=value)
    return kind(**values)


def _json_object(document: object, where: str) -> Mapping[str, Any]:
    """Returns the JSON object in a column; engines with a JSON type return it parsed already."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{where} is not JSON: {error}", got=document) from error
    if not isinstance(document, Mapping):
        raise FormatError(f"{where} is no JSON object but {document!r:.80}", got=document)
    return document
