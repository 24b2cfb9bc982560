"""And and or over questions: what answers say together, and whose answer still matters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.index.search.selection import RowSelection
from lakehouse.index.search.tree import (
    ANY_ROW,
    NO_ROW,
    Every,
    Some,
    Tree,
    every,
    leaves,
    select,
    some,
    still_open,
)

TOTAL = 6
names = st.sampled_from("abcd")
trees: st.SearchStrategy[Tree[str]] = st.recursive(
    names | st.sampled_from([ANY_ROW, NO_ROW]),
    lambda inner: (
        st.builds(every, st.lists(inner, max_size=3)) | st.builds(some, st.lists(inner, max_size=3))
    ),
    max_leaves=6,
)
answers = st.dictionaries(names, st.sets(st.integers(0, TOTAL - 1)).map(sorted))


def holds(tree: Tree[str], row: int, known: dict[str, list[int]]) -> bool:
    """Whether a row may match, one node after another."""
    if isinstance(tree, Every):
        return all(holds(part, row, known) for part in tree.parts)
    if isinstance(tree, Some):
        return any(holds(part, row, known) for part in tree.parts)
    return tree not in known or row in known[tree]


@given(trees, answers)
def test_answers_combine_row_by_row(tree: Tree[str], known: dict[str, list[int]]) -> None:
    """A selection has the rows for which the tree holds, questions without an answer taken as true."""
    given_ = {name: RowSelection.of_rows(rows, TOTAL) for name, rows in known.items()}
    found = select(tree, given_, TOTAL)
    assert found == RowSelection.of_rows([row for row in range(TOTAL) if holds(tree, row, known)], TOTAL)


@given(trees, answers, st.sets(st.integers(0, TOTAL - 1)))
def test_an_answer_matters_only_where_it_is_open(
    tree: Tree[str], known: dict[str, list[int]], rows: set[int]
) -> None:
    """However a question is answered, nothing changes outside the rows for which it is open."""
    given_ = {name: RowSelection.of_rows(found, TOTAL) for name, found in known.items()}
    before = select(tree, given_, TOTAL)
    open_ = still_open(tree, given_, TOTAL)
    assert open_.keys() == set(leaves(tree)) - known.keys()
    for name, within in open_.items():
        after = select(tree, {**given_, name: RowSelection.of_rows(sorted(rows), TOTAL)}, TOTAL)
        changed = before.mask() != after.mask()
        assert not (changed & ~within.mask()).any()


def test_constants_are_absorbed() -> None:
    """What is true of any row or of none disappears, or makes all else disappear."""
    assert every(["a", ANY_ROW]) == "a"
    assert every(["a", NO_ROW, "b"]) == NO_ROW
    assert some(["a", NO_ROW]) == "a"
    assert some(["a", ANY_ROW, "b"]) == ANY_ROW
    assert every([]) == ANY_ROW
    assert some([]) == NO_ROW
    assert every(["a", every(["b", "c"])]) == Every(("a", "b", "c"))
