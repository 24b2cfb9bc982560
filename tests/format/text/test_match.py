"""Which texts have all words of a query: exactly those whose tokens hold the query's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.text.config import Analyzer, FulltextConfig
from lakehouse.format.text.match import matches
from lakehouse.format.text.tokens import query_tokens, tokenize

PIECES = ["disk", "FULL", "disk_full", "_", "ΟΔΟΣ", "οδος", "é", "手机号", "3.14", "…", ""]
texts = st.lists(st.none() | st.lists(st.sampled_from(PIECES), max_size=4).map(" ".join), max_size=8)


configs = st.builds(FulltextConfig, analyzer=st.sampled_from(Analyzer), case_sensitive=st.booleans())


@settings(deadline=None)
@given(texts, st.lists(st.sampled_from(PIECES), max_size=3).map(" ".join), configs)
def test_a_row_matches_when_it_has_all_tokens(
    rows: list[str | None], terms: str, config: FulltextConfig
) -> None:
    """A text matches when every token of the query is one of its own, and a null is null."""
    array = pa.array(rows, pa.string())
    wanted = set(query_tokens(terms, config))
    tokens = tokenize(array, config).to_pylist()
    expected = [
        None if row is None else wanted <= set(found) for row, found in zip(rows, tokens, strict=True)
    ]
    assert matches(array, terms, config).to_pylist() == expected
    pieces = pa.chunked_array([array[:2], array[2:]], pa.string())
    assert matches(pieces, terms, config).to_pylist() == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ("disk", [True, False, True, None]),
        ("Full disk", [True, False, False, None]),
        ("disk disk", [True, False, True, None]),
        ("disk_full", [False, True, False, None]),
        ("...", [True, True, True, None]),
        ("", [True, True, True, None]),
    ],
)
def test_words_as_people_mean_them(terms: str, expected: list[bool | None]) -> None:
    """Words stand in any order, in any case and any number of times; a name with ``_`` is one word."""
    rows = pa.array(["The disk is full", "disk_full", "DISK", None])
    assert matches(rows, terms).to_pylist() == expected


def test_no_rows() -> None:
    """Of no rows none matches."""
    assert matches(pa.array([], pa.string()), "x").to_pylist() == []
    assert matches(pa.chunked_array([], pa.string()), "x").to_pylist() == []
