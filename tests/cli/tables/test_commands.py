"""The commands about tables and databases, as a person gives them."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import lakehouse.sync
from lakehouse.cli import main
from tests.cli.test_store import lakehouse as in_a_process

COLUMNS = "id bigint, day date comment 'of the order', amount decimal(10,2), note varchar(20), raw binary"


class Done(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Standard output, an object per line."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``lakehouse`` in this process, with a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["lakehouse", *map(str, words)])
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return Done(int(str(code or 0)), said.out, said.err)

    return command


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """A warehouse with sales.orders: four rows in two commits."""
    url = f"{tmp_path}/warehouse"
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("sales")
        lake.create_database("other")
    return url


@pytest.fixture
def orders(warehouse: str, run: Run) -> str:
    """The warehouse with a table sales.orders: snapshot 2 has rows 0 to 3, snapshot 3 another row 1."""
    assert run("table", "create", warehouse, "sales.orders", COLUMNS, "-k", "id", "-p", "day").code == 0
    rows = [
        {
            "id": n,
            "day": dt.date(2026, 1, 1 + n % 2),
            "amount": Decimal(n),
            "note": f"[red]{n}",
            "raw": b"\xff",
        }
        for n in range(4)
    ]
    with lakehouse.sync.connect(warehouse) as lake:
        table = lake.table("sales.orders")
        table.append(rows, message="first")
        row = {"id": 1, "day": dt.date(2026, 1, 2), "amount": Decimal("1.5")}
        table.upsert([row], missing="null")
    return warehouse


def test_databases_are_made_listed_and_dropped(tmp_path: Path, run: Run) -> None:
    """Db create makes a database once, list shows it, drop ends it."""
    assert run("db", "create", tmp_path, "sales", "--comment", "all of it").code == 0
    assert "sales" in run("db", "create", tmp_path, "sales").err
    assert run("db", "create", tmp_path, "sales", "--if-not-exists").code == 0
    assert run("db", "list", tmp_path).out == "sales\n"
    assert run("db", "list", tmp_path, "--json").lines == [{"database": "sales"}]
    done = json.loads(run("db", "drop", "-y", tmp_path, "sales", "--json").out)
    assert done == {"dropped": "sales", "tables": []}
    assert run("db", "drop", "-y", tmp_path, "sales").code == 1
    assert run("db", "drop", "-y", tmp_path, "sales", "--if-exists").code == 0
    assert run("db", "list", tmp_path).out == ""


def test_a_database_with_tables_is_dropped_by_cascade_only(orders: str, run: Run) -> None:
    """Tables go with their database when that is said."""
    assert run("db", "drop", "-y", orders, "sales").code == 1
    assert run("db", "drop", "-y", orders, "sales", "--cascade").code == 0
    assert run("table", "list", orders).out == ""


def test_create_takes_columns_as_sql(warehouse: str, run: Run) -> None:
    """Columns, keys, options and comment of a new table are what describe shows."""
    words = ("-k", "id", "-p", "day", "--bucket", 2, "--set", "commit.max_retries=5", "--comment", "orders")
    made = run("table", "create", warehouse, "sales.orders", COLUMNS, *words)
    assert made.out.startswith("sales.orders at file://")
    shown = json.loads(run("table", "describe", warehouse, "sales.orders", "--json").out)
    assert [(one["name"], one["type"], one["required"]) for one in shown["columns"]] == [
        ("id", "bigint", True),
        ("day", "date", True),
        ("amount", "decimal(10,2)", False),
        ("note", "varchar(20)", False),
        ("raw", "binary", False),
    ]
    assert shown["columns"][1]["comment"] == "of the order"
    assert (shown["primary_key"], shown["partition_by"], shown["buckets"]) == (["id"], ["day"], 2)
    assert (shown["options"], shown["comment"]) == ({"commit.max_retries": "5"}, "orders")
    assert (shown["snapshot"], shown["rows"]) == (1, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("id bigintt",), "there is no type 'bigintt'"),
        (("id bigint", "-k", "ident"), "'ident' is not a column"),
        (("id bigint", "--set", "commit.max_retries"), "--set takes NAME=VALUE"),
        (("id bigint", "--set", "commit.max_retriess=1"), "did you mean 'commit.max_retries'"),
    ],
)
def test_create_says_what_is_wrong(warehouse: str, run: Run, words: tuple[str, ...], said: str) -> None:
    """A table that cannot be is refused in one message, and not made."""
    done = run("table", "create", warehouse, "sales.orders", *words)
    assert done.code == 1
    assert said in done.err
    assert run("table", "list", warehouse).out == ""


def test_create_takes_indexes_as_words(warehouse: str, run: Run) -> None:
    """A word for each index says what is indexed, how, and with which options."""
    words = ("note=inverted", "raw=bloom:granularity=100", "note=fulltext:English:bloom:case_sensitive")
    more = [part for word in (*words, "lower(note)=bloom", "id, note=bloom") for part in ("--index", word)]
    assert run("table", "create", warehouse, "sales.orders", COLUMNS, "-k", "id", *more).code == 0
    shown = run("table", "indexes", warehouse, "sales.orders", "--json").lines
    assert [(one["target"], one["kind"]) for one in shown] == [
        ("note", "inverted"),
        ("note", "fulltext"),
        ("raw", "bloom"),
        ("lower(note)", "bloom"),
        ("id, note", "bloom"),
    ]
    options = [dict(one["options"]) for one in shown]
    assert options[2]["granularity"] == "100"
    assert [options[1][name] for name in ("analyzer", "case_sensitive", "backend")] == [
        "English",
        "True",
        "bloom",
    ]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("note", "--index takes TARGET=KIND"),
        ("note=blom", "did you mean 'bloom'"),
        ("notes=bloom", "did you mean 'note'"),
        ("note=fulltext:French", "'French' says nothing about an index"),
        ("note=bloom:granularty=5", "did you mean 'granularity'"),
    ],
)
def test_create_says_what_is_wrong_with_an_index(warehouse: str, run: Run, word: str, said: str) -> None:
    """An index that cannot be is refused in one message, and the table is not made."""
    done = run("table", "create", warehouse, "sales.orders", COLUMNS, "--index", word)
    assert done.code == 1
    assert said in done.err
    assert run("table", "list", warehouse).out == ""


def test_index_metas_go_by_the_snapshots_of_a_warehouse(warehouse: str, run: Run) -> None:
    """Of a warehouse the indexes of live files are listed, of all tables or of one."""
    with lakehouse.sync.connect(warehouse) as lake:
        schema = pa.schema({"id": pa.int64(), "note": pa.string()})
        for name in ("sales.orders", "sales.returns", "other.things"):
            table = lake.create_table(
                name, schema, primary_key="id", indexes={"note": "bloom"}, options={"index.min_rows": 1}
            )
            table.append([{"id": 1, "note": "a"}])
            table.overwrite([{"id": 2, "note": "b"}])

    def listed(*words: str) -> int:
        return len(run("index-metas", warehouse, "--format", "ndjson", *words).lines)

    assert len(list(Path(warehouse).rglob("*.puffin"))) == 6
    assert (listed(), listed("--source", "tables")) == (3, 3)
    assert (listed("--table", "sales"), listed("--table", "sales.orders")) == (2, 1)
    assert listed("--source", "prefix") == 6
    assert "--table" in run("index-metas", warehouse, "--table", "sales", "--source", "prefix").err


def test_create_leaves_a_table_that_is_there(orders: str, run: Run) -> None:
    """A name that is taken is an error, unless an existing table is fine."""
    assert "sales.orders" in run("table", "create", orders, "sales.orders", "id int").err
    assert run("table", "create", orders, "sales.orders", "id int", "--if-not-exists").code == 0
    assert len(run("table", "scan", orders, "sales.orders", "--json").lines) == 4


def test_list(orders: str, run: Run) -> None:
    """List prints names, of one database or all, plainly or as JSON."""
    run("table", "create", orders, "other.things", "id int")
    assert run("table", "list", orders).out == "other.things\nsales.orders\n"
    assert run("table", "list", orders, "sales", "--json").lines == [{"table": "sales.orders"}]
    assert run("table", "list", orders, "sales", "--prefix", "x").out == ""
    assert run("table", "list", orders, "nowhere").code == 1


def test_describe_is_a_page_for_people(orders: str, run: Run) -> None:
    """Describe shows columns, keys and size, and what is not set it leaves out."""
    shown = run("table", "describe", orders, "sales.orders").out
    assert "sales.orders at snapshot 3" in shown
    assert "of the order" in shown
    assert "primary key: id\npartition by: day\nbuckets: 1\nsize: 5 stored rows in 3 files" in shown
    assert "comment:" not in shown
    older = json.loads(run("table", "describe", orders, "sales.orders", "--snapshot", 2, "--json").out)
    assert (older["rows"], older["stored_rows"], older["files"]) == (4, 4, 2)
    assert older["partitions"] == 2


def test_relations(orders: str, run: Run) -> None:
    """What a table says about itself is a table, or an object per line with all there is."""
    snapshots = run("table", "snapshots", orders, "sales.orders", "--json").lines
    assert [(row["snapshot"], row["kind"], row["message"]) for row in snapshots] == [
        (1, "create", None),
        (2, "append", "first"),
        (3, "upsert", None),
    ]
    assert "UTC" in run("table", "snapshots", orders, "sales.orders").out
    files = run("table", "files", orders, "sales.orders", "--snapshot", 2, "--json").lines
    assert [(row["rows"], row["partition"]["day"]) for row in files] == [(2, "2026-01-01"), (2, "2026-01-02")]
    assert "id=0" in run("table", "files", orders, "sales.orders").out
    partitions = run("table", "partitions", orders, "sales.orders", "--json").lines
    assert [(row["rows"], row["stored_rows"]) for row in partitions] == [(None, 2), (None, 3)]
    assert "day=2026-01-01" in run("table", "partitions", orders, "sales.orders").out
    assert run("table", "manifests", orders, "sales.orders", "--json").lines == []
    assert "id bigint not null, day date" in run("table", "schemas", orders, "sales.orders").out
    assert run("table", "schemas", orders, "sales.orders", "--json").lines[0]["primary_key"] == ["id"]


def test_scan_prints_rows_as_lines(orders: str, run: Run) -> None:
    """With --json each row is an object on a line, dates, decimals and bytes as text."""
    rows = run("table", "scan", orders, "sales.orders", "--json", "--where", "id < 2").lines
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 0, "day": "2026-01-01", "amount": "0.00", "note": "[red]0", "raw": "ff"},
        {"id": 1, "day": "2026-01-02", "amount": "1.50", "note": None, "raw": None},
    ]


def test_scan_prints_a_table(orders: str, run: Run) -> None:
    """For people rows are a table of the columns asked for, values as they are."""
    shown = run("table", "scan", orders, "sales.orders", "-c", "note", "-c", "id", "--where", "id = 2")
    assert "[red]2" in shown.out
    assert "day" not in shown.out
    assert run("table", "scan", orders, "sales.orders", "--where", "id = 77").err == "no rows\n"


def test_scan_says_that_there_is_more(warehouse: str, run: Run) -> None:
    """Without a limit people see the first rows and a word about the others; JSON has all."""
    with lakehouse.sync.connect(warehouse) as lake:
        run("table", "create", warehouse, "sales.many", "id int", "-k", "id")
        lake.table("sales.many").append([{"id": n} for n in range(150)])
    shown = run("table", "scan", warehouse, "sales.many")
    assert "more rows; --json prints all" in shown.err
    assert shown.out.splitlines() == ["id", *map(str, range(100))]
    assert len(run("table", "scan", warehouse, "sales.many", "--json").lines) == 150
    assert len(run("table", "scan", warehouse, "sales.many", "--json", "--limit", 7).lines) == 7
    assert "more rows" not in run("table", "scan", warehouse, "sales.many", "--limit", 7).out


def test_scan_travels(orders: str, run: Run) -> None:
    """A snapshot, a tag or a time says of when the rows are."""
    words = ("table", "scan", orders, "sales.orders", "--json", "--where", "id = 1")
    run("table", "tag", orders, "sales.orders", "v1", "--snapshot", 2)
    times = run("table", "snapshots", orders, "sales.orders", "--json").lines
    second = int(dt.datetime.fromisoformat(times[1]["time"]).timestamp() * 1000)
    for at in (
        ("--snapshot", 2),
        ("--tag", "v1"),
        ("--timestamp", second),
        ("--timestamp", times[1]["time"]),
    ):
        assert run(*words, *at).lines[0]["amount"] == "1.00"
    assert run(*words).lines[0]["amount"] == "1.50"
    assert "not a timestamp" in run(*words[:-3], "--timestamp", "yesterday").err


def test_scan_tells_its_cost(orders: str, run: Run) -> None:
    """--stats says on standard error what was left out and what was paid."""
    done = run("table", "scan", orders, "sales.orders", "--stats", "--json", "--where", "id = 77")
    assert done.out == ""
    assert json.loads(done.err)["files"] == 3


def test_explain(orders: str, run: Run) -> None:
    """Explain says how many files a scan reads and what leaves out the others."""
    words = ("table", "explain", orders, "sales.orders", "--where", "id = 77")
    report = json.loads(run(*words, "--json").out)
    assert (report["files"], report["files_read"], report["rows_read"]) == (3, 0, 0)
    assert "left out by key range" in run(*words).out


def test_get(orders: str, run: Run) -> None:
    """Get finds the row of a key, given as text; exit code 3 says that there is none."""
    found = run("table", "get", orders, "sales.orders", "id=1", "--json")
    assert json.loads(found.out)["amount"] == "1.50"
    assert "[red]2" in run("table", "get", orders, "sales.orders", "id=2").out
    missing = run("table", "get", orders, "sales.orders", "id=77")
    assert (missing.code, missing.out) == (3, "")
    assert run("table", "get", orders, "sales.orders", "id=77", "--json").out == "null\n"
    assert "id is bigint, and 'x' is not" in run("table", "get", orders, "sales.orders", "id=x").err
    assert "COLUMN=VALUE" in run("table", "get", orders, "sales.orders", "1").err
    assert run("table", "get", orders, "sales.orders", "nothing=1").code == 1


def test_changes(orders: str, run: Run) -> None:
    """Changes shows rows as they were and as they are, what happened to them first."""
    rows = run("table", "changes", orders, "sales.orders", 2, "--json").lines
    assert [(row["_change"], row["amount"]) for row in rows] == [
        ("update_before", "1.00"),
        ("update_after", "1.50"),
    ]
    assert "update_after" in run("table", "changes", orders, "sales.orders", 2, 3).out
    assert run("table", "changes", orders, "sales.orders", 3).err == "no rows\n"


def test_tags_come_and_go(orders: str, run: Run) -> None:
    """A tag names a snapshot until it is taken away."""
    assert "snapshot 4" in run("table", "tag", orders, "sales.orders", "v1", "--snapshot", 2).out
    tags = run("table", "tags", orders, "sales.orders", "--json").lines
    assert [(row["name"], row["snapshot"]) for row in tags] == [("v1", 2)]
    assert run("table", "tag", orders, "sales.orders", "v1").code == 1
    assert run("table", "tag", orders, "sales.orders", "v1", "--replace").code == 0
    assert (
        json.loads(run("table", "untag", "-y", orders, "sales.orders", "v1", "--json").out)["changed"] is True
    )
    assert run("table", "tags", orders, "sales.orders", "--json").out == ""


def test_rollback(orders: str, run: Run) -> None:
    """Rollback makes an older state the newest, and needs to be told which."""
    assert "needs a snapshot" in run("table", "rollback", "-y", orders, "sales.orders").err
    assert run("table", "rollback", "-y", orders, "sales.orders", "--snapshot", 2).code == 0
    assert json.loads(run("table", "get", orders, "sales.orders", "id=1", "--json").out)["amount"] == "1.00"


def test_compact(orders: str, run: Run) -> None:
    """Compaction says what it did or would do, to people and to programs."""
    where = "day = '2026-01-02'"
    planned = run("table", "compact", orders, "sales.orders", "--full", "--dry-run").out
    assert planned.startswith("sales.orders: 1 merge unit to compact (2 runs, 5 rows, ")
    assert "partition columns" in run("table", "compact", orders, "sales.orders", "--where", where).err
    done = json.loads(run("table", "compact", orders, "sales.orders", "--full", "--json").out)
    assert (done["rows_in"], done["rows_out"], done["changed"]) == (5, 4, True)
    assert run("table", "compact", orders, "sales.orders").out == "sales.orders: nothing to compact\n"


def test_rename_and_drop(orders: str, run: Run) -> None:
    """A table moves to another name and database, and its name is free when it is dropped."""
    assert "is other.moved now" in run("table", "rename", orders, "sales.orders", "other.moved").out
    assert len(run("table", "scan", orders, "other.moved", "--json").lines) == 4
    done = json.loads(run("table", "drop", "-y", orders, "other.moved", "--json").out)
    assert done["dropped"] == "other.moved"
    assert run("table", "drop", "-y", orders, "other.moved").code == 1
    assert "there is no table" in run("table", "drop", "-y", orders, "other.moved", "--if-exists").out


def test_what_was_dropped_comes_back(orders: str, run: Run) -> None:
    """A drop says until when; undrop brings a table back, one of several by its uuid, or a database."""
    done = json.loads(run("table", "drop", "-y", orders, "sales.orders", "--json").out)
    assert dt.datetime.fromisoformat(done["until"]) > dt.datetime.now(dt.UTC)
    assert run("table", "undrop", orders, "sales.orders").out == "sales.orders is back\n"
    assert run("table", "undrop", orders, "sales.orders").code == 1
    assert "brings it back until it is purged" in run("table", "drop", "-y", orders, "sales.orders").out
    assert run("table", "undrop", orders, "sales.orders", "--uuid", done["uuid"]).code == 0
    assert len(run("table", "scan", orders, "sales.orders", "--json").lines) == 4
    assert "brings them back" in run("db", "drop", "-y", orders, "sales", "--cascade").out
    back = json.loads(run("db", "undrop", orders, "sales", "--json").out)
    assert back == {"database": "sales", "tables": ["sales.orders"], "lost": {}}
    run("db", "drop", "-y", orders, "sales", "--cascade")
    run("table", "purge", "-y", orders, "--grace", 0)
    assert run("db", "undrop", orders, "sales").code == 4


def test_errors_are_those_of_every_command(orders: str) -> None:
    """What goes wrong is one message, or one object, and exit code 1."""
    done = in_a_process("table", "scan", orders, "sales.order", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "not-found")
    done = in_a_process("table", "scan", orders, "sales.orders", "--where", "amnt > 1")
    assert done.returncode == 1
    assert b"amount" in done.stderr
    assert b"Traceback" not in done.stderr
    assert in_a_process("table", "scan", orders).returncode == 2


def test_storage_options_are_taken(warehouse: str, run: Run) -> None:
    """Commands about tables take the storage options that all others take."""
    assert "NAME=VALUE" in run("table", "list", warehouse, "-o", "sesame").err
    assert run("table", "list", warehouse, "-o", "auto_mkdir=true").code == 0


def test_rebuild_indexes_indexes_files_that_are_there(orders: str, run: Run) -> None:
    """Rebuild-indexes says what there is to do, does it, and then has nothing to do."""
    with lakehouse.sync.connect(orders) as lake:
        table = lake.table("sales.orders")
        table.set_option("index.min_rows", 1)
        table.add_index("note", "bloom")
    (row,) = run("table", "indexes", orders, "sales.orders", "--json").lines
    assert (row["target"], row["kind"], row["files"]) == ("note", "bloom", 0)
    assert "3 files" in run("table", "rebuild-indexes", orders, "sales.orders", "--dry-run").out
    done = json.loads(run("table", "rebuild-indexes", orders, "sales.orders", "--json").out)
    assert (done["files"], done["passed_over"]) == (3, 0)
    assert "as it should be" in run("table", "rebuild-indexes", orders, "sales.orders").out
    explain = ("table", "explain", orders, "sales.orders", "--where", "note = '[red]1'")
    assert "index files asked" in run(*explain).out
    assert json.loads(run(*explain, "--json").out)["files_pruned"]["index"] == 1
