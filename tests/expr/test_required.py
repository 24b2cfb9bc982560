"""What a column must have for a condition to be true: every row that matches has it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr import bind, col, matching, parse_where
from lakehouse.expr.bounds import plain_value
from lakehouse.expr.nodes import Expr
from lakehouse.expr.required import Required, prefix_successor, required
from tests.kit.conditions import EXPRESSIONS, TABLE


def encoded(value: object) -> bytes:
    """Bytes that sort as small numbers, truth values and texts do."""
    plain = plain_value(value)
    if isinstance(plain, str):
        return plain.encode()
    return plain if isinstance(plain, bytes) else (int(plain) + 1000).to_bytes(4, "big")


@settings(deadline=None, max_examples=200)
@given(EXPRESSIONS, st.sampled_from(["id", "name", "raw", "flag"]))
def test_rows_that_match_have_what_is_required(expr: Expr, name: str) -> None:
    """A row for which the condition is true has a value in the range, and a listed one if there is a list."""
    bound = bind(expr, TABLE.schema)
    found = required(bound, name, encoded)
    if found is None:
        return
    for value in TABLE.filter(matching(bound, TABLE))[name].to_pylist():
        assert value is not None
        assert found.holds(encoded(value))
        assert found.values is None or encoded(value) in found.values


@given(st.binary(max_size=4), st.binary(max_size=6))
def test_the_successor_is_above_everything_with_the_prefix(prefix: bytes, other: bytes) -> None:
    """What is not below a prefix begins with it exactly when it is below the prefix's successor."""
    successor = prefix_successor(prefix)
    if other >= prefix:
        assert other.startswith(prefix) == (successor is None or other < successor)
    assert prefix_successor(b"\xff\xff") is None is prefix_successor(b"")


def test_what_is_required() -> None:
    """Comparisons, lists and prefixes require something, together more and as alternatives less."""

    def of(where: str) -> Required | None:
        return required(bind(parse_where(where), TABLE.schema), "name", encoded)

    assert of("name = 'b'") == Required(low=b"b", high=b"b", values=(b"b",))
    assert of("name > 'b' and name <= 'd' and id = 1") == Required(low=b"b", low_open=True, high=b"d")
    assert of("name > 'b' and name >= 'b'") == Required(low=b"b", low_open=True)
    assert of("name > 'b' or name >= 'b'") == Required(low=b"b")
    assert of("name < 'b' or name <= 'b'") == Required(high=b"b")
    assert of("name < 'b' and name <= 'b'") == Required(high=b"b", high_open=True)
    assert of("name in ('a', 'b', 'c') and name > 'a'") == Required(low=b"b", high=b"c", values=(b"b", b"c"))
    assert of("name like 'ab%'") == Required(low=b"ab", high=b"ac", high_open=True)
    assert of("name = 'b' or name > 'd'") == Required(low=b"b")
    assert of("name = 'b' or id = 1") is None
    assert of("name <> 'b'") is None
    assert of("name = 'a' and name = 'b'") == Required(values=())
    assert of("(name = 'a' and name = 'b') or name = 'c'") == Required(low=b"c", high=b"c", values=(b"c",))
    assert required(bind(col("flag"), TABLE.schema), "flag", encoded) == Required(
        low=encoded(True), high=encoded(True), values=(encoded(True),)
    )
