"""Trees of questions to indexes, joined by and and or, and the evaluation of their answers.

A tree has no not: an answer has the rows that *may* match, from which the rows that may match the
negation do not follow. ``Every(())`` is true of any row, ``Some(())`` of none.

Invariant: a question without an answer counts as answered by "every row", so leaving one out makes
a selection wider, never narrower.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from lakehouse.index.search.selection import RowSelection

__all__ = ["ANY_ROW", "NO_ROW", "Every", "Some", "Tree", "every", "leaves", "select", "some", "still_open"]

L = TypeVar("L", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Every(Generic[L]):
    """Conjunction of parts: true of the rows of which all parts are; made by :func:`every`."""

    parts: tuple[Tree[L], ...]


@dataclass(frozen=True, slots=True)
class Some(Generic[L]):
    """Disjunction of parts: true of the rows of which a part is; made by :func:`some`."""

    parts: tuple[Tree[L], ...]


Tree: TypeAlias = "Every[L] | Some[L] | L"
"""A question, or a combination of trees."""

ANY_ROW: Final[Every[Any]] = Every(())
"""Tree that is true of any row: stands for a condition of which nothing is known."""
NO_ROW: Final[Some[Any]] = Some(())
"""Tree that is true of no row."""


def every(parts: Iterable[Tree[L]]) -> Tree[L]:
    """Joins parts by and; nested ones become one."""
    flat = [leaf for part in parts for leaf in (part.parts if isinstance(part, Every) else (part,))]
    if NO_ROW in flat:
        return NO_ROW
    return flat[0] if len(flat) == 1 else Every(tuple(flat))


def some(parts: Iterable[Tree[L]]) -> Tree[L]:
    """Joins parts by or; nested ones become one."""
    flat = [leaf for part in parts for leaf in (part.parts if isinstance(part, Some) else (part,))]
    if ANY_ROW in flat:
        return ANY_ROW
    return flat[0] if len(flat) == 1 else Some(tuple(flat))


def leaves(tree: Tree[L]) -> Iterator[L]:
    """Yields the questions of the tree, from left to right; repeated ones each time."""
    if isinstance(tree, Every | Some):
        for part in tree.parts:
            yield from leaves(part)
    else:
        yield tree


def select(tree: Tree[L], answers: Mapping[L, RowSelection], total_rows: int) -> RowSelection:
    """Returns the rows that may match, by the answers so far."""
    if isinstance(tree, Every | Some):
        is_every = isinstance(tree, Every)
        selected = RowSelection.every(total_rows) if is_every else RowSelection.none(total_rows)
        for part in tree.parts:
            rows = select(part, answers, total_rows)
            selected = selected & rows if is_every else selected | rows
        return selected
    return answers[tree] if tree in answers else RowSelection.every(total_rows)


def still_open(tree: Tree[L], answers: Mapping[L, RowSelection], total_rows: int) -> dict[L, RowSelection]:
    """Returns for each question without an answer the rows for which its answer would still matter.

    A question matters for a row when all its siblings under an "and" may be true of the row, and when
    none of its siblings under an "or" is true of it: but since no answer is certainly true of a row,
    only an "and" excludes rows.
    """
    needed: dict[L, RowSelection] = {}

    def visit(node: Tree[L], within: RowSelection) -> None:
        if isinstance(node, Every):
            for part in node.parts:
                visit(part, within & select(node, answers, total_rows))
        elif isinstance(node, Some):
            for part in node.parts:
                visit(part, within)
        elif node not in answers:
            needed[node] = needed[node] | within if node in needed else within

    visit(tree, RowSelection.every(total_rows))
    return needed
