"""Whatever is imported is asked for, and whatever is asked for is pinned."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lakehouse._version import DISTRIBUTION
from tests.house.dependencies import Declared, undeclared, unpinned
from tests.house.source_tree import ROOT, none_of, parse, python_files

FOLDERS = ("lakehouse", "tests", "tools", "benchmarks", "examples")


def project() -> dict[str, dict[str, list[str]]]:
    """The project table of pyproject.toml."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, dict[str, list[str]]] = table["project"]
    return found


def constraints() -> list[str]:
    """The lines of constraints.txt."""
    return (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def test_whatever_is_imported_is_asked_for() -> None:
    """A fresh installation has every package that the code imports."""
    modules = [module for folder in FOLDERS for module in python_files(folder)]
    rows = undeclared(modules, Declared.parse(project()), packages_distributions())
    none_of(rows, "imported but not asked for:")


def test_constraints_pin() -> None:
    """Each line of constraints.txt pins one package to one version."""
    none_of(unpinned(constraints()), "constraints.txt: not name==version:")


def test_whatever_is_asked_for_is_pinned_within_its_bounds() -> None:
    """Each package that pyproject.toml asks for is pinned to a version that it accepts."""
    lines = [line for line in constraints() if line and not line.startswith("#")]
    pins = {canonicalize_name(name): version for name, _, version in (x.partition("==") for x in lines)}
    none_of(
        (
            f"{one}: pinned to {pins.get(canonicalize_name(one.name))}"
            for one in Declared.parse(project()).everything
            if not one.specifier.contains(pins.get(canonicalize_name(one.name), "0"))
            or canonicalize_name(one.name) not in pins
        ),
        "asked for but not pinned (make constraints):",
    )


def test_all_is_every_extra() -> None:
    """``aiolakehouse[all]`` brings every extra."""
    extras = project()["optional-dependencies"]
    named = re.fullmatch(rf"{DISTRIBUTION}\[(.+)\]", extras["all"][0])
    assert named
    assert set(named[1].split(",")) == set(extras) - {"all"}


def test_a_constraint_that_pins_nothing_is_found() -> None:
    """Editable installs, addresses and open ranges are no pins."""
    bad = ["-e .", "x @ file:x", "x>=1", "x"]
    assert list(unpinned(["# c", "", "a-b.c==1.0.post1", *bad])) == bad


DECLARED = Declared(
    always=(Requirement("numpy>=2"), Requirement("aiobotocore")),
    extras={"fast": (Requirement("obstore"),), "spark": (Requirement("pyspark"),)},
)


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("lakehouse/io/x.py", "import numpy", False),
        ("lakehouse/io/x.py", "import json, lakehouse.io", False),
        ("lakehouse/io/x.py", "from botocore.config import Config", False),
        ("lakehouse/io/x.py", "import xxhash", True),
        ("lakehouse/io/x.py", "import obstore", True),
        ("lakehouse/io/x.py", "def f(): import obstore", False),
        ("lakehouse/io/x.py", "def f(): import xxhash", True),
        ("lakehouse/io/x.py", "import importlib\nimportlib.import_module('xxhash')", True),
        ("lakehouse/io/x.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING: import xxhash", False),
        ("lakehouse/spark/x.py", "import pyspark", False),
        ("tests/x.py", "import pyspark", False),
        ("tests/x.py", "import xxhash", True),
        ("benchmarks/x.py", "import xxhash", True),
        ("benchmarks/x.py", "def f(): import some_peer", False),
    ],
)
def test_the_check_knows_what_is_asked_for(path: str, text: str, found: bool) -> None:
    """An import is found unless its package comes with the installation that runs it."""
    assert bool(list(undeclared([parse(path, text)], DECLARED, {}))) == found
