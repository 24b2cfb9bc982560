"""What bounds of columns say of a condition: that no row can match, that every row does, or neither.

Of each part of the condition it is worked out which outcomes rows can have: true, false, null, any
set of these. Sets are put together by SQL's three-valued logic. What is not understood (functions,
columns compared with columns) can have every outcome.

Invariant: sound, never clever. A set holds every outcome that some row has, so NONE is never said
when a row matches, nor ALL when one does not. That holds for NaN whether it is taken as above
every number and equal to itself, as DuckDB has it, or as unlike everything, as IEEE 754 does.

Bounds need not be values that occur: they may be cut or rounded outwards.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lakehouse.expr.evaluate import evaluate
from lakehouse.expr.nodes import (
    And,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expr,
    FunctionCall,
    In,
    IsNull,
    Not,
    Or,
    swapped_op,
)

__all__ = ["ColumnBounds", "Judge", "Verdict", "judge", "like_prefix", "plain_value"]


class Verdict(enum.Enum):
    """How many rows may match."""

    NONE = "none"
    """No row matches."""
    SOME = "some"
    """Not known."""
    ALL = "all"
    """Every row matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """What is known of the values of a column."""

    low: Any = None
    """Not above any value; None = not known, or there is none."""
    high: Any = None
    """Not below any value."""
    nulls: int | None = None
    """Rows without a value; None = not known."""
    rows: int
    """Rows there are, at most."""


_Bounds: TypeAlias = Mapping[str, ColumnBounds]
"""By column name; of a column that is missing nothing is known."""
_Outcomes: TypeAlias = Callable[[_Bounds], int]

_TRUE, _FALSE, _NULL = 1, 2, 4
_ANY = _TRUE | _FALSE | _NULL


def _kleene(decisive: int, other: int) -> list[list[int]]:
    """Outcomes of two parts together, where one outcome decides and the other gives way to the rest."""

    def together(one: int, two: int) -> int:
        return decisive if decisive in (one, two) else _NULL if _NULL in (one, two) else other

    def of_sets(left: int, right: int) -> int:
        found = 0
        for one in (_TRUE, _FALSE, _NULL):
            for two in (_TRUE, _FALSE, _NULL):
                if one & left and two & right:
                    found |= together(one, two)
        return found

    return [[of_sets(left, right) for right in range(8)] for left in range(8)]


_AND = _kleene(_FALSE, _TRUE)
_OR = _kleene(_TRUE, _FALSE)
_NOT = [(found & _TRUE) << 1 | (found & _FALSE) >> 1 | found & _NULL for found in range(8)]
_VERDICTS = [
    Verdict.ALL if found == _TRUE else Verdict.SOME if found & _TRUE else Verdict.NONE for found in range(8)
]
_NULL_TEST = [
    (_TRUE if found & _NULL else 0) | (_FALSE if found & (_TRUE | _FALSE) else 0) for found in range(8)
]


def judge(expr: Expr, bounds: Mapping[str, ColumnBounds]) -> Verdict:
    """How many rows may match, given what is known of their columns as Python values.

    Args:
        expr: a condition, bound to the schema (:func:`lakehouse.expr.bind`).
        bounds: by column name.
    """
    return Judge(expr)(bounds)


def plain_value(constant: object) -> Any:
    """A constant of a bound condition as a Python value."""
    return constant.as_py() if isinstance(constant, pa.Scalar) else constant


class Judge:
    """A condition made ready to judge the bounds of many files.

    Args:
        expr: a condition, bound to the schema.
        encode: from a column's name and a constant it is compared with to what its bounds are
            compared with; None = bounds are Python values. Text and bytes must be encoded so that a
            prefix stays one. NaN as a bound must be given as None, which it is among Python values.
    """

    __slots__ = ("_encode", "_outcomes")

    def __init__(self, expr: Expr, encode: Callable[[str, Any], Any] | None = None) -> None:
        self._encode = encode or (lambda _, value: plain_value(value))
        self._outcomes = self._compiled(expr)

    def __call__(self, bounds: Mapping[str, ColumnBounds]) -> Verdict:
        """How many rows may match."""
        return _VERDICTS[self._outcomes(bounds)]

    def _compiled(self, expr: Expr) -> _Outcomes:
        match expr:
            case And(args) | Or(args):
                table = _AND if isinstance(expr, And) else _OR
                return _combined([self._compiled(arg) for arg in args], table)
            case Not(arg):
                inner = self._compiled(arg)
                return lambda bounds: _NOT[inner(bounds)]
            case IsNull(Column(name)):
                return _null_test(name)
            case IsNull(Compare() | In() | And() | Or() | Not() | IsNull() as arg):
                inner = self._compiled(arg)
                return lambda bounds: _NULL_TEST[inner(bounds)]
            case Constant() | Compare(_, Constant(), Constant()):
                outcome = _constant_outcome(expr)
                return lambda _: outcome
            case Column(name):
                return self._compared("=", name, True)
            case Compare(op, Column(name), Constant(value)):
                return self._compared(op, name, value)
            case Compare(op, Constant(value), Column(name)):
                return self._compared(swapped_op(op), name, value)
            case In(Column(name), values):
                return self._among(name, values)
            case FunctionCall("starts_with", (Column(name), Constant(str() as prefix))):
                return self._beginning(name, prefix, exact=True)
            case FunctionCall("like", (Column(name), Constant(str() as pattern))):
                prefix, rest = like_prefix(pattern)
                return self._beginning(name, prefix, exact=rest == "%")
        return _anything

    def _compared(self, op: CompareOp, name: str, constant: object) -> _Outcomes:
        value = plain_value(constant)
        if value is None:
            return lambda _: _NULL
        if value != value:
            return _of_values(name, lambda low, high: _TRUE | _FALSE)
        key = self._encode(name, constant)
        if op in ("=", "<>"):
            hit, miss = (_TRUE, _FALSE) if op == "=" else (_FALSE, _TRUE)
            return _of_values(name, lambda low, high: _equal_outcomes(low, high, key, hit, miss))
        upward = op in ("<", "<=")
        below, above = (_TRUE, _FALSE) if upward else (_FALSE, _TRUE)
        # What is below the key, or the key too: so the outcome of the key itself is said once.
        closed = op in ("<=", ">")
        nan_outcome = _FALSE if isinstance(value, float) else 0

        def outcomes(low: Any, high: Any) -> int:
            found = 0
            if low is None or low < key or (closed and low == key):
                found |= below
            if high is None or high > key or (not closed and high == key):
                found |= above
            # A NaN is above every number or compares as false, and is there only without a high bound.
            return found | nan_outcome if high is None else found

        return _of_values(name, outcomes)

    def _among(self, name: str, constants: tuple[Any, ...]) -> _Outcomes:
        values = [plain_value(constant) for constant in constants]
        keys = sorted(
            self._encode(name, constant)
            for constant, value in zip(constants, values, strict=True)
            if value is not None and value == value
        )
        # Of floats 0.0 and -0.0, or NaNs, may count as one value or as two.
        vague = any(isinstance(value, float) for value in values)
        with_nan = any(value != value for value in values)
        miss = _NULL if None in values else _FALSE

        def outcomes(low: Any, high: Any) -> int:
            at = 0 if low is None else bisect.bisect_left(keys, low)
            hit = at < len(keys) and (high is None or keys[at] <= high)
            if hit and low is not None and low == high and not vague:
                return _TRUE
            return _TRUE | miss if hit or with_nan else miss

        return _of_values(name, outcomes)

    def _beginning(self, name: str, prefix: str, *, exact: bool) -> _Outcomes:
        key = self._encode(name, prefix)
        size = len(key)

        def outcomes(low: Any, high: Any) -> int:
            begins = (low is None or low[:size] <= key) and (high is None or high >= key)
            if not begins:
                return _FALSE
            every = exact and low is not None and high is not None and low[:size] == key == high[:size]
            return _TRUE if every else _TRUE | _FALSE

        return _of_values(name, outcomes)


def _anything(_: _Bounds) -> int:
    return _ANY


def _combined(parts: list[_Outcomes], table: list[list[int]]) -> _Outcomes:
    first, *others = parts

    def outcomes(bounds: _Bounds) -> int:
        found = first(bounds)
        for part in others:
            found = table[found][part(bounds)]
        return found

    return outcomes


def _constant_outcome(expr: Expr) -> int:
    """The one outcome of a condition without columns."""
    try:
        value = plain_value(evaluate(expr, pa.table({})))
    except pa.ArrowException:  # constants that do not compare
        return _ANY
    return _TRUE if value is True else _FALSE if value is False else _NULL if value is None else _ANY


def _null_test(name: str) -> _Outcomes:
    def outcomes(bounds: _Bounds) -> int:
        known = bounds.get(name)
        if known is None or known.nulls is None:
            return _TRUE | _FALSE
        return (_TRUE if known.nulls else 0) | (_FALSE if known.nulls < known.rows else 0)

    return outcomes


def _of_values(name: str, outcomes: Callable[[Any, Any], int]) -> _Outcomes:
    """Outcomes of something that is null for nulls, given those for the values between two bounds."""

    def with_nulls(bounds: _Bounds) -> int:
        known = bounds.get(name)
        if known is None:
            return _ANY
        nulls, low, high = known.nulls, known.low, known.high
        if nulls is not None and nulls >= known.rows:
            return _NULL if nulls else 0
        found = outcomes(None if low != low else low, None if high != high else high)
        return found if nulls == 0 else found | _NULL

    return with_nulls


def _equal_outcomes(low: Any, high: Any, key: Any, hit: int, miss: int) -> int:
    if (low is not None and low > key) or (high is not None and high < key):
        return miss
    return hit if low == key == high else hit | miss


def like_prefix(pattern: str) -> tuple[str, str]:
    """What every text that is LIKE the pattern begins with, and the rest of the pattern.

    A backslash ends the prefix: what it stands in front of differs between engines.
    """
    size = next((at for at, char in enumerate(pattern) if char in "%_\\"), len(pattern))
    return pattern[:size], pattern[size:]
