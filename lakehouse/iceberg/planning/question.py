"""A condition taken apart into the parts that must all hold, each judged by itself.

What excludes a file can so be told, and a part that holds for every row of a file need not be asked of its
rows again.

Invariant: a file is kept if and only if no part excludes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

__all__ = ["Answers", "Question"]

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
        kept: Mask = np.ones(self.count, np.bool_)
        for excluded in self.excluded:
            kept &= ~excluded
        return kept

    def first_excluding(self, at: int) -> int | None:
        """Returns the number of the first part that excludes a file; None if none does."""
        found = (number for number, verdicts in enumerate(self.verdicts) if verdicts[at] == _NONE)
        return next(found, None)

    def residual(self, at: int) -> Expr | None:
        """Returns the condition that rows of a file have still to be asked; None if all of them match."""
        left = [
            part for part, verdicts in zip(self.parts, self.verdicts, strict=False) if verdicts[at] != _ALL
        ]
        return all_of(*left) if left else None

    def residual_texts(self, at: I64) -> list[str | None]:
        """Returns the same of several files, as SQL; one text for all files that have the same parts left."""
        if not self.parts:
            return [None] * len(at)
        bits = np.zeros(len(at), object if len(self.parts) > 62 else np.int64)
        for number, verdicts in enumerate(self.verdicts[: len(self.parts)]):
            bits |= (verdicts[at] != _ALL).astype(bits.dtype) << number
        texts = {int(some): self._text(int(some)) for some in np.unique(bits)}
        return [texts[int(some)] for some in bits.tolist()]

    def _text(self, bits: int) -> str | None:
        left = [part for number, part in enumerate(self.parts) if bits >> number & 1]
        return to_sql(all_of(*left)) if left else None


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
