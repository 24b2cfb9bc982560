"""What is installed is called ``aiolakehouse``, wherever one is told to install it."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from lakehouse._version import DISTRIBUTION, install_command
from tests.house.repository import old_names
from tests.house.source_tree import ROOT, none_of, texts
from tests.house.test_dependencies import project


def test_the_distribution_has_one_name() -> None:
    """pyproject.toml builds the distribution that messages name."""
    assert project()["name"] == DISTRIBUTION


def test_nothing_tells_people_to_install_the_other_project() -> None:
    """No document, message or script installs ``lakehouse``, which is another project's."""
    rows = (row for item in texts().items() for row in old_names(*item))
    none_of(rows, "the distribution is called aiolakehouse:")


@pytest.mark.parametrize(
    "line",
    [
        "pip install {name}",
        "python -m pip install -q '{name}[spark,fast]' venv-pack",
        "uv add {name}==0.1",
        "it needs `{name}[fulltext]`",
    ],
)
def test_the_scan_finds_the_other_project(line: str) -> None:
    """The name is found behind a command that installs, and in front of extras."""
    assert list(old_names("docs/x.md", line.format(name="lakehouse")))


@pytest.mark.parametrize(
    "line", [install_command("fast"), install_command(), "lakehouse table list", "kept: lakehouse[name]"]
)
def test_the_scan_knows_the_right_name(line: str) -> None:
    """The right name, the command and code that looks something up are no offence."""
    assert not list(old_names("docs/x.md", line))


def test_the_readme_lists_every_extra() -> None:
    """Whoever installs finds in the README what each extra adds."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([a-z]+)` \|", readme, re.MULTILINE))
    assert listed >= set(project()["optional-dependencies"]) - {"dev"}


def test_an_environment_of_the_old_name_is_made_new() -> None:
    """``make setup`` takes the old distribution away before it installs: entry points are there once."""
    command = ["make", "-n", "--what-if=pyproject.toml", "setup"]
    env = {**os.environ, "MAKEFLAGS": ""}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=env, check=True)
    gone = done.stdout.index("pip uninstall --quiet --yes lakehouse")
    assert gone < done.stdout.index("--editable '.[all]'")
