"""Files and functions stay small, names say something, and some constructs stay out."""

from __future__ import annotations

import pytest

from lakehouse.errors import KINDS
from tests.house import budgets
from tests.house.allowances import BROAD_EXCEPTS, PRINTS
from tests.house.source_tree import Module, library, none_of, parse, python_files, within

FOLDERS = ("lakehouse", "tests", "tools", "benchmarks", "examples")


def everything() -> list[Module]:
    """All Python files of the project."""
    return [module for folder in FOLDERS for module in python_files(folder)]


def test_files_fit_their_budget() -> None:
    """A file is short enough to be read in one go."""
    none_of(budgets.long_files(everything()), "files over budget:")


def test_functions_fit_on_a_screen() -> None:
    """A function is short enough to be seen at once."""
    none_of(budgets.long_functions(everything()), "functions over budget:")


def test_the_package_is_flat() -> None:
    """Modules are one folder below the package, two at most."""
    none_of(budgets.too_deep(library()), "modules too deep:")


def test_modules_are_named_after_their_content() -> None:
    """No module is called after nothing in particular."""
    none_of(budgets.vague_names(library()), "vague names:")


def test_the_library_does_not_print() -> None:
    """Only the command line writes to the terminal."""
    within(budgets.prints(library()), PRINTS, "prints:")


def test_tasks_run_in_groups() -> None:
    """No task is left running when its neighbour fails."""
    none_of(budgets.gathers(library()), "gathers:")


def test_errors_are_not_swallowed() -> None:
    """Handlers name the errors they expect; foreign libraries are met in lakehouse/io/backends."""
    found = [f for f in budgets.broad_excepts(library()) if not f[0].startswith("lakehouse/io/backends/")]
    within(found, BROAD_EXCEPTS, "handlers that take every error:")


def test_kinds_are_registered() -> None:
    """Every kind an error is raised with is one that programs can look up."""
    none_of(budgets.unregistered_kinds(library(), KINDS), "unregistered kinds:")


def test_nothing_is_left_unfinished() -> None:
    """What is committed is done."""
    none_of(budgets.unfinished(everything()), "unfinished:")


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (budgets.long_files, "lakehouse/x.py", "\n" * 601),
        (budgets.long_files, "lakehouse/io/__init__.py", "\n" * 131),
        (budgets.long_functions, "lakehouse/x.py", "def f():\n" + "    x = 1\n" * 70),
        (budgets.too_deep, "lakehouse/io/backends/s3/x.py", ""),
        (budgets.vague_names, "lakehouse/io/utils.py", ""),
        (budgets.vague_names, "lakehouse/common/x.py", ""),
        (budgets.prints, "lakehouse/io/x.py", "print(1)"),
        (budgets.gathers, "lakehouse/io/x.py", "async def f(): await asyncio.gather(a, b)"),
        (budgets.gathers, "lakehouse/io/x.py", "from asyncio import gather"),
        (budgets.unfinished, "lakehouse/io/x.py", "x = 1  # TO" + "DO: more"),
        (budgets.unfinished, "lakehouse/io/x.py", "def f():\n    raise NotImplementedError('later')"),
    ],
)
def test_a_check_can_fail(check, path: str, text: str) -> None:  # type: ignore[no-untyped-def]
    """Each check finds the offence it is there for."""
    assert len(list(check([parse(path, text)]))) == 1


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (budgets.long_files, "lakehouse/x.py", "\n" * 600),
        (budgets.long_functions, "lakehouse/x.py", "def f():\n" + "    x = 1\n" * 69),
        (budgets.too_deep, "lakehouse/io/backends/s3.py", ""),
        (budgets.prints, "lakehouse/cli/x.py", "print(1)"),
        (budgets.gathers, "lakehouse/io/x.py", "self.gather(a)"),
    ],
)
def test_a_check_lets_pass(check, path: str, text: str) -> None:  # type: ignore[no-untyped-def]
    """What just fits, or belongs there, is no offence."""
    assert not list(check([parse(path, text)]))


@pytest.mark.parametrize(
    ("handler", "found"),
    [
        ("except Exception: return None", 1),
        ("except: pass", 1),
        ("except (ValueError, BaseException) as e: log(e)", 1),
        ("except Exception as e: raise ValueError from e", 1),
        ("except ValueError: return None", 0),
        ("except BaseException:\n    tidy()\n    raise", 0),
    ],
)
def test_the_check_knows_a_swallowed_error(handler: str, found: int) -> None:
    """A handler for everything is found unless it only tidies up and raises on."""
    module = parse("lakehouse/x.py", f"def f():\n  try: x()\n  {handler}\n")
    assert len(list(budgets.broad_excepts([module]))) == found


def test_the_check_knows_an_unregistered_kind() -> None:
    """A kind is looked up where an error is made, and nowhere else."""
    module = parse("lakehouse/x.py", "NotFoundError('m', kind='novel')\ncall(kind='other')\nf(kind=kind)")
    assert list(budgets.unregistered_kinds([module], KINDS)) == [
        "lakehouse/x.py:1 kind 'novel': add it to lakehouse.errors.KINDS"
    ]
