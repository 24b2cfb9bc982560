"""Conditions on whole partitions: whether a partition matches, told without reading a row."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.expr import Expr, matching
from lakehouse.format.keys import decode_value
from lakehouse.format.schema import TableSchema, arrow_field
from lakehouse.storage.scan.conditions import bind_where

__all__ = ["partition_test"]


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
