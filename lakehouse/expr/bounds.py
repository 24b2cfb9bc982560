"""Judging a condition by bounds of columns: no row can match, every row does, or neither is known.

For each part of the condition the set of possible outcomes of a row is computed: true, false, null,
or several of them. Sets are combined by SQL's three-valued logic. Parts that are not understood
(functions, columns compared with columns) can have every outcome.

Invariant: sound, never clever. A set holds every outcome that some row has, so the verdict is never
NONE when a row matches, nor ALL when one does not. That holds for NaN whether it is taken as above
every number and equal to itself, as DuckDB has it, or as unlike everything, as IEEE 754 does.

Bounds need not be values that occur: they may be cut or rounded outwards.
"""

from __future__ import annotations

import abc
import bisect
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

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

__all__ = [
    "ANY",
    "FALSE",
    "NULL",
    "TRUE",
    "Bounds",
    "ColumnBounds",
    "Judge",
    "Outcomes",
    "Verdict",
    "judge",
    "like_prefix",
    "plain_value",
]


class Verdict(enum.Enum):
    """The rows that may match a condition: none, some or all."""

    NONE = "none"
    """No row matches."""
    SOME = "some"
    """Any number of rows may match: the bounds decide nothing."""
    ALL = "all"
    """Every row matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """Bounds of the values of a column, and its numbers of nulls and rows."""

    low: Any = None
    """Lower bound of the values, inclusive; None = not known, or no value is there."""
    high: Any = None
    """Upper bound of the values, inclusive; None as for ``low``."""
    nulls: int | None = None
    """Rows without a value; None = not known."""
    rows: int
    """Maximum number of rows."""


Bounds: TypeAlias = Mapping[str, ColumnBounds]
"""Bounds by column name; nothing is known of a column that is missing."""
_Of: TypeAlias = Callable[[Bounds], int]
B = TypeVar("B")
Made = TypeVar("Made")

TRUE, FALSE, NULL = 1, 2, 4
"""Outcomes of a condition for a row; a set of them is their sum."""
ANY = TRUE | FALSE | NULL
"""The set of all outcomes."""


def _kleene(decisive: int, other: int) -> list[list[int]]:
    """Returns the table that combines two sets of outcomes by Kleene's AND or OR.

    The outcome ``decisive`` of either part decides; ``other`` results where neither part is decisive or null.
    """

    def combined(left: int, right: int) -> int:
        return decisive if decisive in (left, right) else NULL if NULL in (left, right) else other

    def combined_sets(left_set: int, right_set: int) -> int:
        outcomes = 0
        for left in (TRUE, FALSE, NULL):
            for right in (TRUE, FALSE, NULL):
                if left & left_set and right & right_set:
                    outcomes |= combined(left, right)
        return outcomes

    return [[combined_sets(left, right) for right in range(8)] for left in range(8)]


_AND = _kleene(FALSE, TRUE)
_OR = _kleene(TRUE, FALSE)
_BOTH = [[left & right for right in range(8)] for left in range(8)]
"""Outcomes that are possible by two judgements of one condition."""
# One entry for each set of outcomes, which is a number below 8.
_NOT = [(outs & TRUE) << 1 | (outs & FALSE) >> 1 | outs & NULL for outs in range(8)]
_VERDICTS = [
    Verdict.ALL if outs == TRUE else Verdict.SOME if outs & TRUE else Verdict.NONE for outs in range(8)
]
_NULL_TEST = [(TRUE if outs & NULL else 0) | (FALSE if outs & (TRUE | FALSE) else 0) for outs in range(8)]


def judge(expr: Expr, bounds: Mapping[str, ColumnBounds]) -> Verdict:
    """Returns whether no, some or every row may match, given bounds of their columns as Python values.

    Args:
        expr: a condition, bound to the schema (:func:`lakehouse.expr.bind`).
        bounds: bounds by column name.
    """
    return Judge(expr)(bounds)


def plain_value(constant: object) -> Any:
    """Returns a constant of a bound condition as a Python value."""
    return constant.as_py() if isinstance(constant, pa.Scalar) else constant


class Outcomes(abc.ABC, Generic[B, Made]):
    """A condition taken apart: how the outcomes of its parts become those of the whole.

    Type parameters are the bounds that are judged and the outcomes that result: of one file
    (:class:`Judge`), or of many in columns (:class:`lakehouse.expr.columnar.ColumnarJudge`).

    Args:
        expr: a condition, bound to the schema.
        encode: from a column's name and a constant it is compared with to what its bounds are
            compared with; None = bounds are values. Text and bytes must be encoded so that a
            prefix stays one.
    """

    __slots__ = ("_encode", "_encoded", "_outcomes")

    def __init__(self, expr: Expr, encode: Callable[[str, Any], Any] | None = None) -> None:
        self._encoded = encode is not None
        self._encode = encode or (lambda _, value: plain_value(value))
        self._outcomes = self._compiled(expr)

    def _compiled(self, expr: Expr) -> Callable[[B], Made]:
        match expr:
            case And(args) | Or(args):
                table = _AND if isinstance(expr, And) else _OR
                return self._combined([self._compiled(arg) for arg in args], table)
            case Not(arg):
                return self._mapped(self._compiled(arg), _NOT)
            case IsNull(Column(name)):
                return self._null_test(name)
            case IsNull(Compare() | In() | And() | Or() | Not() | IsNull() as arg):
                return self._mapped(self._compiled(arg), _NULL_TEST)
            case Constant() | Compare(_, Constant(), Constant()):
                return self._same(_constant_outcome(expr))
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
                if not rest:
                    return self._compared("=", name, prefix)
                begins, computed = self._beginning(name, prefix, exact=rest == "%"), self._computed(expr)
                return begins if computed is None else self._combined([begins, computed], _BOTH)
        return self._computed(expr) or self._same(ANY)

    def _computed(self, expr: Expr) -> Callable[[B], Made] | None:
        """Returns how a condition is computed of columns that have one value each; None = it is not."""
        del expr
        return None

    @abc.abstractmethod
    def _same(self, outcomes: int) -> Callable[[B], Made]:
        """Returns these outcomes whatever the bounds are."""

    @abc.abstractmethod
    def _mapped(self, inner: Callable[[B], Made], table: list[int]) -> Callable[[B], Made]:
        """Returns what a table makes of the outcomes of a part."""

    @abc.abstractmethod
    def _combined(self, parts: list[Callable[[B], Made]], table: list[list[int]]) -> Callable[[B], Made]:
        """Returns what a table makes of the outcomes of several parts."""

    @abc.abstractmethod
    def _null_test(self, name: str) -> Callable[[B], Made]:
        """Returns whether a column is null."""

    @abc.abstractmethod
    def _compared(self, op: CompareOp, name: str, constant: object) -> Callable[[B], Made]:
        """Returns how a column compares with a constant."""

    @abc.abstractmethod
    def _among(self, name: str, constants: tuple[Any, ...]) -> Callable[[B], Made]:
        """Returns whether a column is one of some constants."""

    @abc.abstractmethod
    def _beginning(self, name: str, prefix: str, *, exact: bool) -> Callable[[B], Made]:
        """Returns whether a column begins with a text; ``exact`` = that is all that is asked."""


class Judge(Outcomes[Bounds, int]):
    """A condition made ready to judge the bounds of one file after another.

    Args:
        expr: see :class:`Outcomes`.
        encode: likewise. NaN as a bound must be given as None, which it is among Python values.
    """

    __slots__ = ()

    def __call__(self, bounds: Mapping[str, ColumnBounds]) -> Verdict:
        """How many rows may match."""
        return _VERDICTS[self._outcomes(bounds)]

    def _same(self, outcomes: int) -> _Of:
        return lambda _: outcomes

    def _mapped(self, inner: _Of, table: list[int]) -> _Of:
        return lambda bounds: table[inner(bounds)]

    def _combined(self, parts: list[_Of], table: list[list[int]]) -> _Of:
        first, *others = parts

        def outcomes(bounds: Bounds) -> int:
            found = first(bounds)
            for part in others:
                found = table[found][part(bounds)]
            return found

        return outcomes

    def _null_test(self, name: str) -> _Of:
        def outcomes(bounds: Bounds) -> int:
            known = bounds.get(name)
            if known is None or known.nulls is None:
                return TRUE | FALSE
            return (TRUE if known.nulls else 0) | (FALSE if known.nulls < known.rows else 0)

        return outcomes

    def _compared(self, op: CompareOp, name: str, constant: object) -> _Of:
        value = plain_value(constant)
        if value is None:
            return lambda _: NULL
        if value != value:
            return _of_values(name, lambda low, high: TRUE | FALSE)
        key = self._encode(name, constant)
        if op in ("=", "<>"):
            hit, miss = (TRUE, FALSE) if op == "=" else (FALSE, TRUE)
            return _of_values(name, lambda low, high: _equal_outcomes(low, high, key, hit, miss))
        upward = op in ("<", "<=")
        below, above = (TRUE, FALSE) if upward else (FALSE, TRUE)
        # What is below the key, or the key too: so the outcome of the key itself is said once.
        closed = op in ("<=", ">")
        nan_outcome = FALSE if isinstance(value, float) else 0

        def outcomes(low: Any, high: Any) -> int:
            found = 0
            if low is None or low < key or (closed and low == key):
                found |= below
            if high is None or high > key or (not closed and high == key):
                found |= above
            # A NaN is above every number or compares as false, and is there only without a high bound.
            return found | nan_outcome if high is None else found

        return _of_values(name, outcomes)

    def _among(self, name: str, constants: tuple[Any, ...]) -> _Of:
        values = [plain_value(constant) for constant in constants]
        keys = sorted(
            self._encode(name, constant)
            for constant, value in zip(constants, values, strict=True)
            if value is not None and value == value
        )
        with_nan = any(value != value for value in values)
        miss = NULL if None in values else FALSE

        def outcomes(low: Any, high: Any) -> int:
            at = 0 if low is None else bisect.bisect_left(keys, low)
            hit = at < len(keys) and (high is None or keys[at] <= high)
            # Both zeros are one value, here as among rows, and a file with a NaN has no high bound.
            if hit and low is not None and low == high:
                return TRUE
            return TRUE | miss if hit or with_nan else miss

        return _of_values(name, outcomes)

    def _beginning(self, name: str, prefix: str, *, exact: bool) -> _Of:
        key = self._encode(name, prefix)
        size = len(key)

        def outcomes(low: Any, high: Any) -> int:
            begins = (low is None or low[:size] <= key) and (high is None or high >= key)
            if not begins:
                return FALSE
            every = exact and low is not None and high is not None and low[:size] == key == high[:size]
            return TRUE if every else TRUE | FALSE

        return _of_values(name, outcomes)


def _constant_outcome(expr: Expr) -> int:
    """Returns the outcome of a condition without columns; every outcome where it cannot be computed."""
    try:
        value = plain_value(evaluate(expr, pa.table({})))
    except pa.ArrowException:  # constants that do not compare
        return ANY
    return TRUE if value is True else FALSE if value is False else NULL if value is None else ANY


def _of_values(name: str, outcomes: Callable[[Any, Any], int]) -> _Of:
    """Returns the outcomes of a test that is null for nulls, given its outcomes for values between bounds."""

    def with_nulls(bounds: Bounds) -> int:
        known = bounds.get(name)
        if known is None:
            return ANY
        nulls, low, high = known.nulls, known.low, known.high
        if nulls is not None and nulls >= known.rows:
            return NULL if nulls else 0
        # A NaN as a bound bounds nothing.
        possible = outcomes(None if low != low else low, None if high != high else high)
        return possible if nulls == 0 else possible | NULL

    return with_nulls


def _equal_outcomes(low: Any, high: Any, key: Any, hit: int, miss: int) -> int:
    if (low is not None and low > key) or (high is not None and high < key):
        return miss
    return hit if low == key == high else hit | miss


def like_prefix(pattern: str) -> tuple[str, str]:
    """Splits a LIKE pattern into the prefix of every text that matches it, and the rest of the pattern.

    A backslash ends the prefix: engines differ on which characters it escapes.
    """
    size = next((at for at, char in enumerate(pattern) if char in "%_\\"), len(pattern))
    return pattern[:size], pattern[size:]
