"""Validation of builtins' files together."""

from __future__ import annotations

import re
from pathlib import Path

from lakehouse.catalog.system import validate_builtins

_HEAD = b'format = 1\nengine = "%s"\nsource = "a test"\n'
_FUNCTION = b'[[functions]]\nname = "f"\nsignatures = ["(%s)"]\n'


def test_types_of_the_packages_file_are_known() -> None:
    """A file that is laid over one of the package uses its types, by any of their names."""
    report = validate_builtins({"mine.toml": _HEAD % b"postgres" + _FUNCTION % b"int4"})
    assert report.is_good(strict=True)
    assert str(report) == "1 files with 1 builtins: 0 errors, 0 warnings"


def test_types_of_another_engine_are_not_known() -> None:
    """What one engine calls a type is nothing to another."""
    report = validate_builtins(
        {
            "a.toml": _HEAD % b"one" + b'[[types]]\nname = "X"\n',
            "b.toml": _HEAD % b"two" + _FUNCTION % b"X",
            "c.toml": _HEAD % b"one" + _FUNCTION % b"X",
        }
    )
    assert [(each.file, each.code) for each in report.problems] == [("b.toml", "unknown-type")]


def test_types_of_files_for_every_engine_are_known_in_all() -> None:
    """A type that every engine has is known in the files of each."""
    shared = b'format = 1\nengine = "*"\nsource = "a test"\n[[types]]\nname = "X"\n'
    report = validate_builtins({"all.toml": shared, "b.toml": _HEAD % b"two" + _FUNCTION % b"X"})
    assert report.problems == ()


def test_the_file_in_the_guide_is_good() -> None:
    """The example of a file that the guide shows passes strictly."""
    page = Path(__file__).parents[3] / "docs" / "guides" / "engines.md"
    found = re.search(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    assert found is not None
    report = validate_builtins({"planner.toml": found[1].encode()})
    assert [str(each) for each in report.problems] == []
    assert report.builtins == 3
