"""Translation of an expression over rows into conditions on the targets of indexes, without any index.

An expression becomes a tree of conditions that is true wherever the expression is; parts that no
index can answer become :data:`lakehouse.index.search.tree.ANY_ROW`. So the tree is wider than the
expression, never narrower, and a search by it loses no row.

Negation could break this, since the negation of something wider is narrower. So only conditions
that are equal to the expression are negated, and they are negated on values, not on rows: ``a <> 1``
is a value below or above, ``a NOT IN (1, 5)`` a value between.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, evaluate, to_sql
from lakehouse.expr.nodes import And, Column, Compare, CompareOp, Constant, FunctionCall, In, IsNull, Not, Or
from lakehouse.format.fst import KeyRange
from lakehouse.format.index import (
    NULL_PART,
    AnyOf,
    Condition,
    InRange,
    IsNotNull,
    MatchesRegex,
    OneOf,
    encode_array,
    encode_set_part,
)
from lakehouse.format.index import IsNull as ValueIsNull
from lakehouse.format.schema import ColumnSetTarget, ColumnTarget, ExpressionTarget, JsonPathTarget
from lakehouse.index.search.algebra import NO_VALUE, all_conditions, any_conditions
from lakehouse.index.search.tree import ANY_ROW, NO_ROW, Every, Some, Tree, every, some

__all__ = ["ColumnTypes", "HasWords", "Holds", "conditions"]

ColumnTypes: TypeAlias = Mapping[str, tuple[int, pa.DataType]]
"""Id and type of each column, by name."""

_COMBINATIONS_MAX = 1024
"""Maximum number of values of a set of columns that are looked up."""
_GAPS_MAX = 64
"""Maximum number of values of a NOT IN that becomes ranges."""
_POINTER = re.compile(r"(/([^~/]|~[01])*)*")
_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")


@dataclass(frozen=True, slots=True)
class Holds:
    """Leaf of a tree: the target's value fulfils a condition."""

    target_key: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class HasWords:
    """Leaf of a tree: the target's text has all words of a query."""

    target_key: str
    terms: str


_Tree: TypeAlias = "Tree[Holds | HasWords]"


def conditions(
    expr: Expr,
    columns: ColumnTypes,
    *,
    expressions: Mapping[str, Mapping[str, int] | None] | None = None,
    sets: Collection[tuple[int, ...]] = (),
) -> _Tree:
    """Returns conditions that hold for every row for which the expression is true.

    Args:
        expr: an expression bound to the columns (:func:`lakehouse.expr.bind`).
        columns: ids and types of the columns, as the data file has them.
        expressions: target keys of indexed expressions, each with the ids of the columns its text
            names, or None where they are not known.
        sets: ids of columns that are indexed together.
    """
    return _Reader(columns, expressions or {}, sets).tree(expr)


@dataclass(frozen=True, slots=True)
class _Target:
    """Target of a condition: its key, and the type of its values."""

    key: str
    type: pa.DataType

    @property
    def is_text(self) -> bool:
        is_ = pa.types
        return bool(
            is_.is_string(self.type) or is_.is_large_string(self.type) or is_.is_string_view(self.type)
        )

    def encoded(self, values: Sequence[Any]) -> tuple[bytes, ...] | None:
        """Returns the values as an index has them; None where the type has no encoding."""
        try:
            return tuple(encode_array(pa.array(values, self.type)).to_pylist())
        except (InvalidInputError, pa.ArrowException, OverflowError, TypeError, ValueError):
            return None


class _Reader:
    """Turns an expression's nodes into conditions."""

    def __init__(
        self,
        columns: ColumnTypes,
        expressions: Mapping[str, Mapping[str, int] | None],
        sets: Collection[tuple[int, ...]],
    ) -> None:
        self._columns = columns
        self._types = {str(column_id): type_ for column_id, type_ in columns.values()}
        self._expressions = expressions
        self._sets = sets

    def tree(self, expr: Expr) -> _Tree:
        if isinstance(expr, And):
            return self._every(self.tree(arg) for arg in expr.args)
        if isinstance(expr, Or):
            return _some(self.tree(arg) for arg in expr.args)
        if isinstance(expr, Constant):
            truth = expr.value.as_py() if isinstance(expr.value, pa.Scalar) else expr.value
            return ANY_ROW if truth else NO_ROW  # null selects no row, as false does
        if isinstance(expr, Not):
            return self._not(expr.arg)
        if isinstance(expr, Compare):
            return self._compare(expr)
        if isinstance(expr, In):
            return self._in(expr)
        if isinstance(expr, IsNull):
            return self._about(expr.arg, ValueIsNull())
        if isinstance(expr, FunctionCall):
            # Indexes may be on the call's text, or on the call itself as an expression.
            return self._every([self._call(expr), self._is(expr, True)])
        return self._is(expr, True)

    def _not(self, expr: Expr) -> _Tree:
        if isinstance(expr, IsNull):
            return self._about(expr.arg, IsNotNull())
        if isinstance(expr, In):
            return self._not_in(expr)
        return self._is(expr, False)

    def _about(self, expr: Expr, condition: Condition) -> _Tree:
        target = self._target(expr)
        return ANY_ROW if target is None else Holds(target.key, condition)

    def _is(self, expr: Expr, truth: bool) -> _Tree:
        """Returns the condition that a boolean column or indexed expression has the value ``truth``."""
        target = self._target(expr)
        if target is None or not pa.types.is_boolean(target.type):
            return ANY_ROW
        values = target.encoded([truth])
        return ANY_ROW if values is None else Holds(target.key, OneOf(values=values))

    def _compare(self, expr: Compare) -> _Tree:
        target = self._target(expr.left)
        if target is None or not isinstance(expr.right, Constant):
            return ANY_ROW
        value = _exact(expr.right.value, target.type)
        encoded = None if value is None else target.encoded([value])
        if encoded is None:
            return ANY_ROW
        if expr.op == "<>":
            return _outside(target, encoded)
        return Holds(target.key, _compared(expr.op, encoded[0]))

    def _in(self, expr: In) -> _Tree:
        target = self._target(expr.arg)
        if target is None:
            return ANY_ROW
        known = [value for value in map(_plain, expr.values) if value is not None]
        values = [_exact(value, target.type) for value in known]
        encoded = None if any(value is None for value in values) else target.encoded(values)
        return ANY_ROW if encoded is None else _holds(target.key, OneOf(values=tuple(sorted(set(encoded)))))

    def _not_in(self, expr: In) -> _Tree:
        values = [_plain(value) for value in expr.values]
        if any(value is None for value in values):
            return NO_ROW  # comparison with null makes the whole null, or false, for every row
        target = self._target(expr.arg)
        exact = [] if target is None else [_exact(value, target.type) for value in values]
        if target is None or any(value is None for value in exact):
            return ANY_ROW
        return _outside(target, target.encoded(exact))

    def _call(self, expr: FunctionCall) -> _Tree:
        """Returns the condition of a function of a text and a constant text."""
        if len(expr.args) != 2 or not isinstance(expr.args[1], Constant):
            return ANY_ROW
        constant = _plain(expr.args[1].value)
        target = self._target(expr.args[0])
        if target is None or not isinstance(constant, str) or not target.is_text:
            return ANY_ROW
        if expr.name == "matches":
            return HasWords(target.key, constant)
        condition = _text_condition(expr.name, constant)
        return ANY_ROW if condition is None else Holds(target.key, condition)

    def _target(self, expr: Expr) -> _Target | None:
        """Returns the target whose indexes can answer conditions on a value; None when none can."""
        if isinstance(expr, Column):
            column = self._columns.get(expr.name)
            if column is None:
                return None
            return _Target(ColumnTarget(column_id=column[0]).key, _value_type(column[1]))
        match expr:
            case FunctionCall("json_extract_string", (Column(name), Constant(str() as pointer))):
                column = self._columns.get(name)
                if column is None or not _POINTER.fullmatch(pointer):
                    return None
                return _Target(JsonPathTarget(column_id=column[0], pointer=pointer).key, pa.large_string())
        if not self._expressions or isinstance(expr, Constant):
            return None
        key = ExpressionTarget.of(to_sql(expr)).key
        if key not in self._expressions or not self._same_columns(expr, self._expressions[key]):
            return None
        schema = pa.schema([(name, type_) for name, (_, type_) in self._columns.items()])
        return _Target(key, _value_type(evaluate(expr, schema.empty_table()).type))

    def _same_columns(self, expr: Expr, noted: Mapping[str, int] | None) -> bool:
        """Returns whether the names in the expression mean the same columns as when it was indexed."""
        if noted is None:
            return True
        return all(
            name in self._columns and self._columns[name][0] == noted.get(name) for name in expr.columns()
        )

    def _every(self, parts: Iterable[_Tree]) -> _Tree:
        both: _Tree = every(parts)
        if not isinstance(both, Every):
            return both
        merged, others = _merged(both.parts, all_conditions)
        looked_up = [self._of_set(ids, merged) for ids in self._sets]
        holds = [_holds(key, condition) for key, condition in merged.items()]
        return every([*holds, *others, *(leaf for leaf in looked_up if leaf is not None)])

    def _of_set(self, ids: tuple[int, ...], merged: Mapping[str, Condition]) -> Holds | None:
        """Returns the condition on a set of columns, if every column is compared with values; else None."""
        parts: list[list[bytes]] = []
        for key in map(str, ids):
            condition = merged.get(key)
            if isinstance(condition, ValueIsNull):
                parts.append([NULL_PART])
            elif isinstance(condition, OneOf):
                type_ = _value_type(self._types[key])
                parts.append([encode_set_part(value, type_) for value in condition.values])
            else:
                return None
        count = 1
        for part in parts:
            count *= len(part)
        if count > _COMBINATIONS_MAX:  # the conditions on the single columns still hold
            return None
        values = tuple(map(b"".join, itertools.product(*parts)))
        return Holds(ColumnSetTarget(column_ids=ids).key, OneOf(values=values))


def _some(parts: Iterable[_Tree]) -> _Tree:
    either: _Tree = some(parts)
    if not isinstance(either, Some):
        return either
    merged, others = _merged(either.parts, any_conditions)
    return some([*(Holds(key, condition) for key, condition in merged.items()), *others])


def _merged(parts: Sequence[_Tree], combine: Any) -> tuple[dict[str, Condition], list[_Tree]]:
    """Returns the conditions on each target combined into one, and the parts that are no such conditions."""
    by_key: dict[str, list[Condition]] = {}
    others: list[_Tree] = []
    for part in parts:
        if isinstance(part, Holds):
            by_key.setdefault(part.target_key, []).append(part.condition)
        else:
            others.append(part)
    return {key: combine(parts_of_key) for key, parts_of_key in by_key.items()}, others


def _holds(key: str, condition: Condition) -> _Tree:
    return NO_ROW if condition == NO_VALUE else Holds(key, condition)


def _outside(target: _Target, encoded: tuple[bytes, ...] | None) -> _Tree:
    """Returns the condition that the value is none of these: that it lies in a gap between them."""
    # 0 and -0 have one encoding, and all NaNs have one, while comparisons of floats may tell them apart.
    if encoded is None or len(encoded) > _GAPS_MAX or pa.types.is_floating(target.type):
        return ANY_ROW
    edges = sorted(set(encoded))
    lows = [KeyRange(), *(KeyRange(low=edge, low_closed=False) for edge in edges)]
    highs: list[bytes | None] = [*edges, None]
    gaps = [
        InRange(keys=KeyRange(low=low.low, low_closed=low.low_closed, high=high, high_closed=False))
        for low, high in zip(lows, highs, strict=True)
    ]
    return Holds(target.key, AnyOf(conditions=tuple(gaps)))


def _compared(op: CompareOp, value: bytes) -> Condition:
    if op == "=":
        return OneOf(values=(value,))
    closed = op in ("<=", ">=")
    if op in ("<", "<="):
        return InRange(keys=KeyRange(high=value, high_closed=closed))
    return InRange(keys=KeyRange(low=value, low_closed=closed))


def _text_condition(function: str, constant: str) -> Condition | None:
    """Returns the condition on a text under which a text function is true; None for other functions."""
    if function == "starts_with":
        return _begins(constant)
    if function == "ends_with":
        return MatchesRegex(pattern=rf"{_quoted(constant)}\z")
    if function == "contains":
        return MatchesRegex(pattern=_quoted(constant))
    if function == "regexp_matches":
        return MatchesRegex(pattern=constant)
    return _like(constant) if function == "like" else None


def _like(pattern: str) -> Condition:
    """Returns the condition of SQL's LIKE, up to a backslash: engines differ on whether it escapes."""
    plain = re.split(r"[%_\\]", pattern, maxsplit=1)[0]
    rest = pattern[len(plain) :]
    if not rest:
        return OneOf(values=(plain.encode(),))
    if "\\" in rest or not rest.strip("%"):
        return _begins(plain)
    parts = ("(?s:.*)" if char == "%" else "(?s:.)" if char == "_" else _quoted(char) for char in rest)
    return MatchesRegex(pattern=_quoted(plain) + "".join(parts), whole=True)


def _begins(prefix: str) -> Condition:
    return InRange(keys=KeyRange.with_prefix(prefix.encode())) if prefix else IsNotNull()


def _quoted(text: str) -> str:
    """Escapes a text to a pattern that matches this text alone."""
    return _SPECIAL.sub(r"\\\1", text)


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _plain(value: Any) -> Any:
    """Converts a scalar of a dictionary, or null, to a Python value; returns other values unchanged."""
    if isinstance(value, pa.Scalar) and (not value.is_valid or pa.types.is_dictionary(value.type)):
        return value.as_py()
    return value


def _exact(value: Any, type_: pa.DataType) -> Any:
    """Returns the constant as a value of the type; None if no value of the type equals it."""
    value = _plain(value)
    if isinstance(value, pa.Scalar):
        return value if value.type == type_ else None
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if isinstance(value, str) or not any(is_number(type_) for is_number in numbers):
        return value if isinstance(value, str) and _Target("", type_).is_text else None
    try:
        scalar = pa.scalar(value)
        fitted = scalar.cast(type_)
        return fitted if fitted.cast(scalar.type).equals(scalar) else None
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
