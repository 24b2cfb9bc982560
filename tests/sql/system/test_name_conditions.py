"""Conditions on names: what is asked for, told before anything is loaded."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr import Expr, all_of, any_of, col, matching, parse_where
from lakehouse.sql.system.name_conditions import is_about, names_wanted

_NAMES = ("database_name", "table_name")
_WORDS = ("a", "b", "ab", "B", "")


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("table_name = 'a'", {"a"}),
        ("'a' = table_name", {"a"}),
        ("table_name in ('a', 'b')", {"a", "b"}),
        ("table_name in ('a', 'b') and table_name = 'b' and database_name = 'x'", {"b"}),
        ("table_name = 'a' and table_name = 'b'", set()),
        ("table_name = 'a' or database_name = 'b'", None),
        ("table_name > 'a'", None),
        ("not (table_name = 'a')", None),
    ],
)
def test_wanted_names_are_those_that_must_be(where: str, wanted: set[str] | None) -> None:
    """Names are told by what every row must satisfy; anything else says nothing of them."""
    assert names_wanted(parse_where(where), "table_name") == wanted


def _conditions() -> st.SearchStrategy[Expr]:
    column, word = st.sampled_from(_NAMES).map(col), st.sampled_from(_WORDS)
    leaves = (
        st.builds(lambda one, value: one == value, column, word)
        | st.builds(lambda one, values: one.is_in(values), column, st.lists(word, min_size=1))
        | st.builds(lambda one, value: one < value, column, word)
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(all_of, inner, inner) | st.builds(any_of, inner, inner) | inner.map(lambda one: ~one)
        ),
        max_leaves=6,
    )


@settings(deadline=None, max_examples=50)
@given(_conditions())
def test_narrowing_loses_no_row(where: Expr) -> None:
    """Whatever a condition selects is among the names that it is said to want."""
    pairs = [(database, table) for database in _WORDS for table in _WORDS]
    rows = pa.table(dict(zip(_NAMES, map(list, zip(*pairs, strict=True)), strict=True)))
    assert is_about(where, _NAMES)
    found = rows.filter(matching(where, rows))
    for name in _NAMES:
        wanted = names_wanted(where, name)
        assert wanted is None or {*found[name].to_pylist()} <= wanted
