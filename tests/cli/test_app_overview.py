"""The overview of the command line says of every command what the command says of itself."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from lakehouse.cli.app import app_for

WIDE = {"COLUMNS": "300", "TERMINAL_WIDTH": "300"}


def shown(*words: str) -> str:
    """What the command line prints."""
    done = CliRunner().invoke(app_for(words), words, env=WIDE)
    assert done.exit_code == 0
    return done.output


def overview() -> dict[str, str]:
    """What is said of each command."""
    return dict(
        re.findall(r"^│ ([a-z-]+) +(\S.*\S) *│$", shown("--help").partition("Commands")[2], re.MULTILINE)
    )


@pytest.mark.parametrize(
    "name", ["table", "db", "store", "iceberg", "puffin", "index-metas", "check-store", "demo"]
)
def test_the_overview_says_what_the_command_says(name: str) -> None:
    """A command is loaded when it is called, and described as it describes itself."""
    assert overview()[name] in shown(name, "--help")


def test_a_wrong_word_is_answered_with_the_right_one() -> None:
    """A command that is not there is an error which names one that is."""
    done = CliRunner().invoke(app_for(["tabel"]), ["tabel"], env=WIDE)
    assert (done.exit_code, "'table'" in done.output) == (2, True)
