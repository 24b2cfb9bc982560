"""Things that a process keeps open."""

from __future__ import annotations

import os

import pytest

from lakehouse.spark.runtime.kept import Kept


def test_a_thing_is_made_once_and_the_first_makes_room() -> None:
    """What is asked for again is the same, until more were opened since than are kept."""
    closed: list[str] = []
    kept: Kept[str] = Kept(2, closed.append)
    first = kept.get("a", lambda: "first")
    assert kept.get("a", lambda: "second") is first
    kept.get("b", lambda: "b")
    assert closed == []
    kept.get("c", lambda: "c")
    assert closed == ["first"]
    assert kept.get("a", lambda: "second") == "second"


def test_nothing_of_a_parent_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """In another process everything is made anew, and what the parent has open is not closed."""
    closed: list[str] = []
    kept: Kept[str] = Kept(2, closed.append)
    kept.get("a", lambda: "parent's")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert kept.get("a", lambda: "child's") == "child's"
    assert closed == []
