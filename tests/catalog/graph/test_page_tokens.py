"""Page tokens: made for one listing, and good for no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.catalog.graph.page_tokens import page_token, read_page_token
from lakehouse.errors import InvalidInputError

_SCOPE = st.lists(st.text(max_size=8), max_size=4)


@given(_SCOPE, st.text(max_size=40))
def test_a_token_gives_back_its_name(scope: list[str], after: str) -> None:
    """Whatever the name, the listing that it was made for reads it."""
    assert read_page_token(scope, page_token(scope, after)) == after


@given(_SCOPE, _SCOPE)
def test_a_token_of_another_scope_is_refused(one: list[str], other: list[str]) -> None:
    """No two scopes share tokens, however their texts are cut."""
    if one != other:
        with pytest.raises(InvalidInputError):
            read_page_token(other, page_token(one, "x"))


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_token_is_refused(at: int, by: int) -> None:
    """A token of which any character was changed is not accepted."""
    token = page_token(["a"], "name")
    at %= len(token)
    changed = token[:at] + chr((ord(token[at]) + by) % 128) + token[at + 1 :]
    if changed != token:
        try:
            assert read_page_token(["a"], changed) == "name", "spare bits of the last character say nothing"
        except InvalidInputError:
            return


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.hex()))
def test_no_text_is_more_than_refused(text: str) -> None:
    """Whatever stands in a token's place is an InvalidInputError."""
    with pytest.raises(InvalidInputError):
        read_page_token(["a"], text)
