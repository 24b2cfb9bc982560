"""A condition taken apart into the parts that must all hold, each judged by itself.

What excludes a file can so be told, and a part that holds for every row of a file need not be asked of its
rows again.

Invariant: a file is kept if and only if no part excludes it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lakehouse.expr import Expr, all_of, to_sql
from lakehouse.expr.bounds import Verdict
from lakehouse.expr.columnar import VERDICTS, ColumnarJudge, FileBounds
from lakehouse.expr.nodes import And
from lakehouse.expr.rewrite import with_ranges_listed
from lakehouse.format.schema import TableSchema
from lakehouse.kernels.arrays import I64, U8, Mask
from lakehouse.storage.scan import bind_where

__all__ = ["Answers", "Question", "without"]

_LISTED_MAX = 64
"""Maximum values of a range that is asked value by value."""
_NONE, _ALL = VERDICTS.index(Verdict.NONE), VERDICTS.index(Verdict.ALL)


class Question:
    """A condition ready to be asked of many files.

    Args:
        where: None = every row is wanted.
        schema: the columns that it is about.
        listed: columns that are bucketed, of which values can be asked and ranges cannot: small ranges of
            them are asked value by value too.
    """

    __slots__ = ("_judges", "asked", "names", "parts")

    def __init__(
        self, where: Expr | None, schema: TableSchema, *, listed: frozenset[str] = frozenset()
    ) -> None:
        self.parts: Sequence[Expr] = tuple(_conjuncts(where)) if where is not None else ()
        """Conditions of which all must hold."""
        bound = [bind_where(part, schema) for part in self.parts]
        implied = tuple(_lists(bound, listed))
        self.asked: Sequence[Expr] = (*self.parts, *implied)
        """The parts, and lists of the values of small ranges behind them, which the parts imply."""
        self.names = frozenset[str]().union(*(part.columns() for part in bound))
        """Columns that are mentioned."""
        self._judges = [ColumnarJudge(part) for part in (*bound, *implied)]

    def ask(self, bounds: FileBounds) -> Answers:
        """Judges every part by the bounds of files."""
        return Answers(self.parts, [judge(bounds) for judge in self._judges], len(bounds.rows))


@dataclass(frozen=True, slots=True)
class Answers:
    """Verdicts about many files, part by part."""

    parts: Sequence[Expr]
    verdicts: Sequence[U8]
    """For each part the verdict about each file, and behind those the verdicts of what the parts imply."""
    count: int

    @property
    def excluded(self) -> list[Mask]:
        """For each part, the files that it excludes."""
        return [verdicts == _NONE for verdicts in self.verdicts]

    @property
    def kept(self) -> Mask:
        """For each file, True if no part excludes it."""
        return without(np.ones(self.count, np.bool_), self.excluded)

    def first_excluding(self, at: int) -> int | None:
        """Returns the number of the first part that excludes a file; None if none does."""
        found = (number for number, verdicts in enumerate(self.verdicts) if verdicts[at] == _NONE)
        return next(found, None)

    def residuals(self, at: I64) -> list[Expr | None]:
        """Returns the condition that rows of some files have still to be asked; None where all match."""
        patterns, left = self._left(at)
        return [left[pattern] for pattern in patterns]

    def residual_texts(self, at: I64) -> list[str | None]:
        """Returns the same as SQL."""
        patterns, left = self._left(at)
        texts = {pattern: None if expr is None else to_sql(expr) for pattern, expr in left.items()}
        return [texts[pattern] for pattern in patterns]

    def _left(self, at: I64) -> tuple[list[int], dict[int, Expr | None]]:
        """Returns for each file the parts that are left, as bits, and one condition for each such pattern."""
        bits = np.zeros(len(at), object if len(self.parts) > 62 else np.int64)
        for number, verdicts in enumerate(self.verdicts[: len(self.parts)]):
            bits |= (verdicts[at] != _ALL).astype(bits.dtype) << number
        left: dict[int, Expr | None] = {}
        for pattern in set(bits.tolist()):
            parts = [part for number, part in enumerate(self.parts) if pattern >> number & 1]
            left[pattern] = all_of(*parts) if parts else None
        return bits.tolist(), left


def without(kept: Mask, excluded: Iterable[Mask]) -> Mask:
    """Returns what is kept and by nothing excluded."""
    return functools.reduce(lambda left, mask: left & ~mask, excluded, kept)


def _lists(bound: Sequence[Expr], listed: frozenset[str]) -> Sequence[Expr]:
    """Returns conditions that list the values of small ranges of some columns."""
    if len(bound) < 2 or not listed:
        return ()
    whole = And(tuple(bound))
    made = with_ranges_listed(whole, max_values=_LISTED_MAX, names=listed)
    return made.args[len(bound) :] if isinstance(made, And) else ()


def _conjuncts(where: Expr) -> Iterator[Expr]:
    if isinstance(where, And):
        for arg in where.args:
            yield from _conjuncts(arg)
    else:
        yield where
