"""The commands about views, as a person gives them."""

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
    """A warehouse with a table."""
    url = f"file://{tmp_path}"
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("db")
        lake.create_table("db.t", pa.schema({"id": pa.int64()}))
    return url


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and standard output of ``lakehouse view …``."""
    code = 0
    with pytest.MonkeyPatch().context() as patched:
        patched.setattr(sys, "argv", ["lakehouse", "view", *words])
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, capsys.readouterr().out


def test_views_are_made_shown_and_dropped(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A view goes through its life, and each command says what it did."""
    view = ("create", warehouse, "db.v", "select id from t")
    assert run(capsys, *view) == (0, "db.v is at version 1\n")
    assert run(capsys, *view[:3], "select 2", "--replace") == (0, "db.v is at version 2\n")
    assert run(capsys, "show", warehouse, "db.v", "--version", "1") == (0, "select id from t\n")
    assert run(capsys, "list", warehouse) == (0, "db.v\n")
    assert run(capsys, "rename", warehouse, "db.v", "db.w") == (0, "db.v is db.w now\n")
    assert run(capsys, "drop", warehouse, "db.w", "--yes") == (0, "db.w is dropped\n")
    assert run(capsys, "drop", warehouse, "db.w", "--yes", "--if-exists") == (0, "there is no view db.w\n")
    assert run(capsys, "undrop", warehouse, "db.w") == (0, "db.w is back\n")
    code, out = run(capsys, "show", warehouse, "db.w", "--json")
    assert (code, json.loads(out)["sql"]) == (0, {"duckdb": "select 2"})
    assert run(capsys, "show", warehouse, "db.t")[0] == 1


def test_trees_and_impact_are_shown(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What a view reads is drawn as a tree, and who reads a table is listed."""
    run(capsys, "create", warehouse, "db.v", "select id from t")
    run(capsys, "create", warehouse, "db.w", "select 1", "--dialect", "trino", "--depends-on", "db.v")
    run(capsys, "create", warehouse, "db.x", "select 1", "--dialect", "trino")
    assert run(capsys, "show", warehouse, "db.w", "--tree") == (0, "db.w\n  db.v\n    db.t\n")
    assert run(capsys, "impact", warehouse, "db.t") == (
        0,
        "db.v\ndb.w  (through others)\ndb.x  (not known)\n",
    )
    code, out = run(capsys, "impact", warehouse, "db.t", "--json")
    assert (code, json.loads(out)["direct"]) == (0, ["db.v"])
