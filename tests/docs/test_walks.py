"""The walks through the code lead through code that is there, and that the call of the walk runs through.

A step is written as ``path/module.py:function`` or ``path/module.py:Class.method`` in code marks, with the
path below ``lakehouse/``. What stands under *When it goes another way* has to be there, and need not be
called.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "walks").glob("*.md"))
STEP = re.compile(r"`(?P<path>[a-z0-9_/]+\.py):(?P<name>[\w.]+)`")
OTHER_WAYS = "\n## When it goes another way\n"
STEPS_LEAST = 15
FRAMES_MOST = {"upsert": 15, "scan": 14, "put": 14, "compact": 18, "index-metas": 14}
"""Functions of the package that may wait for one request; only to be lowered."""

Walked = Mapping[str, tuple[list[str], list[str]]]
"""By walk, the functions that were called, and those that waited for one request at its deepest."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def steps(text: str) -> list[tuple[str, str]]:
    """Finds path and name of every step of a text."""
    return [(match["path"], match["name"]) for match in STEP.finditer(text)]


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Names the functions and classes of a body, methods as ``Class.method``."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from definitions(node.body, f"{prefix}{node.name}.")


@cache
def names_in(path: str) -> frozenset[str]:
    """Names all that a module of the package defines; nothing when it is not there."""
    file = ROOT / "lakehouse" / path
    if not file.is_file():
        return frozenset()
    return frozenset(definitions(ast.parse(file.read_text(encoding="utf-8")).body))


def lost(text: str) -> list[str]:
    """Finds the steps of a text that lead nowhere."""
    return [f"{path}:{name}" for path, name in steps(text) if name not in names_in(path)]


def not_called(text: str, called: set[str]) -> list[str]:
    """Finds the steps of a text that were not called; a class is called when one of its methods is."""
    heads = {name.rpartition(".")[0] for name in called}
    named = [f"{path}:{name}" for path, name in steps(text)]
    return [step for step in named if step not in called and step not in heads]


@pytest.fixture(scope="module")
def walked() -> Walked:
    """Runs all walks in a process of their own: by walk, the functions called, and the deepest of them."""
    command = [sys.executable, "-m", "tests.docs.walked"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    found: Walked = json.loads(done.stdout)
    return found


def test_there_are_five_walks() -> None:
    """Upsert, scan, put, compact and the enumeration of indexes are walked through."""
    assert {page.stem for page in PAGES} == {"upsert", "scan", "put", "compact", "index-metas"}


@each_page
def test_every_step_is_there(page: Path) -> None:
    """A step names a function, a class or a method that its module defines."""
    text = page.read_text(encoding="utf-8")
    assert len(steps(text)) >= STEPS_LEAST
    assert lost(text) == []


@each_page
def test_the_call_goes_through_every_step(page: Path, walked: Walked) -> None:
    """The call that a walk is about runs through its steps, those of other ways aside."""
    way, _, _ = page.read_text(encoding="utf-8").partition(OTHER_WAYS)
    called, _ = walked[page.stem]
    assert not_called(way, set(called)) == []


@each_page
def test_a_walk_is_no_deeper_than_it_was(page: Path, walked: Walked) -> None:
    """No more functions stand between the call and the store than once did."""
    _, frames = walked[page.stem]
    assert len(frames) <= FRAMES_MOST[page.stem], "\n".join(frames)


@pytest.mark.parametrize(
    "step", ["io/store.py:ObjectStore.nothing", "io/store.py:nothing", "io/nowhere.py:ObjectStore"]
)
def test_a_step_that_is_not_there_is_found(step: str) -> None:
    """A module, a function and a method that do not exist are each told."""
    assert lost(f"1. `io/store.py:ObjectStore.get` reads, `{step}` does not.") == [step]


def test_a_step_that_is_not_called_is_found() -> None:
    """A function that nobody has called is told; a class counts by its methods."""
    called = {"io/store.py:ObjectStore.get"}
    assert not_called("`io/store.py:ObjectStore`, `io/store.py:ObjectStore.get`", called) == []
    assert not_called("`io/store.py:ObjectStore.put`", called) == ["io/store.py:ObjectStore.put"]
