"""The commands about caches, as a person gives them."""

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
    """A warehouse with two tables."""
    url = f"file://{tmp_path}"
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("db")
        for name in ("t", "u"):
            lake.create_table(f"db.{name}", pa.schema({"id": pa.int64()})).append([{"id": 1}])
    return url


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and standard output of ``lakehouse cache …``."""
    code = 0
    with pytest.MonkeyPatch().context() as patched:
        patched.setattr(sys, "argv", ["lakehouse", "cache", *words])
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, capsys.readouterr().out


def test_stats_show_what_tables_take(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each cache has a row with what it holds of the tables, and the sum is said."""
    code, out = run(capsys, "stats", warehouse, "--json")
    rows = {row["entry"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["table-schemas"]["entries"] == 2
    assert rows["pointer"]["account"] == "default"
    code, out = run(capsys, "stats", warehouse, "db.t")
    assert code == 0
    assert "1 tables take" in out


def test_a_prewarm_names_what_fails(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables that are there are loaded, the one that is not is named, and the exit code says so."""
    code, out = run(capsys, "prewarm", warehouse, "db.t", "db.none", "--json")
    found = json.loads(out)
    assert (code, found["tables"], list(found["errors"])) == (3, 1, ["db.none"])
    assert found["requests"] > 0
    code, out = run(capsys, "prewarm", warehouse)
    assert (code, "2 tables are loaded for" in out) == (0, True)


def test_a_refresh_says_what_it_costs(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A deep refresh drops more than a plain one, and neither costs more than loading from nothing."""
    found = [
        json.loads(run(capsys, "refresh", warehouse, "db.t", "--json", *words)[1])
        for words in ((), ("--deep",))
    ]
    shallow, deep = found
    assert 0 < shallow["dropped"] < deep["dropped"]
    assert shallow["requests"] <= deep["requests"] <= deep["requests_cold"]
    code, out = run(capsys, "refresh", warehouse, "db.t")
    assert (code, "A refresh of db.t drops" in out) == (0, True)


def test_clear_gives_memory_back(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All that was loaded goes, or one cache of it; a cache that is none is an error."""
    code, out = run(capsys, "clear", warehouse, "--json")
    assert code == 0
    assert json.loads(out)["bytes"] > 0
    code, out = run(capsys, "clear", warehouse, "--entry", "table-schemas")
    assert (code, out.startswith("2 entries of 2 tables")) == (0, True)
    assert run(capsys, "clear", warehouse, "--entry", "nothing")[0] == 1
