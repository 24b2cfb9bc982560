"""And and or over questions that indexes answer: what the answers say together.

A tree has no not: an answer tells which rows *may* match, and the contrary of that is nothing
anybody knows. ``Every(())`` is true of any row, ``Some(())`` of none.

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
    """True where all parts are; made by :func:`every`."""

    parts: tuple[Tree[L], ...]


@dataclass(frozen=True, slots=True)
class Some(Generic[L]):
    """True where a part is; made by :func:`some`."""

    parts: tuple[Tree[L], ...]


Tree: TypeAlias = "Every[L] | Some[L] | L"
"""Questions, and what they are combined by."""

ANY_ROW: Final[Every[Any]] = Every(())
"""True of any row: what is said where nothing is known."""
NO_ROW: Final[Some[Any]] = Some(())
"""True of no row."""


def every(parts: Iterable[Tree[L]]) -> Tree[L]:
    """True where all parts are."""
    flat = [one for part in parts for one in (part.parts if isinstance(part, Every) else (part,))]
    if NO_ROW in flat:
        return NO_ROW
    return flat[0] if len(flat) == 1 else Every(tuple(flat))


def some(parts: Iterable[Tree[L]]) -> Tree[L]:
    """True where a part is."""
    flat = [one for part in parts for one in (part.parts if isinstance(part, Some) else (part,))]
    if ANY_ROW in flat:
        return ANY_ROW
    return flat[0] if len(flat) == 1 else Some(tuple(flat))


def leaves(tree: Tree[L]) -> Iterator[L]:
    """Every question of the tree."""
    if isinstance(tree, Every | Some):
        for part in tree.parts:
            yield from leaves(part)
    else:
        yield tree


def select(tree: Tree[L], answers: Mapping[L, RowSelection], total_rows: int) -> RowSelection:
    """The rows that may match, going by the answers there are."""
    if isinstance(tree, Every | Some):
        is_every = isinstance(tree, Every)
        found = RowSelection.every(total_rows) if is_every else RowSelection.none(total_rows)
        for part in tree.parts:
            one = select(part, answers, total_rows)
            found = found & one if is_every else found | one
        return found
    return answers[tree] if tree in answers else RowSelection.every(total_rows)


def still_open(tree: Tree[L], answers: Mapping[L, RowSelection], total_rows: int) -> dict[L, RowSelection]:
    """For each question without an answer, the rows for which its answer would still matter.

    A question matters for a row when all that stands beside it under an "and" may be true there,
    and when nothing that stands beside it under an "or" is: but since no answer is certain to be
    true of a row, only the "and" tells.
    """
    found: dict[L, RowSelection] = {}

    def visit(node: Tree[L], within: RowSelection) -> None:
        if isinstance(node, Every):
            for part in node.parts:
                visit(part, within & select(node, answers, total_rows))
        elif isinstance(node, Some):
            for part in node.parts:
                visit(part, within)
        elif node not in answers:
            found[node] = found[node] | within if node in found else within

    visit(tree, RowSelection.every(total_rows))
    return found
