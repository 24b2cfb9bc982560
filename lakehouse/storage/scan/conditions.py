"""Conditions fitted to a table: bound to its columns, and to the tokenizers of its fulltext indexes.

``matches(message, 'disk full')`` cuts texts and query into words, in the way of the fulltext index
on ``message`` (English, in any case, where there is none); so rows that are compared one
by one and rows that an index finds are the same.

A condition on partition columns alone selects whole partitions, which is told without reading a row.

Invariant: the meaning of a condition follows from the schema of the snapshot alone, not from which files
have indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, bind, matching, to_sql
from lakehouse.expr.nodes import Applied, Constant, FunctionCall
from lakehouse.expr.rewrite import rewritten
from lakehouse.format.keys import decode_value
from lakehouse.format.schema import IndexKind, TableSchema, arrow_field, by_ids, columns_of, target_of
from lakehouse.format.text import FulltextConfig, matches

__all__ = ["bind_where", "partition_test"]

_MATCHES = "matches"


def bind_where(where: Expr, schema: TableSchema) -> Expr:
    """Binds a condition, so that it can be evaluated over rows of the schema.

    Raises:
        InvalidInputError: it does not fit the columns.
    """
    bound = bind(where, schema.arrow())
    if not any(isinstance(node, FunctionCall) and node.name == _MATCHES for node in bound.walk()):
        return bound
    ids = {name: field.id for name, field in columns_of(schema.fields).items()}
    known = {index.target.key: index.words for index in schema.indexes if index.kind is IndexKind.FULLTEXT}

    def computed(node: Expr) -> Expr:
        if not isinstance(node, FunctionCall) or node.name != _MATCHES:
            return node
        text, terms = node.args
        if not isinstance(terms, Constant) or not isinstance(terms.value, str):
            raise InvalidInputError(f"{to_sql(node)}: the words to look for must be a constant text")
        key = target_of(by_ids(text, ids)).key if text.columns() else ""
        return Applied(node, _words(node, terms.value, known.get(key, FulltextConfig())))

    return rewritten(bound, computed)


def _words(node: FunctionCall, terms: str, config: FulltextConfig) -> Callable[[Any], Any]:
    def compute(texts: Any) -> Any:
        if isinstance(texts, pa.Scalar):
            return compute(pa.array([texts.as_py()], texts.type))[0]
        if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
            raise InvalidInputError(f"{to_sql(node)}: words are looked for in text, and this is {texts.type}")
        return matches(texts, terms, config)

    return compute


def partition_test(where: Expr, schema: TableSchema):  # type: ignore[no-untyped-def]
    """Returns a test of partitions, for a condition that selects whole partitions; else None.

    Files of a partition may be removed unread only where they cannot hide rows of another.
    """
    bound = bind_where(where, schema)
    names = bound.columns()
    independent = schema.key_holds_partition or not schema.primary_key
    if not names or not names <= set(schema.partition_by) or not independent:
        return None
    fields = schema.partition_fields
    arrow = pa.schema([arrow_field(one) for one in fields])

    def holds(partition: tuple[bytes, ...]) -> bool:
        values = {
            one.name: decode_value(value, one.type) for one, value in zip(fields, partition, strict=True)
        }
        row = pa.Table.from_pylist([values], arrow)
        return bool(matching(bound, row)[0].as_py())

    return holds
