"""How commands print: what fits on a terminal, and what a program can read where there is none."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import lakehouse.sync
from lakehouse.cli import output
from lakehouse.cli.column_fit import ShownColumn, fit
from lakehouse.cli.escapes import NULL_FIELD, json_text, separated, visible
from lakehouse.cli.tables.row_output import print_rows
from tests.cli.tables.test_commands import Run, run  # noqa: F401 - fixture

UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
NASTY = "\x1b[31mred\x1b[0m\nnext\trow\x9b2J\u202eevil\ud800\\end"


class Terminal(io.StringIO):
    """What a terminal of some width was sent."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard output is a terminal of 80 columns."""
    target = Terminal()
    monkeypatch.setattr(output, "console", lambda: Console(file=target, width=80, color_system=None))
    return target


def wide(columns: int, rows: int = 2) -> pa.Table:
    """Rows of columns that are all filled."""
    return pa.table({"id": range(rows), **{f"column_{one}": ["v"] * rows for one in range(columns)}})


# --- terminals ------------------------------------------------------------------------


def test_columns_that_do_not_fit_are_left_out_and_counted(terminal: Terminal) -> None:
    """Of 21 filled columns none is shown empty or wrapped: the middle is left out, and it is said."""
    print_rows(wide(20), rest="--column or --json")
    shown = terminal.getvalue()
    assert all(len(line) <= 80 for line in shown.splitlines())
    (header,) = [line for line in shown.splitlines() if "column_" in line]
    names = [one.strip() for one in re.split("[│┃]", header)[1:-1]]
    assert (names[0], names[1], names[-1]) == ("id", "column_0", "column_19")
    assert "…" in names
    kept = len(names) - 1
    assert f"… {21 - kept} more columns: --column or --json" in shown
    for line in shown.splitlines():
        if re.match("│ +[01] │", line):
            assert [one.strip() for one in line.split("│")[2:-1]] == [
                "…" if one == "…" else "v" for one in names[1:]
            ]


def test_a_single_row_that_does_not_fit_is_a_block(terminal: Terminal) -> None:
    """One row of many columns is a line per column, all of them."""
    print_rows(wide(20, rows=1))
    lines = terminal.getvalue().splitlines()
    assert lines[0] == "id        │ 0"
    assert [line.split(" │ ")[1] for line in lines[1:]] == ["v"] * 20


def test_what_fits_into_no_line_is_a_block_per_row(terminal: Terminal) -> None:
    """Paths are not wrapped: where they are longer than a line, each row is a block."""
    path = "data/day=2026-01-01/bucket-0/" + "x" * 80 + ".parquet"
    rows = pa.table({"path": [path] * 2, "rows": [1, 2], "kind": ["update_before"] * 2})
    print_rows(rows, wraps=())
    lines = terminal.getvalue().splitlines()
    assert lines[:4] == ["── row 1 ──", f"path │ {path}", "rows │ 1", "kind │ update_before"]


def test_times_and_kinds_are_whole_and_texts_wrap(terminal: Terminal) -> None:
    """A long text gives way; a time stands on one line."""
    time = pa.array([1_700_000_000_000], pa.timestamp("ms", tz="UTC"))
    print_rows(pa.table({"time": time, "ready": [True], "note": ["some words " * 20]}))
    shown = terminal.getvalue()
    assert "2023-11-14 22:13:20+00:00" in shown
    assert shown.count("some words") > 4
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_null_and_the_empty_text_differ(terminal: Terminal) -> None:
    """Null is a word; an empty text is nothing."""
    print_rows(pa.table({"a": pa.array([None, ""], pa.string())}))
    cells = [line.strip("│ ") for line in terminal.getvalue().splitlines() if line.startswith("│")]
    assert cells == ["NULL", ""]


def test_no_value_moves_the_cursor(terminal: Terminal) -> None:
    """Control characters of names and values are shown as text, whatever way they are printed."""
    print_rows(pa.table({NASTY.replace("\ud800", ""): [NASTY.replace("\ud800", "")]}))
    output.print_table(("a",), [[NASTY]], title=NASTY)
    output.say(NASTY)
    shown = terminal.getvalue()
    assert not UNSEEN.search(shown)
    assert r"\x1b[31mred\x1b[0m\nnext\trow\x9b2J\u202eevil" in shown


@given(
    st.lists(
        st.builds(ShownColumn, header=st.integers(1, 30), longest=st.integers(0, 200), whole=st.booleans()),
        min_size=1,
        max_size=30,
    ),
    st.integers(20, 300),
)
def test_what_is_shown_fits_and_has_its_width(columns: list[ShownColumn], width: int) -> None:
    """Shown columns fit into the line, none is below its header and four characters, whole ones are whole."""
    found = fit(columns, width)
    if found is None:
        assert sum(one.floor for one in columns) + 3 * len(columns) + 1 > width
        return
    taken = sum(found.widths) + 3 * len(found.widths) + 1 + (4 if found.gap is not None else 0)
    assert taken <= width
    assert (found.gap is None) == (len(found.columns) == len(columns))
    for at, shown in zip(found.columns, found.widths, strict=True):
        assert shown >= max(columns[at].header, min(4, columns[at].natural))
        assert not columns[at].whole or shown == columns[at].natural
    assert found.columns[0] == 0
    assert found.columns[-1] == len(columns) - 1


# --- programs -------------------------------------------------------------------------


def test_without_a_terminal_rows_are_separated_by_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    """A header and a line per row, not wrapped nor boxed; null, '' and what looks like them differ."""
    long = "x" * 500
    print_rows(pa.table({"a": [1, 2], "b": pa.array([None, ""]), "c": [long, r"\N"], "d\t": ["1\t2", "\n"]}))
    assert capsys.readouterr().out.splitlines() == [
        "a\tb\tc\td\\t",
        f"1\t{NULL_FIELD}\t{long}\t1\\t2",
        "2\t\t\\\\N\t\\n",
    ]


@given(st.none() | st.text(), st.none() | st.text())
def test_fields_tell_values_apart(one: str | None, other: str | None) -> None:
    """Fields of different values differ, and neither holds a tab or a control character."""
    assert (separated(one) == separated(other)) == (one == other)
    assert not UNSEEN.search(separated(one) + separated(other))


@given(st.text())
def test_json_stays_json(text: str) -> None:
    """What is escaped for terminals means the same to whoever parses it."""
    for indent in (None, 2):
        shown = json_text({text: [text]}, indent=indent)
        assert json.loads(shown) == {text: [text]}
        assert not UNSEEN.search(shown)
        shown.encode()


def test_text_keeps_what_can_be_seen() -> None:
    """Letters of all scripts, emoji and lines, where they are wanted, stay as they are."""
    text = "Grüße 漢字 👩‍👩‍👧 \u00a0a\nb"
    assert visible(text, lines=True) == text


def test_values_in_errors_and_rows_reach_no_terminal_raw(tmp_path: Path, run: Run) -> None:  # noqa: F811
    """Scans, keys that are not there, comments and errors show control characters as text."""
    value = NASTY.replace("\ud800", "")
    with lakehouse.sync.connect(str(tmp_path)) as lake:
        lake.create_database("db")
        schema = pa.schema({"k": pa.string(), "v": pa.string()})
        table = lake.create_table("db.t", schema, primary_key="k", comment=value)
        table.append([{"k": value, "v": value}, {"k": "b", "v": None}])
    for words in (
        ("scan",),
        ("scan", "--json"),
        ("get", f"k={value}"),
        ("describe",),
        ("describe", "--json"),
        ("files",),
        ("scan", "--where", value),
        ("scan", "--column", value),
    ):
        done = run("table", words[0], tmp_path, "db.t", *words[1:])
        assert not UNSEEN.search((done.out + done.err).replace("\t", ""))
    assert not UNSEEN.search(run("table", "describe", tmp_path, f"db.{value}").err)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """``| head -1`` ends a command with success and without a word, however much it had to say."""
    with lakehouse.sync.connect(str(tmp_path)) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", pa.schema({"id": pa.int64()}))
        table.append(pa.table({"id": range(50_000)}))
    program = "from lakehouse.cli import main; main()"
    for words in (("scan", "--json"), ("describe",), ("scan", "--limit", "40000")):
        command = [sys.executable, "-c", program, "table", words[0], str(tmp_path), "db.t", *words[1:]]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            if len(words) > 1:
                running.stdout.readline()
            running.stdout.close()
            said = running.stderr.read()
            assert (running.wait(60), said) == (0, b""), words


def test_a_real_terminal_gets_boxes(tmp_path: Path) -> None:
    """Boxes are for terminals: a command whose output is one draws them, the same in a pipe does not."""
    with lakehouse.sync.connect(str(tmp_path)) as lake:
        lake.create_database("db")
        lake.create_table("db.t", pa.schema({"id": pa.int64()})).append([{"id": 7}])
    command = [sys.executable, "-c", "from lakehouse.cli import main; main()"]
    ours, theirs = pty.openpty()
    words = ["table", "scan", str(tmp_path), "db.t"]
    subprocess.run(
        [*command, *words], stdout=theirs, timeout=60, check=True, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    assert "│  7 │" in os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert (
        subprocess.run([*command, *words], capture_output=True, timeout=60, check=True).stdout == b"id\n7\n"
    )
