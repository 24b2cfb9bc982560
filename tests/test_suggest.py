"""Suggestions for names that are not there."""

from __future__ import annotations

import pytest

from lakehouse.suggest import nearest, suggestion


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("amuont", ["id", "amount"], "amount"),
        ("AMOUNT", ["id", "amount"], "amount"),
        ("amount", ["AMOUNT"], "AMOUNT"),
        ("zzz", ["id", "amount"], None),
        ("id", [], None),
    ],
)
def test_nearest(name: str, known: list[str], found: str | None) -> None:
    """The nearest name is found whatever its case, and none where none is near."""
    assert nearest(name, known) == found


def test_a_near_name_is_suggested() -> None:
    """A near name becomes a question."""
    assert suggestion("idd", ["id", "amount"]) == "did you mean 'id'?"


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (["a", "b"], "there is a, b"),
        ([], "there is none"),
        ([str(n) for n in range(30)], "there is " + ", ".join(str(n) for n in range(20)) + ", …"),
    ],
)
def test_what_there_is_is_listed(known: list[str], says: str) -> None:
    """Without a near name the known ones are listed, not more than twenty."""
    assert suggestion("qqqq", known) == says
