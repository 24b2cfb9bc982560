"""``lakehouse sql``: texts and scripts, and the forms of their rows."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.tables.test_commands import Run, orders, run, warehouse  # noqa: F401 - fixtures

_TEXT = "select id, note, {a: 1} as s from sales.orders order by id limit 2"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("csv", 'id,note,s\n0,{n0},"{{""a"": 1}}"\n1,{n1},"{{""a"": 1}}"\n'),
        (
            "ndjson",
            '{{"id": 0, "note": {j0}, "s": {{"a": 1}}}}\n{{"id": 1, "note": {j1}, "s": {{"a": 1}}}}\n',
        ),
        ("markdown", "| id | note | s |\n| --- | --- | --- |\n| 0 | {n0} | a=1 |\n| 1 | {n1} | a=1 |\n"),
    ],
)
def test_rows_are_written_in_each_form(form: str, expected: str, orders: str, run: Run) -> None:  # noqa: F811
    """The rows of a statement are written as they are asked for, values with parts as JSON or as words."""
    notes = [row["note"] for row in json.loads(run("sql", orders, "-c", _TEXT, "--format", "json").out)]
    words = {
        "n0": notes[0] or "",
        "n1": notes[1] or "",
        "j0": json.dumps(notes[0]),
        "j1": json.dumps(notes[1]),
    }
    done = run("sql", orders, "-c", _TEXT, "--format", form)
    assert (done.code, done.out) == (0, expected.format(**words))


def test_statements_share_a_session(orders: str, run: Run, tmp_path: Path) -> None:  # noqa: F811
    """``USE`` holds for later statements, of scripts too; the rows of each are written."""
    script = tmp_path / "q.sql"
    script.write_text("select count(*) as n from orders; select 'a;b' as t -- ; not the end\n;")
    done = run("sql", orders, "-c", "use sales", "-f", script, "--format", "ndjson")
    assert done.lines == [{"n": 4}, {"t": "a;b"}]
    done = run(
        "sql",
        orders,
        "-d",
        "sales",
        "-c",
        "select 1 as a; select max(id) as m from orders",
        "--format",
        "json",
    )
    assert done.out.count("[") == 2


def test_standard_input_is_a_script(orders: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Without statements and without a terminal, standard input has them; without a place none is needed."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 7 as n"))
    assert run("sql", "--format", "csv").out == "n\n7\n"


def test_system_tables_are_tables(orders: str, run: Run) -> None:  # noqa: F811
    """What the lake says of itself is asked for as anything else, JSON included."""
    text = "select distinct table_name from system.snapshots where database_name = 'sales'"
    found = run("sql", orders, "-c", text, "--format", "ndjson").lines
    assert [row["table_name"] for row in found] == ["orders"]
    text = "select partition->>'day' as day from sales.\"orders$partitions\" order by 1"
    assert run("sql", orders, "-c", text, "--format", "ndjson").code == 0


def test_an_error_shows_its_place(orders: str, run: Run) -> None:  # noqa: F811
    """An error is said with the place in the text; the exit code is 1, and later statements do not run."""
    done = run("sql", orders, "-c", "select * from sales.ordres; select 1")
    assert (done.code, done.out) == (1, "")
    assert "did you mean 'orders'?" in done.err
    assert "^^^^^^" in done.err


def test_rows_are_saved(orders: str, run: Run, tmp_path: Path) -> None:  # noqa: F811
    """``--output`` takes the rows of the last statement; Parquet needs it, and a table cannot be saved."""
    target = tmp_path / "rows.parquet"
    done = run("sql", orders, "-c", f"select 1; {_TEXT}", "--format", "parquet", "--output", target)
    assert (done.code, done.out) == (0, "")
    assert pq.read_table(target)["id"].to_pylist() == [0, 1]
    assert run("sql", orders, "-c", "select 1", "--format", "parquet").code == 1
    assert run("sql", orders, "-c", "select 1", "--output", target).code == 1


def test_a_table_has_an_end(orders: str, run: Run) -> None:  # noqa: F811
    """People are shown the first thousand rows, and told so; programs get all."""
    text = "select * from range(3000) as t(n)"
    done = run("sql", orders, "-c", text)
    assert (len(done.out.splitlines()), "first 1,000 rows" in done.err) == (1001, True)
    assert len(run("sql", orders, "-c", text, "--format", "csv").out.splitlines()) == 3001
    assert "no rows" in run("sql", orders, "-c", "select 1 where false").err


def test_a_script_is_text(orders: str, run: Run, tmp_path: Path) -> None:  # noqa: F811
    """A script that is no UTF-8 is refused by name."""
    (tmp_path / "q.sql").write_bytes(b"select '\xff'")
    done = run("sql", orders, "-f", tmp_path / "q.sql")
    assert (done.code, "no UTF-8" in done.err) == (1, True)


def test_a_broken_table_is_told_of(orders: str, run: Run) -> None:  # noqa: F811
    """Rows that a system table lacks are a warning on standard error, and no failure."""
    for snapshot in Path(orders).rglob("*snapshot*"):
        if snapshot.is_file():
            snapshot.write_bytes(b"{")
    done = run("sql", orders, "-c", "select count(*) as n from system.files", "--format", "ndjson")
    assert (done.code, done.lines) == (0, [{"n": 0}])
    assert "its rows are missing: sales.orders" in done.err
