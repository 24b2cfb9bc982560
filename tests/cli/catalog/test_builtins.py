"""``lakehouse builtins validate``, run as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_store import lakehouse

_TYPES = 'format = 1\nengine = "toy"\nsource = "a test"\n[[types]]\nname = "INT"\n'
_FUNCTIONS = (
    'format = 1\nengine = "toy"\nsource = "a test"\n[[functions]]\nname = "f"\nsignatures = ["(INT)"]\n'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of two files, one of which uses the types of the other."""
    (tmp_path / "10_functions.toml").write_text(_FUNCTIONS)
    (tmp_path / "20_types.toml").write_text(_TYPES)
    (tmp_path / "readme.txt").write_text("no file of builtins")
    return tmp_path


def test_a_directory_is_validated_together(folder: Path) -> None:
    """Types that one file of a directory defines are known in the others."""
    done = lakehouse("builtins", "validate", str(folder))
    assert (done.returncode, done.stdout) == (0, b"2 files with 2 builtins: 0 errors, 0 warnings\n")


def test_a_file_alone_shows_its_problems_by_line(folder: Path) -> None:
    """A file whose types are nowhere is refused with exit code 3, and each problem has its line."""
    done = lakehouse("builtins", "validate", str(folder / "10_functions.toml"))
    assert done.returncode == 3
    assert done.stdout.startswith(b"10_functions.toml:6: error: no type is called 'INT'")


def test_json_has_everything(folder: Path) -> None:
    """With ``--json`` problems are objects, and the document says whether all is well."""
    done = lakehouse("builtins", "validate", str(folder / "10_functions.toml"), "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"], document["files"], document["builtins"]) == (3, False, 1, 0)
    (problem,) = document["problems"]
    assert (problem["line"], problem["severity"], problem["code"]) == (6, "error", "unknown-type")


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--strict",), 3)])
def test_strict_counts_warnings(folder: Path, words: tuple[str, ...], code: int) -> None:
    """A warning is shown and passes; with ``--strict`` it does not pass."""
    path = folder / "30_more.toml"
    path.write_text('format = 1\nengine = "toy"\n')
    done = lakehouse("builtins", "validate", str(path), *words)
    assert done.returncode == code
    assert b"30_more.toml:1: warning:" in done.stdout


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    """A directory without files of builtins is no success."""
    done = lakehouse("builtins", "validate", str(tmp_path))
    assert done.returncode == 1
    assert b"has no files whose names end in .toml" in done.stderr
