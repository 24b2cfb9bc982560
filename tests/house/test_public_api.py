"""The names that users import: each is there, and none came or went unnoticed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator

import pytest

from tests.house.source_tree import ROOT, none_of

_GOLDEN = ROOT / "tests" / "data" / "public-names.txt"
_DOORS = (
    "lakehouse",
    "lakehouse.cache",
    "lakehouse.expr",
    "lakehouse.iceberg",
    "lakehouse.index",
    "lakehouse.io",
    "lakehouse.reports",
    "lakehouse.spark",
    "lakehouse.sync",
    "lakehouse.sync.iceberg",
    "lakehouse.testing",
)
_PLACES = ("lakehouse.io.scratch.ScratchSpace",)
"""Names that guides import from a module."""


def _offered() -> list[str]:
    """Every public name with the package that gives it out."""
    names = [f"{door}.{name}" for door in _DOORS for name in importlib.import_module(door).__all__]
    return sorted([*names, *_PLACES])


def _differences(offered: Iterable[str], promised: Iterable[str]) -> Iterator[str]:
    now, then = set(offered), set(promised)
    listed = _GOLDEN.relative_to(ROOT)
    yield from (f"{name} is gone" for name in sorted(then - now))
    yield from (f"{name} is new: add it to {listed}" for name in sorted(now - then))


def test_public_names_stay() -> None:
    """What users import today they can import tomorrow, and a new name is added to the list knowingly."""
    none_of(_differences(_offered(), _GOLDEN.read_text(encoding="utf-8").split()), "public names:")


@pytest.mark.parametrize("name", _GOLDEN.read_text(encoding="utf-8").split())
def test_a_public_name_can_be_imported(name: str) -> None:
    """Each name of the list is an attribute of the package that promises it."""
    door, _, attribute = name.rpartition(".")
    assert getattr(importlib.import_module(door), attribute) is not None


def test_a_difference_is_found() -> None:
    """A name that went and one that came are both offences."""
    found = list(_differences(["lakehouse.a", "lakehouse.new"], ["lakehouse.a", "lakehouse.old"]))
    assert found == [
        "lakehouse.old is gone",
        "lakehouse.new is new: add it to tests/data/public-names.txt",
    ]
