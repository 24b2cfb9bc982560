"""Trees of queries: bounds of what is parsed, and the names that each place sees."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.catalog.views import query_tree, tree_nodes
from lakehouse.catalog.views.query_trees import _deep_tree
from lakehouse.errors import InvalidInputError


@pytest.mark.parametrize(
    "text",
    [
        "select " + "(" * 100_000 + "1" + ")" * 100_000,
        "select " + "(" * 2_000,
        "select * from (" * 3_000 + "select 1" + ")" * 3_000,
        "select " + "[" * 251,
        "select " + "{'a':" * 251,
        "with x as (" * 30,
        "WITH x as (/* c */\n" * 7,
        "with x as materialized (" * 7,
        "with x as (describe " * 20,
        "select 1 union (summarize " * 20,
        "select " + "array(select 1 order by (" * 20 + "1" + "))" * 20,
        "with recursive x as (explain " * 8,
        "with x as (prepare p as " * 8,
    ],
)
def test_what_nests_deeper_than_the_parser_is_good_for_is_refused(text: str) -> None:
    """Brackets that take the parser minutes or gigabytes end before it sees them."""
    with pytest.raises(InvalidInputError, match=r"nests too deep|200,000 are parsed"):
        query_tree(text)


def test_too_many_tokens_are_refused() -> None:
    """The parser takes kilobytes for each value of a list."""
    with pytest.raises(InvalidInputError, match="200,000 are parsed at most: give values as parameters"):
        query_tree("select 1 in (" + "1," * 100_000 + "1)")


def test_too_many_names_are_refused() -> None:
    """The sets of names that places see stay small."""
    texts = ", ".join(f"x{one} as (select 1)" for one in range(1_001))
    tree = query_tree(f"with {texts} select 1")
    with pytest.raises(InvalidInputError, match="more than 1,000 names"):
        list(tree_nodes(tree["statements"]))


@pytest.mark.parametrize("text", ["select " + "not " * 50_000 + "true", "select 1" + "::int" * 5_000])
def test_what_nests_without_brackets_is_refused_by_the_parser(text: str) -> None:
    """The parser's own bound is an error as any other of it."""
    assert "depth" in query_tree(text)["error_message"]


@pytest.mark.parametrize(
    "text",
    [
        "select * from (" * 249 + "from s.t" + ")" * 249,
        "select " + "+".join(["a"] * 900) + " from s.t",
        "from s.t " + " ".join(f"join u{one} on true" for one in range(1_000)),
        "with x as (" * 5 + "from s.t" + ") from x" * 5,
        " union all ".join(["select 1"] * 2_000 + ["from s.t"]),
    ],
)
def test_what_nests_within_the_bounds_is_read_to_its_depth(text: str) -> None:
    """Trees deeper than Python's decoder goes are read all the same."""
    tree = query_tree(text)
    names = [
        node["table_name"] for node, _ in tree_nodes(tree["statements"]) if node.get("type") == "BASE_TABLE"
    ]
    assert names.count("t") == 1


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), _JSON, max_size=4), st.booleans(), st.sampled_from([None, (",", ":")]))
def test_deep_trees_are_read_as_the_decoder_reads_shallow_ones(
    value: dict[str, object], ascii_only: bool, separators: tuple[str, str] | None
) -> None:
    """Strings with any marks, empty containers and numbers come out the same."""
    text = json.dumps(value, ensure_ascii=ascii_only, separators=separators)
    assert _deep_tree(text) == json.loads(text)
