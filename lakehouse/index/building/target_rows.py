"""Values of an index's target, computed from rows, and the blob properties of expressions.

The text of an indexed expression names columns, and names change: a table may rename ``host`` and
add another ``host``. So a property beside the text has the column id of each name, which a search
compares. In the blob of all inverted indexes, which has one set of properties for all targets, the
target key is added to the names of the properties.

Invariant: the values of a row depend on that row alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.expr import Expr, evaluate, parse_where
from lakehouse.expr.column_names import parts_of
from lakehouse.expr.evaluate import column_of
from lakehouse.expr.json_path import json_texts
from lakehouse.format.index import encode_array, encode_column_set
from lakehouse.format.schema import (
    DECIMAL_DIGITS_MAX,
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    encode_target_key,
    target_properties,
)

__all__ = [
    "TARGET_COLUMNS",
    "TargetRows",
    "expression_columns",
    "expression_properties",
    "wide_type",
    "widened",
]

TARGET_COLUMNS = "target_columns"
"""Blob property beside ``target_expr``: JSON object with the id of each column that the text names."""


class TargetRows:
    """Computes the values of one target from batches.

    Args:
        target: the target of the index.
        names: for each column id its name in the batches; a dot leads into structs.
        wide: True encodes numbers in the widest type to which their type can be widened.
    """

    __slots__ = ("_expr", "_names", "_target", "_wide")

    def __init__(self, target: IndexTarget, names: Mapping[int, str], *, wide: bool = False) -> None:
        encode_target_key(target)
        self._wide = wide
        self._target = target
        self._names = names
        self._expr: Expr | None = None
        if isinstance(target, ExpressionTarget):
            if target.expr is None:
                raise InvalidInputError(
                    f"of the expression {target.key} only the hash is known: make the target with "
                    "ExpressionTarget.of(text)"
                )
            self._expr = parse_where(target.expr)
            for name in sorted(self._expr.columns()):
                self._id(name)
        else:
            ids = target.column_ids if isinstance(target, ColumnSetTarget) else (target.column_id,)
            for column_id in ids:
                self._name(column_id)

    @property
    def properties(self) -> dict[str, str]:
        """Properties of a blob of this target alone."""
        if self._expr is None:
            return {}
        ids = {name: self._id(name) for name in sorted(self._expr.columns())}
        return {
            **target_properties(self._target),
            TARGET_COLUMNS: json.dumps(ids, separators=(",", ":"), ensure_ascii=False),
        }

    def encoded(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns the encoded values, as bloom and inverted indexes hold them."""
        if isinstance(self._target, ColumnSetTarget):
            columns = [self._column(batch, column_id) for column_id in self._target.column_ids]
            return encode_column_set([widened(column) for column in columns] if self._wide else columns)
        values = self._values(batch)
        return encode_array(widened(values) if self._wide else values)

    def texts(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns the values as text, for fulltext indexes."""
        if isinstance(self._target, ColumnSetTarget):
            raise InvalidInputError(f"a set of columns ({self._target.key}) has no text to be indexed")
        return pc.cast(self._values(batch), pa.large_string())

    def _values(self, batch: pa.RecordBatch) -> pa.Array:
        if self._expr is not None:
            values = evaluate(self._expr, batch)
            return pa.repeat(values, batch.num_rows) if isinstance(values, pa.Scalar) else values
        if isinstance(self._target, ColumnTarget):
            return self._column(batch, self._target.column_id)
        assert not isinstance(self._target, ColumnSetTarget | ExpressionTarget)
        return json_texts(self._column(batch, self._target.column_id), self._target.pointer)

    def _column(self, batch: pa.RecordBatch, column_id: int) -> pa.Array:
        return column_of(batch, self._name(column_id))

    def _name(self, column_id: int) -> str:
        name = self._names.get(column_id)
        if name is None:
            raise InvalidInputError(
                f"target {self._target.key} is about column {column_id}, which has no name here: give the "
                "names of all indexed columns",
                column_id=column_id,
            )
        return name

    def _id(self, name: str) -> int:
        for column_id, known in self._names.items():
            if known in (name, ".".join(parts_of(name))):
                return column_id
        raise InvalidInputError(
            f"target {self._target.key} reads column {name!r}, which has no id here: give the names of all "
            "indexed columns",
            column=name,
        )


def widened(values: pa.Array) -> pa.Array:
    """Returns the values cast to :func:`wide_type` of their type."""
    wide = wide_type(values.type)
    return values if wide == values.type else pc.cast(values, wide)


def wide_type(kind: pa.DataType) -> pa.DataType:
    """Returns the widest type to which a column's type can be widened, so that widening changes no index."""
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal128(kind):
        return pa.decimal128(DECIMAL_DIGITS_MAX, kind.scale)
    return kind


def expression_properties(rows_by_key: Mapping[str, TargetRows]) -> dict[str, str]:
    """Returns the properties of a blob of several targets: those of each expression, under its key."""
    return {
        f"{name}.{key}": value for key, rows in rows_by_key.items() for name, value in rows.properties.items()
    }


def expression_columns(key: str, properties: Mapping[str, str]) -> Mapping[str, int] | None:
    """Returns the ids of the columns that an indexed expression names; None if the blob lacks them."""
    text = properties.get(TARGET_COLUMNS, properties.get(f"{TARGET_COLUMNS}.{key}"))
    if text is None:
        return None
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _columns_error(key, text) from error
    if not isinstance(ids, dict) or not all(type(value) is int for value in ids.values()):
        raise _columns_error(key, text)
    return ids


def _columns_error(key: str, text: str) -> CorruptionError:
    return CorruptionError(
        f"property {TARGET_COLUMNS} of target {key!r} is no JSON object of column ids: {text:.200}",
        target_key=key,
        got=text[:200],
    )
