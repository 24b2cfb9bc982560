"""The commands about catalogs, as a person gives them."""

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
    """A warehouse with two tables and a view."""
    url = f"file://{tmp_path}"
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("db")
        lake.create_database("other")
        table = lake.create_table(
            "db.t", pa.schema({"id": pa.int64(), "tags": pa.list_(pa.string())}), primary_key=["id"]
        )
        table.append([{"id": 1, "tags": ["a"]}])
        lake.create_table("db.u", pa.schema({"id": pa.int64()}))
        lake.create_view("db.v", {"duckdb": "select id from db.t"})
    return url


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and standard output of ``lakehouse catalog …``."""
    code = 0
    with pytest.MonkeyPatch().context() as patched:
        patched.setattr(sys, "argv", ["lakehouse", "catalog", *words])
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, capsys.readouterr().out


def test_a_tree_shows_what_there_is(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Namespaces stand before what they hold, and what is no table says what it is."""
    whole = "db  (namespace)\n  db.t\n  db.u\n  db.v  (view)\nother  (namespace)\n"
    assert run(capsys, "tree", warehouse) == (0, whole)
    assert run(capsys, "tree", warehouse, "--depth", "1") == (0, "db  (namespace)\nother  (namespace)\n")
    assert run(capsys, "tree", warehouse, "other") == (0, "other  (namespace)\n")
    code, out = run(capsys, "tree", warehouse, "db", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, [line["name"] for line in lines]) == (0, ["db", "db.t", "db.u", "db.v"])
    assert run(capsys, "tree", warehouse, "none")[0] == 1


def test_names_are_resolved_each_for_itself(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each name has its id or its error, and the exit code says whether all were found."""
    code, out = run(capsys, "resolve", warehouse, "db.t", "db.none", "--json")
    found = json.loads(out)
    assert (code, [one["status"] for one in found]) == (3, ["found", "not_found"])
    assert "there is no table 'db.none'" in found[1]["error"]
    code, out = run(capsys, "resolve", warehouse, "db.t")
    assert code == 0
    assert found[0]["id"] in out
    assert run(capsys, "resolve", warehouse, "db.v", "--views")[0] == 0


def test_nodes_are_described(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A table shows its columns and size, a view its SQL, a namespace its name; ids work as names do."""
    code, out = run(capsys, "describe", warehouse, "db.t", "--json")
    table = json.loads(out)
    assert (code, table["rows"], table["primary_key"]) == (0, 1, ["id"])
    assert [column["name"] for column in table["columns"]] == ["id", "tags"]
    code, out = run(capsys, "describe", warehouse, table["id"])
    assert code == 0
    assert "db.t" in out
    assert "not null" in out
    assert json.loads(run(capsys, "describe", warehouse, "db.v", "--json")[1])["sql"] == {
        "duckdb": "select id from db.t"
    }
    assert json.loads(run(capsys, "describe", warehouse, "db", "--json")[1])["kind"] == "namespace"
    code, out = run(capsys, "describe", warehouse, "information_schema.tables", "--json")
    assert (code, json.loads(out)["kind"]) == (0, "system_view")
    assert run(capsys, "describe", warehouse, "db.none")[0] == 1
