"""Modules export what they say, and say what they export."""

from __future__ import annotations

import importlib

import pytest

from tests.house.public_names import (
    exported,
    more_than_reexports,
    undocumented,
    unruly_test_docstrings,
    untrue_exports,
)
from tests.house.source_tree import library, none_of, parse, python_files


def test_exports_are_true() -> None:
    """Every module has an ``__all__`` that names its public definitions and nothing else."""
    none_of(untrue_exports(library()), "__all__ and the code differ:")


def test_packages_only_reexport() -> None:
    """Code lives in modules; an ``__init__`` passes names on."""
    none_of(more_than_reexports(library()), "definitions in an __init__:")


def test_lazy_exports_exist() -> None:
    """A package that loads its names on demand has each name it lists."""
    missing = []
    for module in library():
        if module.is_package and "def __getattr__" in module.text:
            loaded = importlib.import_module(module.name)
            missing += [f"{module.path}: {n}" for n in exported(module) or () if not hasattr(loaded, n)]
    none_of(missing, "names listed but not there:")


def test_everything_public_is_documented() -> None:
    """Modules, classes, functions and methods that people may use say what they are for."""
    none_of(undocumented(library()), "no docstring:")


def test_every_test_states_its_rule() -> None:
    """A test's docstring is one sentence that states a rule; together they read as a specification."""
    none_of(unruly_test_docstrings(python_files("tests")), "test docstrings:")


@pytest.mark.parametrize(
    ("text", "offence"),
    [
        ("def f(): pass", "has no __all__"),
        ("__all__ = []\ndef f(): pass", "public but not in __all__: f"),
        ("__all__ = []\nLIMIT: int = 1", "public but not in __all__: LIMIT"),
        (
            "__all__ = []\ntry:\n    A, B = 1, 2\nexcept ValueError:\n    pass",
            "public but not in __all__: A, B",
        ),
        ("__all__ = ['g']", "lists g, which is not there"),
        ("__all__ = ['f', 'f']\ndef f(): pass", "lists f twice"),
        (
            "from typing import TYPE_CHECKING\n__all__ = ['T']\nif TYPE_CHECKING:\n    T = int",
            "T, which is not there",
        ),
    ],
)
def test_the_checker_finds_untrue_exports(text: str, offence: str) -> None:
    """A missing, short or long ``__all__`` is found."""
    assert offence in "\n".join(untrue_exports([parse("lakehouse/io/x.py", text)]))


@pytest.mark.parametrize(
    "text",
    [
        "__all__ = ['C', 'f']\nimport os\nfrom x import y\nclass C: pass\nasync def f(): pass\n_a = 1",
        "__all__: list[str] = []\nlog = get_logger(__name__)\nT = TypeVar('T')",
    ],
)
def test_the_checker_accepts_true_exports(text: str) -> None:
    """Imports, private names, type variables and the module's logger are no exports."""
    assert not list(untrue_exports([parse("lakehouse/io/x.py", text)]))


def test_the_checker_compares_reexports() -> None:
    """A package re-exports only what its modules export, and lists all it re-exports."""
    package = parse("lakehouse/io/__init__.py", "from lakehouse.io.x import f, g\n__all__ = ['f']")
    module = parse("lakehouse/io/x.py", "__all__ = ['g']\ndef g(): pass\ndef _f(): pass")
    assert sorted(untrue_exports([package, module])) == [
        "lakehouse/io/__init__.py: public but not in __all__: g",
        "lakehouse/io/__init__.py: re-exports f, which lakehouse/io/x.py does not export",
    ]


def test_the_checker_finds_missing_docstrings() -> None:
    """Public things without a docstring are found, private and inherited ones are left alone."""
    text = """
class C:
    def m(self): pass
    def _p(self): pass
    def __len__(self): return 0
    @override
    def o(self): pass
    class _D:
        def n(self): pass
def _f():
    def inner(): pass
if True:
    def g(): pass
"""
    assert list(undocumented([parse("lakehouse/io/x.py", text)])) == [
        "lakehouse/io/x.py has no docstring",
        "lakehouse/io/x.py:2 C has no docstring",
        "lakehouse/io/x.py:3 C.m has no docstring",
        "lakehouse/io/x.py:13 g has no docstring",
    ]


def test_an_override_is_documented_by_what_it_overrides() -> None:
    """A documented method covers those that override it, through any number of classes, and no others."""
    module = parse(
        "lakehouse/io/x.py",
        '''"""A module."""
class A:
    """A."""
    def m(self):
        """Does m."""
class B(A):
    """B."""
class C(B, Generic[T]):
    """C."""
    def m(self): pass
    def n(self): pass
class P(Protocol):
    """P."""
    def m(self): ...
    def q(self): ...
''',
    )
    assert list(undocumented([module])) == [
        "lakehouse/io/x.py:11 C.n has no docstring",
        "lakehouse/io/x.py:15 P.q has no docstring",
    ]


@pytest.mark.parametrize(
    ("docstring", "offence"),
    [
        ("", "has no docstring"),
        ("A commit is atomic", "does not end with a full stop"),
        ("A commit is atomic.\n\n    More.", "more than one paragraph"),
        ("A commit is atomic. It is.", "more than one sentence"),
        ("Tests that a commit is atomic.", "tells of a test"),
    ],
)
def test_the_checker_finds_unruly_docstrings(docstring: str, offence: str) -> None:
    """A docstring that is not one sentence stating a rule is found."""
    text = f'def test_x():\n    """{docstring}"""\n'
    assert offence in "".join(unruly_test_docstrings([parse("tests/test_x.py", text)]))


@pytest.mark.parametrize(
    "docstring",
    [
        "A commit is atomic.",
        "Keys, e.g. Unicode ones, keep\n    their order.",
        "Half of 1. is .5, as in 0.5 MiB.",
    ],
)
def test_the_checker_accepts_rules(docstring: str) -> None:
    """One sentence may run over lines and hold abbreviations and numbers."""
    text = f'def test_x():\n    """{docstring}"""\n'
    assert not list(unruly_test_docstrings([parse("tests/test_x.py", text)]))
