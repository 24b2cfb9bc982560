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
print(*sorted({{name.split(".")[0] for name in set(sys.modules) - before}}))
"""


def loaded_by(statement: str) -> set[str]:
    """Top-level packages that a statement loads in a fresh interpreter."""
    program = PROGRAM.format(statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


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


def test_the_probe_sees_what_is_loaded() -> None:
    """A statement that loads a package is found out."""
    assert "json" in loaded_by("import json.decoder")
