"""The nodes of an expression, and how Python code writes one.

``lakehouse.col("amount") > 10`` makes the same tree as the SQL text ``amount > 10``.
Nodes are immutable values. They overload ``==`` to *build* a comparison, so they are
compared by :meth:`Expr.same_as`, and they refuse to be used as a truth value: ``and``
and ``or`` cannot be overloaded, ``&`` and ``|`` are meant.

Logic is SQL's: a comparison with null is null, and a row is wanted only when the whole
is true.
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
    """The comparison that is true exactly where this one is false (null stays null)."""
    return _NEGATED[op]


def swapped_op(op: CompareOp) -> CompareOp:
    """The comparison with its sides exchanged."""
    return _SWAPPED[op]


class Expr(abc.ABC):
    """Anything with a value for each row."""

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
        """True where the value is one of these."""
        return In(self, tuple(_checked(value) for value in values))

    def is_null(self) -> IsNull:
        """True where there is no value; never null itself."""
        return IsNull(self)

    def is_not_null(self) -> Not:
        """True where there is a value."""
        return Not(IsNull(self))

    def between(self, low: object, high: object) -> Expr:
        """True from ``low`` to ``high``, both included."""
        return all_of(self >= low, self <= high)

    def starts_with(self, prefix: str) -> FunctionCall:
        """True where the text begins so."""
        return FunctionCall("starts_with", (self, lit(prefix)))

    def like(self, pattern: str) -> FunctionCall:
        """SQL's LIKE: ``%`` stands for any text, ``_`` for one character."""
        return FunctionCall("like", (self, lit(pattern)))

    def regexp(self, pattern: str) -> FunctionCall:
        """True where the regular expression (RE2) is found in the text."""
        return FunctionCall("regexp_matches", (self, lit(pattern)))

    def matches(self, terms: str) -> FunctionCall:
        """Full text: true where every word of ``terms`` occurs in the text."""
        return FunctionCall("matches", (self, lit(terms)))

    def lower(self) -> FunctionCall:
        """The text in lower case."""
        return FunctionCall("lower", (self,))

    def upper(self) -> FunctionCall:
        """The text in upper case."""
        return FunctionCall("upper", (self,))

    def children(self) -> tuple[Expr, ...]:
        """The expressions this one is made of."""
        return ()

    def walk(self) -> Iterator[Expr]:
        """This node and everything below it."""
        yield self
        for child in self.children():
            yield from child.walk()

    def columns(self) -> frozenset[str]:
        """Names of the columns it reads."""
        return frozenset(node.name for node in self.walk() if isinstance(node, Column))

    def same_as(self, other: Expr) -> bool:
        """Whether the two are the same tree."""
        return type(self) is type(other) and self._key() == other._key()

    @abc.abstractmethod
    def _key(self) -> Any:
        """What tells it from others of its class."""


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
    """A column, by name; a dot goes into a struct, and backticks are around names that hold one."""

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
    """Two values compared."""

    op: CompareOp
    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        """Both sides."""
        return (self.left, self.right)

    def _key(self) -> Any:
        return self.op, self.left._key(), type(self.left), self.right._key(), type(self.right)


@dataclass(frozen=True, slots=True, eq=False)
class In(Expr):
    """Whether a value is one of several; null when it is not and one of them is null."""

    arg: Expr
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        """Refuses text that is no UTF-8."""
        for one in self.values:
            _check_text(one)

    def children(self) -> tuple[Expr, ...]:
        """What is looked for."""
        return (self.arg,)

    def _key(self) -> Any:
        return type(self.arg), self.arg._key(), self.values


@dataclass(frozen=True, slots=True, eq=False)
class IsNull(Expr):
    """Whether there is no value."""

    arg: Expr

    def children(self) -> tuple[Expr, ...]:
        """What may be null."""
        return (self.arg,)

    def _key(self) -> Any:
        return type(self.arg), self.arg._key()


@dataclass(frozen=True, slots=True, eq=False)
class Not(Expr):
    """The contrary; null stays null."""

    arg: Expr

    def children(self) -> tuple[Expr, ...]:
        """What is denied."""
        return (self.arg,)

    def _key(self) -> Any:
        return type(self.arg), self.arg._key()


@dataclass(frozen=True, slots=True, eq=False)
class And(Expr):
    """True when all are; made by :func:`all_of`."""

    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        """What must all hold."""
        return self.args

    def _key(self) -> Any:
        return tuple((type(arg), arg._key()) for arg in self.args)


@dataclass(frozen=True, slots=True, eq=False)
class Or(Expr):
    """True when one is; made by :func:`any_of`."""

    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        """Of what one must hold."""
        return self.args

    def _key(self) -> Any:
        return tuple((type(arg), arg._key()) for arg in self.args)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCall(Expr):
    """A function of values; which there are, :mod:`lakehouse.expr.functions` says."""

    name: str
    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        """The arguments."""
        return self.args

    def _key(self) -> Any:
        return self.name, tuple((type(arg), arg._key()) for arg in self.args)


@dataclass(frozen=True, slots=True, eq=False)
class Applied(Expr):
    """A call that is computed by who knows how: which words a text has, a table's indexes say."""

    call: FunctionCall
    compute: Callable[[Any], Any]
    """From the values of the first argument to those of the call."""

    def children(self) -> tuple[Expr, ...]:
        """What it is computed from."""
        return self.call.args[:1]

    def _key(self) -> Any:
        return self.call._key(), id(self.compute)


def col(name: str) -> Column:
    """The column of that name: ``col("amount") > 10``; ``col("address.street")`` is a field of a struct."""
    if not name:
        raise InvalidInputError("a column has a name")
    return Column(name)


def lit(value: object) -> Expr:
    """A constant; an expression is returned as it is."""
    return value if isinstance(value, Expr) else Constant(_checked(value))


def all_of(*args: Expr) -> Expr:
    """True when all are; true of none. Nested ands become one."""
    return _joined(And, args, empty=True)


def all_given(*args: Expr | None) -> Expr | None:
    """True when all are of those that are given; None = none is given."""
    given = [arg for arg in args if arg is not None]
    return all_of(*given) if given else None


def any_of(*args: Expr) -> Expr:
    """True when one is; false of none. Nested ors become one."""
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
