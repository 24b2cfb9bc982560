"""Page tokens: made for one listing, and good for no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.catalog.graph.page_tokens import PageTokens
from lakehouse.errors import InvalidInputError

_SCOPE = st.lists(st.text(max_size=8), max_size=4)


@given(_SCOPE, st.text(max_size=40))
def test_a_token_gives_back_its_name(scope: list[str], after: str) -> None:
    """Whatever the name, the listing that it was made for reads it."""
    tokens = PageTokens(b"key")
    assert tokens.read(scope, tokens.make(scope, after)) == after


@given(_SCOPE, _SCOPE)
def test_a_token_of_another_scope_is_refused(one: list[str], other: list[str]) -> None:
    """No two scopes share tokens, however their texts are cut."""
    tokens = PageTokens(b"key")
    if one != other:
        with pytest.raises(InvalidInputError):
            tokens.read(other, tokens.make(one, "x"))


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_changed_token_is_refused(at: int, by: int) -> None:
    """A token of which any character was changed is not accepted."""
    tokens = PageTokens(b"key")
    token = tokens.make(["a"], "name")
    at %= len(token)
    changed = token[:at] + chr((ord(token[at]) + by) % 128) + token[at + 1 :]
    if changed != token:
        try:
            assert tokens.read(["a"], changed) == "name", "spare bits of the last character say nothing"
        except InvalidInputError:
            return
