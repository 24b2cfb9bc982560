"""Importing lakehouse is fast: nothing is loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.layers import HEAVY
from tests.house.source_tree import library, none_of

PROGRAM = """
import sys
before = set(sys.modules)
{statement}
print(*sorted(set(sys.modules) - before))
"""


def _help(*words: str) -> str:
    """A statement that asks a command for its help."""
    return (
        f"sys.argv[1:] = {[*words, '--help']!r}\nfrom lakehouse.cli import main\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    main()"
    )


def loaded_by(statement: str, *, whole: bool = False) -> set[str]:
    """Top-level packages that a statement loads in a fresh interpreter; with ``whole`` the modules."""
    program = PROGRAM.format(statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    modules = set(done.stdout.split())
    return modules if whole else {name.split(".")[0] for name in modules}


def test_importing_lakehouse_loads_nobody_else() -> None:
    """``import lakehouse`` loads the standard library and a few modules of ours."""
    others = loaded_by("import lakehouse") - sys.stdlib_module_names - {"lakehouse"}
    none_of(others, "loaded by import lakehouse:")


def test_public_names_load_nothing_heavy() -> None:
    """Reaching any public name of ``lakehouse`` loads no Spark, no DuckDB, no tantivy."""
    statement = "import lakehouse\nfor name in lakehouse.__all__: getattr(lakehouse, name)"
    none_of(loaded_by(statement) & HEAVY, "loaded by reaching the public names:")


@pytest.mark.parametrize(
    "name", sorted({m.name for m in library() if m.is_package and m.part not in ("sql", "spark", "service")})
)
def test_a_package_loads_nothing_heavy(name: str) -> None:
    """A package is imported without what only some of its functions need."""
    none_of(loaded_by(f"import {name}") & HEAVY, f"loaded by import {name}:")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_line_says_what_it_is_without_arrow(option: str) -> None:
    """``lakehouse --version`` and ``--help`` answer without the libraries that only commands need."""
    statement = (
        f"sys.argv[1:] = [{option!r}]\nfrom lakehouse.cli import main\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n    main()"
    )
    loaded = loaded_by(statement)
    assert "typer" in loaded
    none_of(loaded & (HEAVY | {"anyio", "fsspec", "numpy", "pyarrow"}), f"loaded by lakehouse {option}:")


@pytest.mark.parametrize(
    "words",
    [["table"], ["table", "create"], ["table", "rebuild-indexes"], ["db"], ["iceberg"], ["iceberg", "plan"]],
)
def test_help_about_tables_comes_without_arrow(words: list[str]) -> None:
    """``lakehouse table --help`` answers without the engine and without Arrow."""
    modules = loaded_by(_help(*words), whole=True)
    assert "lakehouse.cli.arguments" in modules
    heavy = HEAVY | {"fsspec", "numpy", "pyarrow", "lakehouse.lake", "lakehouse.storage.table"}
    none_of(modules & heavy, f"loaded by lakehouse {' '.join(words)} --help:")


def test_commands_of_puffin_files_load_no_tables() -> None:
    """``lakehouse puffin`` works on files, and loads nothing of tables for it."""
    modules = loaded_by("import lakehouse.cli.puffin", whole=True)
    none_of({name for name in modules if name.startswith("lakehouse.storage")}, "loaded by cli/puffin:")


@pytest.mark.parametrize("package", ["lakehouse.sync", "lakehouse.index", "lakehouse.io"])
def test_a_door_loads_what_is_asked_for(package: str) -> None:
    """A package that gives names out loads nothing else before one of them is asked for."""
    modules = loaded_by(f"import {package}", whole=True)
    ours = {name for name in modules if name.startswith("lakehouse.")}
    assert ours == {"lakehouse._version", "lakehouse.doors", package}
    none_of(modules & {"anyio", "fsspec", "numpy", "pyarrow"}, f"loaded by import {package}:")


def test_the_probe_sees_what_is_loaded() -> None:
    """A statement that loads a package is found out."""
    assert "json" in loaded_by("import json.decoder")
