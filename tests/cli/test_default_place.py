"""``LAKEHOUSE_WAREHOUSE``: commands without a place are about that warehouse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.cli.default_place import is_place
from tests.cli.tables.test_commands import Run, orders, run, warehouse  # noqa: F401 - fixtures


@pytest.fixture
def placed(orders: str, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: F811
    """A warehouse that the environment names."""
    monkeypatch.setenv("LAKEHOUSE_WAREHOUSE", orders)
    return orders


@pytest.mark.parametrize(
    "words",
    [
        ("table", "list", "sales"),
        ("table", "list"),
        ("table", "list", "--prefix", "or"),
        ("db", "list", "--json"),
        ("table", "scan", "--limit", "2", "sales.orders", "--json"),
        ("table", "get", "sales.orders", "id=1"),
        ("catalog", "resolve", "sales.orders"),
        ("manifests", "sales"),
        ("store", "ls"),
        ("index-metas",),
    ],
)
def test_a_place_may_be_left_out(words: tuple[str, ...], placed: str, run: Run) -> None:  # noqa: F811
    """With the variable a command does what it does with the place as its first word."""
    short = run(*words)
    count = 1 if words[0] in ("manifests", "index-metas") else 2
    assert short == run(*words[:count], placed, *words[count:])
    assert short.code == 0, short.err


def test_a_place_that_is_given_wins(placed: str, run: Run, tmp_path: Path) -> None:  # noqa: F811
    """A URL or a path on the command line is the place, whatever the variable says."""
    assert run("db", "list", f"{tmp_path}/other").out == ""
    assert run("db", "list").out != ""


def test_without_the_variable_a_place_is_needed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A command without a place, and nothing that names one, is wrong usage."""
    monkeypatch.delenv("LAKEHOUSE_WAREHOUSE", raising=False)
    assert run("db", "list").code == 2


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("s3://b", True),
        ("/w", True),
        ("./w", True),
        ("a/b", True),
        ("..", True),
        ("sales", False),
        ("a.b", False),
    ],
)
def test_places_have_a_slash(word: str, expected: bool) -> None:
    """A word is a place by how it looks, never by what there is."""
    assert is_place(word) is expected
    assert not is_place(None)


def test_a_shell_is_told_the_commands_of_a_group() -> None:
    """Completion knows the commands of the group that was typed, which is loaded for it."""
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv = ['lakehouse']; from lakehouse.cli import main; main()",
    ]
    asked = {"_LAKEHOUSE_COMPLETE": "complete_bash", "COMP_WORDS": "lakehouse table sc", "COMP_CWORD": "2"}
    done = subprocess.run(command, env=asked, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["schemas", "scan"]
