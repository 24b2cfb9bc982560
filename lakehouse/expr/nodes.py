"""The nodes of an expression, and the operators with which Python code builds one.

``lakehouse.col("amount") > 10`` makes the same tree as the SQL text ``amount > 10``.
Nodes are immutable values. They overload ``==`` to *build* a comparison, so they are
compared by :meth:`Expr.same_as`, and they refuse to be used as a truth value: ``and``
and ``or`` cannot be overloaded, ``&`` and ``|`` are meant.

Logic is SQL's: a comparison with null is null, and a row is selected only when the whole
condition is true.
"""

from __future__ import annotations

import abc
import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn

from lakehouse.errors import InvalidInputError

__all__ = [
    "And",
    "Applied",
    "Column",
    "Compare",
    "CompareOp",
    "Constant",
    "Expr",
    "FunctionCall",
    "In",
    "IsNull",
    "Not",
    "Or",
    "all_given",
    "all_of",
    "any_of",
    "col",
    "lit",
    "negated_op",
    "swapped_op",
]

CompareOp = Literal["=", "<>", "<", "<=", ">", ">="]
"""Comparisons, as SQL writes them."""

_VALUES = (
    bool,
    int,
    float,
    str,
    bytes,
    decimal.Decimal,
    dt.date,
    dt.datetime,
    dt.time,
    uuid.UUID,
    type(None),
)
_NEGATED: dict[CompareOp, CompareOp] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SWAPPED: dict[CompareOp, CompareOp] = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def negated_op(op: CompareOp) -> CompareOp:
    """Returns the comparison that is true exactly where this one is false (null stays null)."""
    return _NEGATED[op]


def swapped_op(op: CompareOp) -> CompareOp:
    """Returns the comparison with its sides exchanged."""
    return _SWAPPED[op]


class Expr(abc.ABC):
    """An expression: anything that has a value for each row."""

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __eq__(self, other: object) -> Compare:  # type: ignore[override]
        return Compare("=", self, lit(other))

    def __ne__(self, other: object) -> Compare:  # type: ignore[override]
        return Compare("<>", self, lit(other))

    def __lt__(self, other: object) -> Compare:
        return Compare("<", self, lit(other))

    def __le__(self, other: object) -> Compare:
        return Compare("<=", self, lit(other))

    def __gt__(self, other: object) -> Compare:
        return Compare(">", self, lit(other))

    def __ge__(self, other: object) -> Compare:
        return Compare(">=", self, lit(other))

    def __and__(self, other: Expr) -> Expr:
        return all_of(self, other)

    def __or__(self, other: Expr) -> Expr:
        return any_of(self, other)

    def __invert__(self) -> Expr:
        return Not(self)

    def __add__(self, other: object) -> FunctionCall:
        return FunctionCall("add", (self, lit(other)))

    def __sub__(self, other: object) -> FunctionCall:
        return FunctionCall("subtract", (self, lit(other)))

    def __mul__(self, other: object) -> FunctionCall:
        return FunctionCall("multiply", (self, lit(other)))

    def __truediv__(self, other: object) -> FunctionCall:
        return FunctionCall("divide", (self, lit(other)))

    def __mod__(self, other: object) -> FunctionCall:
        return FunctionCall("modulo", (self, lit(other)))

    def __neg__(self) -> FunctionCall:
        return FunctionCall("negate", (self,))

    def __bool__(self) -> NoReturn:
        raise InvalidInputError(
            "an expression has no truth value of its own: combine with & | ~ instead of and, or, not, "
            "and put comparisons in parentheses"
        )

    def is_in(self, values: Iterable[object]) -> In:
        """Returns the condition that the value is one of these."""
        return In(self, tuple(_checked(value) for value in values))

    def is_null(self) -> IsNull:
        """Returns the condition that there is no value; it is never null itself."""
        return IsNull(self)

    def is_not_null(self) -> Not:
        """Returns the condition that there is a value."""
        return Not(IsNull(self))

    def between(self, low: object, high: object) -> Expr:
        """Returns the condition that the value is from ``low`` to ``high``, both included."""
        return all_of(self >= low, self <= high)

    def starts_with(self, prefix: str) -> FunctionCall:
        """Returns the condition that the text begins with ``prefix``."""
        return FunctionCall("starts_with", (self, lit(prefix)))

    def like(self, pattern: str) -> FunctionCall:
        """Returns SQL's LIKE condition: ``%`` stands for any text, ``_`` for one character."""
        return FunctionCall("like", (self, lit(pattern)))

    def regexp(self, pattern: str) -> FunctionCall:
        """Returns the condition that the regular expression (RE2) matches somewhere in the text."""
        return FunctionCall("regexp_matches", (self, lit(pattern)))

    def matches(self, terms: str) -> FunctionCall:
        """Returns the full-text condition that every word of ``terms`` occurs in the text."""
        return FunctionCall("matches", (self, lit(terms)))

    def lower(self) -> FunctionCall:
        """Returns the text in lower case."""
        return FunctionCall("lower", (self,))

    def upper(self) -> FunctionCall:
        """Returns the text in upper case."""
        return FunctionCall("upper", (self,))

    def children(self) -> tuple[Expr, ...]:
        """Returns the expressions this one is made of."""
        return ()

    def walk(self) -> Iterator[Expr]:
        """Yields this node and every node below it, parents first."""
        yield self
        for child in self.children():
            yield from child.walk()

    def columns(self) -> frozenset[str]:
        """Returns the names of the columns it reads."""
        return frozenset(node.name for node in self.walk() if isinstance(node, Column))

    def same_as(self, other: Expr) -> bool:
        """Returns whether the two are the same tree."""
        return type(self) is type(other) and self._key() == other._key()

    @abc.abstractmethod
    def _key(self) -> Any:
        """Returns the value by which :meth:`same_as` compares nodes of this class."""


def _check_text(value: object) -> None:
    """Refuses halves of surrogate pairs, which Python's text may hold and no column does."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"a condition compares with {value[:40]!r}: half of a surrogate pair is no character, and no "
                "text of a column has one",
                value=value[:40],
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expr):
    """A column, by name; a dot leads into a struct, and backticks enclose names that hold a dot."""

    name: str

    def _key(self) -> Any:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Expr):
    """The same value for every row; None is null."""

    value: Any

    def __post_init__(self) -> None:
        """Refuses text that is no UTF-8."""
        _check_text(self.value)

    def _key(self) -> Any:
        return type(self.value), self.value


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Expr):
    """A comparison of two values."""

    op: CompareOp
    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        """Returns both sides."""
        return (self.left, self.right)

    def _key(self) -> Any:
        return self.op, self.left._key(), type(self.left), self.right._key(), type(self.right)


@dataclass(frozen=True, slots=True, eq=False)
class In(Expr):
    """A test whether a value is one of several; null when it is not and one of them is null."""

    arg: Expr
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        """Refuses text that is no UTF-8."""
        for value in self.values:
            _check_text(value)

    def children(self) -> tuple[Expr, ...]:
        """Returns the tested expression."""
        return (self.arg,)

    def _key(self) -> Any:
        return type(self.arg), self.arg._key(), self.values


@dataclass(frozen=True, slots=True, eq=False)
class IsNull(Expr):
    """A test whether there is no value; never null itself."""

    arg: Expr

    def children(self) -> tuple[Expr, ...]:
        """Returns the tested expression."""
        return (self.arg,)

    def _key(self) -> Any:
        return type(self.arg), self.arg._key()


@dataclass(frozen=True, slots=True, eq=False)
class Not(Expr):
    """The negation of a condition; null stays null."""

    arg: Expr

    def children(self) -> tuple[Expr, ...]:
        """Returns the negated condition."""
        return (self.arg,)

    def _key(self) -> Any:
        return type(self.arg), self.arg._key()


@dataclass(frozen=True, slots=True, eq=False)
class And(Expr):
    """A conjunction: true when all its parts are; made by :func:`all_of`."""

    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        """Returns the parts, all of which must hold."""
        return self.args

    def _key(self) -> Any:
        return tuple((type(arg), arg._key()) for arg in self.args)


@dataclass(frozen=True, slots=True, eq=False)
class Or(Expr):
    """A disjunction: true when one of its parts is; made by :func:`any_of`."""

    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        """Returns the parts, one of which must hold."""
        return self.args

    def _key(self) -> Any:
        return tuple((type(arg), arg._key()) for arg in self.args)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCall(Expr):
    """A call of a function; :mod:`lakehouse.expr.functions` lists the functions there are."""

    name: str
    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        """Returns the arguments."""
        return self.args

    def _key(self) -> Any:
        return self.name, tuple((type(arg), arg._key()) for arg in self.args)


@dataclass(frozen=True, slots=True, eq=False)
class Applied(Expr):
    """A call with the function that computes it: ``matches``, whose analyzer a table's indexes define."""

    call: FunctionCall
    compute: Callable[[Any], Any]
    """Makes the call's values of those of its first argument."""

    def children(self) -> tuple[Expr, ...]:
        """Returns the first argument, from which the value is computed."""
        return self.call.args[:1]

    def _key(self) -> Any:
        return self.call._key(), id(self.compute)


def col(name: str) -> Column:
    """Names a column, as in ``col("amount") > 10``; ``col("address.street")`` is a field of a struct."""
    if not name:
        raise InvalidInputError("a column has a name")
    return Column(name)


def lit(value: object) -> Expr:
    """Makes a constant of a value; an expression is returned unchanged."""
    return value if isinstance(value, Expr) else Constant(_checked(value))


def all_of(*args: Expr) -> Expr:
    """Returns the conjunction of conditions; true if there are none. Nested ands become one."""
    return _joined(And, args, empty=True)


def all_given(*args: Expr | None) -> Expr | None:
    """Returns the conjunction of those that are not None; None if there are none."""
    given = [arg for arg in args if arg is not None]
    return all_of(*given) if given else None


def any_of(*args: Expr) -> Expr:
    """Returns the disjunction of conditions; false if there are none. Nested ors become one."""
    return _joined(Or, args, empty=False)


def _joined(kind: type[And | Or], args: tuple[Expr, ...], *, empty: bool) -> Expr:
    flat: list[Expr] = []
    for arg in args:
        if not isinstance(arg, Expr):
            raise InvalidInputError(f"{arg!r} is no expression: compare a column with it")
        flat += arg.args if isinstance(arg, kind) else (arg,)
    if not flat:
        return Constant(empty)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _checked(value: object) -> object:
    if not isinstance(value, _VALUES):
        raise InvalidInputError(
            f"{value!r} ({type(value).__name__}) cannot stand in an expression: use numbers, text, bytes, "
            "dates, times, decimals or None"
        )
    return value
