"""Schemas of tables: columns and their types, options, rules of merging, definitions of indexes.

Words: *schema* → *field* (a column, or a part of one, with an id that stays) → *type*. An *option* is a
setting of one table. An *engine* says what becomes of the rows of a key, a *rule* what becomes of one
column. A *definition* says what is indexed and how; its *target* is what the index is about. A *schema
object* is how all of that stands in the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.schema.column_path import column_steps, new_name, new_steps, refuse_ambiguous
    from lakehouse.format.schema.index_defaults import FALSE_POSITIVE_RATE, SEGMENT_ROW_COUNT
    from lakehouse.format.schema.index_definition import (
        Backend,
        IndexDefinition,
        IndexKind,
        NamedColumns,
        by_id,
        by_ids,
        check_beside,
        column_name,
        columns_of,
        parse_index,
        parse_indexes,
        parse_target,
        target_of,
        target_text,
    )
    from lakehouse.format.schema.merge_option_names import check_rules_kept, options_renamed, options_without
    from lakehouse.format.schema.merge_rules import Aggregate, ColumnRule, Engine
    from lakehouse.format.schema.nested import assembled, list_offsets, null_array, parts
    from lakehouse.format.schema.projection import check_types, constant_column, project, with_field_ids
    from lakehouse.format.schema.schema_object import SchemaObject, decode_schema, encode_schema
    from lakehouse.format.schema.table_options import TableOptions, option_texts
    from lakehouse.format.schema.table_schema import (
        BUCKETS_MAX,
        TableSchema,
        check_options,
        check_schema,
        schema_from_arrow,
    )
    from lakehouse.format.schema.target_key import (
        TARGET_EXPR,
        ColumnSetTarget,
        ColumnTarget,
        ExpressionTarget,
        IndexTarget,
        JsonPathTarget,
        decode_column_target,
        decode_target_key,
        encode_target_key,
        expression_text,
        target_properties,
    )
    from lakehouse.format.schema.type_check import ColumnType, column_type
    from lakehouse.format.schema.type_notation import from_arrow, parse_type, type_text
    from lakehouse.format.schema.types import (
        DECIMAL_DIGITS_MAX,
        KIND_FIELD,
        PRIMITIVES,
        SEQUENCE_FIELD,
        BinaryType,
        DataType,
        DecimalType,
        Field,
        ListType,
        MapType,
        Primitive,
        StringType,
        StructType,
        arrow_field,
        arrow_schema,
        arrow_type,
        children,
        walk,
        with_children,
        with_ids,
    )

__all__ = [
    "BUCKETS_MAX", "DECIMAL_DIGITS_MAX", "FALSE_POSITIVE_RATE", "KIND_FIELD", "PRIMITIVES",
    "SEGMENT_ROW_COUNT", "SEQUENCE_FIELD", "TARGET_EXPR", "Aggregate", "Backend", "BinaryType",
    "ColumnRule", "ColumnSetTarget", "ColumnTarget", "ColumnType", "DataType", "DecimalType", "Engine",
    "ExpressionTarget", "Field", "IndexDefinition", "IndexKind", "IndexTarget", "JsonPathTarget",
    "ListType", "MapType", "NamedColumns", "Primitive", "SchemaObject", "StringType", "StructType",
    "TableOptions", "TableSchema", "arrow_field", "arrow_schema", "arrow_type", "assembled", "by_id",
    "by_ids", "check_beside", "check_options", "check_rules_kept", "check_schema", "check_types", "children",
    "column_name", "column_steps", "column_type", "columns_of", "constant_column", "decode_column_target",
    "decode_schema", "decode_target_key", "encode_schema", "encode_target_key", "expression_text",
    "from_arrow", "list_offsets", "new_name", "new_steps", "null_array", "option_texts",
    "options_renamed", "options_without", "parse_index", "parse_indexes", "parse_target", "parse_type",
    "parts", "project", "refuse_ambiguous", "schema_from_arrow", "target_of", "target_properties",
    "target_text", "type_text", "walk", "with_children", "with_field_ids", "with_ids",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "column_path": "column_steps new_name new_steps refuse_ambiguous",
        "index_defaults": "FALSE_POSITIVE_RATE SEGMENT_ROW_COUNT",
        "index_definition": (
            "Backend IndexDefinition IndexKind NamedColumns by_id by_ids check_beside column_name "
            "columns_of parse_index parse_indexes parse_target target_of target_text"
        ),
        "merge_option_names": "check_rules_kept options_renamed options_without",
        "merge_rules": "Aggregate ColumnRule Engine",
        "nested": "assembled list_offsets null_array parts",
        "projection": "check_types constant_column project with_field_ids",
        "schema_object": "SchemaObject decode_schema encode_schema",
        "table_options": "TableOptions option_texts",
        "table_schema": "BUCKETS_MAX TableSchema check_options check_schema schema_from_arrow",
        "target_key": (
            "TARGET_EXPR ColumnSetTarget ColumnTarget ExpressionTarget IndexTarget JsonPathTarget "
            "decode_column_target decode_target_key encode_target_key expression_text "
            "target_properties"
        ),
        "type_check": "ColumnType column_type",
        "type_notation": "from_arrow parse_type type_text",
        "types": (
            "DECIMAL_DIGITS_MAX KIND_FIELD PRIMITIVES SEQUENCE_FIELD BinaryType DataType DecimalType "
            "Field ListType MapType Primitive StringType StructType arrow_field arrow_schema "
            "arrow_type children walk with_children with_ids"
        ),
    },
)
