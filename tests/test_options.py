"""Declared options: what text says, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from lakehouse.options import Option, declare, declared


def option(kind: str, *, field: str = "x", **about: Any) -> Option:
    """An option of a type."""
    return Option(name="a.x", field=field, type=kind, **about)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", " 7 ", 7),
        ("float", "1.5", 1.5),
        ("float", "2", 2.0),
        ("bool", "Yes", True),
        ("bool", "OFF", False),
        ("str", " as it is ", " as it is "),
    ],
)
def test_text_becomes_a_value(kind: str, text: str, value: object) -> None:
    """Text is read as the option's type; free text stays as it is."""
    read = option(kind).read(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "size"), [("64", 64), ("64b", 64), ("2 KB", 2048), ("1MiB", 1 << 20), ("3g", 3 << 30)]
)
def test_bytes_may_have_units(text: str, size: int) -> None:
    """A number of bytes may have a unit, which counts in steps of 1,024; another number may not."""
    assert option("int", field="max_bytes").read(text) == size
    assert (option("int").read(text) == size) == text.isdigit()


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("int", "-1", "a whole number"),
        ("int", "1.0", "a whole number"),
        ("int", "9" * 5000, "a whole number"),
        ("float", "1e3", "a number"),
        ("float", "inf", "a number"),
        ("bool", "maybe", "true or false"),
    ],
)
def test_text_that_says_no_value_is_refused(kind: str, text: str, wanted: str) -> None:
    """What is no value of the type is known as such, with the type in words."""
    made = option(kind)
    assert made.wanted(made.read(text)) == wanted


def test_values_are_bounded() -> None:
    """Bounds are included, and choices are read without regard to case."""
    bounded = option("int", low=1, high=9)
    assert [bounded.wanted(value) for value in (0, 1, 9, 10)] == ["at least 1", "", "", "at most 9"]
    chosen = option("str", choices=("auto", "off"))
    assert [chosen.wanted(chosen.read(text)) for text in ("AUTO", "on")] == ["", "one of auto, off"]


@pytest.mark.parametrize(
    ("kind", "value"), [("int", True), ("float", float("nan")), ("bool", 1), ("str", 1), ("int", None)]
)
def test_values_of_another_type_are_refused(kind: str, value: object) -> None:
    """A truth value is no number, NaN is none, and nothing is not a value."""
    assert option(kind).wanted(value)


@dataclass(frozen=True)
class Group:
    """A group of options."""

    size_bytes: int = declare(3, "How large.", low=1)
    other: str = ""


def test_declarations_stand_in_fields() -> None:
    """A declared field says name, type, default and bounds; other fields are no options."""
    made = [Option(name="group.size_bytes", **about) for about in declared(Group)]
    expected = Option(
        name="group.size_bytes", field="size_bytes", type="int", default=3, doc="How large.", low=1
    )
    assert made == [expected]
    assert Group().size_bytes == 3
