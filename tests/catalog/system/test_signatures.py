"""Signatures in builtins' files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.catalog.system.signatures import Signature, head_of, parse_signature


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("()", Signature((), False, None)),
        ("() -> DATE", Signature((), False, "DATE")),
        ("(VARCHAR, ANY...) -> BIGINT", Signature(("VARCHAR", "ANY"), True, "BIGINT")),
        ("(DECIMAL(18, 3), MAP(K, V)[])", Signature(("DECIMAL(18, 3)", "MAP(K, V)[]"), False, None)),
        ("(map<string, int>) -> array<int>", Signature(("map<string, int>",), False, "array<int>")),
        ('("any") -> STRUCT("key" K, v V)[]', Signature(('"any"',), False, 'STRUCT("key" K, v V)[]')),
        ("(timestamp with time zone)", Signature(("timestamp with time zone",), False, None)),
    ],
)
def test_signatures_are_read(text: str, expected: Signature) -> None:
    """Commas and brackets inside types belong to the types."""
    assert parse_signature(text) == expected


@pytest.mark.parametrize(
    "text", ["", "INT", "(", "(INT", "(INT,)", "(,)", "(INT) ->", "(INT) INT", "(INT) -> A)", "(...)", "()()"]
)
def test_what_is_no_signature_is_told(text: str) -> None:
    """Brackets that do not match, arguments that are missing and words in wrong places make no signature."""
    assert parse_signature(text) is None


@given(st.text(alphabet='()[]<>,->. "AB', max_size=30))
def test_any_text_is_a_signature_or_none(text: str) -> None:
    """No text makes the reader fail, and what it reads has no empty argument."""
    found = parse_signature(text)
    assert found is None or all(found.arguments)


@pytest.mark.parametrize(
    ("text", "head", "rest"),
    [("INT", "INT", ""), ("DECIMAL(18, 3)", "DECIMAL", "(18, 3)"), ("INT[][]", "INT", "[][]"),
     ("map<a, b>", "map", "<a, b>"), ('"any"', '"any"', ""), ("double x[]", "double x", "[]")],
)  # fmt: skip
def test_the_head_of_a_type_is_its_name(text: str, head: str, rest: str) -> None:
    """A type is a name and what stands behind it."""
    assert head_of(text) == (head, rest)
