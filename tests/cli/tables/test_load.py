"""``lakehouse load``: rows of files become rows of tables, or nothing does."""

from __future__ import annotations

import io
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakehouse.sync
from tests.cli.tables.test_commands import Run, run, warehouse  # noqa: F401 - fixtures

_LAST = '{"id": 3, "note": "", "amount": "0"}'
_COLUMNS = "id bigint, amount decimal(10,2), note string"


@pytest.fixture
def table(warehouse: str, run: Run) -> str:  # noqa: F811
    """The warehouse with an empty table sales.orders."""
    assert run("table", "create", warehouse, "sales.orders", _COLUMNS, "-k", "id").code == 0
    return warehouse


def _rows(url: str, name: str = "sales.orders") -> list[dict[str, Any]]:
    with lakehouse.sync.connect(url) as lake:
        return lake.table(name).scan().to_arrow().sort_by("id").to_pylist()


def _written(directory: Path, name: str, text: str) -> str:
    (directory / name).write_text(text)
    return str(directory / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'id,note,amount\n1,"NA, ""x""",1.5\n2,,\n3,"",0\n'),
        ("a.tsv", 'id\tnote\tamount\n1\t"NA, ""x"""\t1.5\n2\t\\N\t\n3\t""\t0\n'),
        (
            "a.ndjson",
            '{"id": 1, "note": "NA, \\"x\\"", "amount": 1.5}\n\n{"id": 2}\n{"id":3,"note":"","amount":"0"}\n',
        ),
        (
            "a.json",
            '[{"id": 1, "note": "NA, \\"x\\"", "amount": "1.50"},\n {"id":2},{"id":3,"note":"","amount":0}]',
        ),
    ],
)
def test_values_have_the_types_of_the_table(
    name: str,
    text: str,
    table: str,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Texts are read as the table's columns say; what is empty and not quoted is null, and no word is."""
    done = run("load", table, "sales.orders", _written(tmp_path, name, text), "--json")
    assert done.code == 0
    assert done.out.count('"rows": 3') == 1
    assert [tuple(row.values()) for row in _rows(table)] == [
        (1, Decimal("1.50"), 'NA, "x"'),
        (2, None, None),
        (3, Decimal("0.00"), ""),
    ]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "a.csv",
            "id,day\n1,2026-01-01\nx,\n",
            "line 3, column 1: CSV conversion error to int64: invalid value 'x'",
        ),
        ("a.csv", "id,note\n1,a,5\n", "Expected 2 columns, got 3"),
        ("a.csv", "id,nope\n1,2\n", "nope"),
        ("a.ndjson", '{"id": 1}\n{"id" 2}\n', "line 2, column 7: this is no JSON"),
        ("a.ndjson", '{"id": 1}\n\n{"id": "x"}\n', "line 3: column 'id' is int64, and"),
        ("a.ndjson", '{"id": 1}\n[5]\n', "line 2: a row is an object, not list"),
        ("a.json", '[{"id": 1},\n{"id": yes}]', "line 2, column 8: this is no JSON"),
        ("a.parquet", "no parquet", "a.parquet"),
        ("a.txt", "", "add --format"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(
    name: str,
    text: str,
    says: str,
    table: str,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    """An error names the file, the line and the column where they are known, and no row was committed."""
    done = run("load", table, "sales.orders", _written(tmp_path, name, text))
    assert done.code == 1
    assert says in done.err
    assert _rows(table) == []


def test_parquet_keeps_its_types(table: str, run: Run, tmp_path: Path) -> None:  # noqa: F811
    """Rows of a Parquet file come in pieces, and are those of the file."""
    rows = pa.table({"id": range(200_000), "note": ["x"] * 200_000})
    pq.write_table(rows, tmp_path / "p.parquet")
    assert run("load", table, "sales.orders", tmp_path / "p.parquet", "--missing", "null").code == 0
    with lakehouse.sync.connect(table) as lake:
        found = lake.table("sales.orders").scan(columns=["id", "note"]).to_arrow().sort_by("id")
        assert found.equals(rows.cast(found.schema))
        assert [row["kind"] for row in lake.table("sales.orders").snapshots().to_pylist()] == [
            "create",
            "append",
        ]


def test_nothing_is_made_unasked(warehouse: str, run: Run, tmp_path: Path) -> None:  # noqa: F811
    """A table that is not there is an error, which says how it is made; --create makes it with its key."""
    file = _written(tmp_path, "new.csv", "id,day,x\n1,2026-01-01,0.5\n1,2026-01-02,1.5\n")
    done = run("load", warehouse, "sales.new", file)
    assert (done.code, "with --create it is made" in done.err) == (1, True)
    assert run("load", warehouse, "sales.new", file, "--key", "id").code == 1
    assert run("load", warehouse, "sales.new", file, "--create", "--key", "id").code == 0
    with lakehouse.sync.connect(warehouse) as lake:
        schema = lake.table("sales.new").schema()
        assert (schema.primary_key, [str(one.type) for one in schema.arrow()]) == (
            ("id",),
            ["int64", "date32[day]", "double"],
        )
    assert len(_rows(warehouse, "sales.new")) == 1
    empty = _written(tmp_path, "empty.ndjson", "")
    assert "the file has no rows" in run("load", warehouse, "sales.none", empty, "--create").err


def test_keys_that_are_there_may_be_refused(table: str, run: Run, tmp_path: Path) -> None:  # noqa: F811
    """A row replaces the older one of its key, unless conflicts are errors: then nothing is loaded."""
    first = _written(tmp_path, "1.csv", "id,amount,note\n1,,a\n")
    second = _written(tmp_path, "2.csv", "id,amount,note\n2,,b\n1,,b\n")
    assert run("load", table, "sales.orders", first).code == 0
    assert run("load", table, "sales.orders", second, "--on-conflict", "error").code == 1
    assert [row["note"] for row in _rows(table)] == ["a"]
    assert run("load", table, "sales.orders", second).code == 0
    assert [row["note"] for row in _rows(table)] == ["b", "b"]


def test_standard_input_says_its_format(table: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """``-`` is standard input, of a format that is said; Parquet needs a file."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"id,amount,note\n7,,x\n")))
    assert "add --format" in run("load", table, "sales.orders", "-").err
    assert run("load", table, "sales.orders", "-", "--format", "csv").code == 0
    assert [row["id"] for row in _rows(table)] == [7]
