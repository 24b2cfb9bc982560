"""``lakehouse manifests``, as a person gives it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse.sync
from lakehouse.cli import main


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """A warehouse with a table that has a manifest, and one that has none."""
    url = f"file://{tmp_path}"
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("db")
        many = lake.create_table("db.many", pa.schema({"id": pa.int64()}), primary_key="id", bucket=140)
        many.append([{"id": number} for number in range(500)])
        few = lake.create_table("db.few", pa.schema({"id": pa.int64()}))
        few.append([{"id": 1}])
    return url


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``lakehouse manifests …``."""
    code = 0
    with pytest.MonkeyPatch().context() as patched:
        patched.setattr(sys, "argv", ["lakehouse", "manifests", *words])
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_manifests_and_files_are_listed(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each manifest, or with ``--files`` for each live file, as a table or as JSON by lines."""
    code, out, _ = run(capsys, warehouse, "--json")
    (row,) = [json.loads(line) for line in out.splitlines()]
    assert (code, row["table"], row["rows"], row["content"]) == (0, "db.many", 500, "data")
    code, out, _ = run(capsys, warehouse, "--files", "--json")
    files = [json.loads(line) for line in out.splitlines()]
    assert len(files) == row["files"] + 1
    code, out, _ = run(capsys, warehouse, "db.few", "--files")
    assert (code, len(out.splitlines())) == (0, 2)
    assert "db.few" in out


def test_the_end_says_what_it_cost(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--stats`` prints counts and requests on standard error."""
    _, _, err = run(capsys, warehouse, "--stats")
    stats = json.loads(err)
    assert (stats["tables"], stats["manifests"], stats["failed_tables"]) == (2, 1, 0)


def test_what_cannot_be_read_is_named(
    warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A manifest that is gone is named on standard error, and the exit code is 4."""
    (broken,) = tmp_path.rglob("manifest-*")
    broken.unlink()
    code, out, err = run(capsys, warehouse, "--files", "--json")
    assert code == 4
    assert [json.loads(line)["table"] for line in out.splitlines()] == ["db.few"]
    assert broken.name in err
