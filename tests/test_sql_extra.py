"""SQL without the package that executes it."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import lakehouse.sql
from lakehouse.errors import InvalidInputError


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without DuckDB the import of SQL says what to install."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'aiolakehouse\[sql\]'") as caught:
        importlib.reload(lakehouse.sql)
    assert caught.value.kind == "missing-extra"


def test_the_import_loads_no_duckdb() -> None:
    """DuckDB is loaded by what uses it, not by the import of SQL."""
    code = "import sys, lakehouse.sql.engine; sys.exit('duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
