"""lakehouse.sync as people use it: the async lake without await."""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
import lakehouse.sync
from lakehouse.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from tools.gen_sync import rules

SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.float64(), "note": pa.string()})
TWINS = [(getattr(lakehouse, name), getattr(lakehouse.sync, name)) for name in ("Lake", "Table", "TableScan")]
TWINS += [
    (lakehouse.iceberg.IcebergTable, lakehouse.sync.iceberg.IcebergTable),
    (lakehouse.iceberg.IcebergScan, lakehouse.sync.iceberg_scan.IcebergScan),
]


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh warehouse."""
    return f"memory://{tmp_path.name}-{id(tmp_path)}" if request.param == "memory" else f"file://{tmp_path}"


@pytest.fixture
def lake(url: str) -> Iterator[lakehouse.sync.Lake]:
    """A lake with a database; leaves no thread of its own behind."""
    before = set(threading.enumerate())
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("sales")
        yield lake
    assert not [one for one in threading.enumerate() if one.name == "lakehouse-sync" and one not in before]


@pytest.fixture
def orders(lake: lakehouse.sync.Lake) -> lakehouse.sync.Table:
    """sales.orders with rows 0 to 9, at snapshot 2."""
    table = lake.create_table("sales.orders", SCHEMA, primary_key="id", bucket=2)
    table.append([{"id": n, "amount": n / 2, "note": None} for n in range(10)])
    return table


def public(cls: type) -> dict[str, Any]:
    """Methods and properties that people may use."""
    return {name: one for name, one in vars(cls).items() if not name.startswith("_")}


@pytest.mark.parametrize(("one", "twin"), TWINS, ids=lambda cls: cls.__name__)
def test_every_method_has_its_twin(one: type, twin: type) -> None:
    """What the async class offers the sync class offers, with the same parameters and defaults."""
    left_out = {name.partition(".")[2] for name in rules().left_out if name.startswith(f"{one.__name__}.")}
    offered = {name: method for name, method in public(one).items() if name not in left_out}
    assert offered.keys() <= public(twin).keys()
    for name, method in offered.items():
        other = public(twin)[name]
        assert isinstance(method, property) is isinstance(other, property)
        if not isinstance(method, property):
            expected, found = inspect.signature(method), inspect.signature(other)
            assert [p.replace(annotation="") for p in found.parameters.values()] == [
                p.replace(annotation="") for p in expected.parameters.values()
            ], name
        assert not inspect.iscoroutinefunction(other)
        assert not inspect.isasyncgenfunction(other)


def test_connect_takes_the_same_arguments() -> None:
    """Both connects have one signature, what they return aside."""
    assert (
        inspect.signature(lakehouse.sync.connect).parameters
        == inspect.signature(lakehouse.connect).parameters
    )


def docstrings() -> list[tuple[str, str]]:
    """Every docstring of lakehouse.sync with its name."""
    things = [("lakehouse.sync", lakehouse.sync), ("connect", lakehouse.sync.connect)]
    things += [(twin.__name__, twin) for _, twin in TWINS]
    things += [(f"{twin.__name__}.{name}", one) for _, twin in TWINS for name, one in public(twin).items()]
    return [(name, inspect.getdoc(thing) or "") for name, thing in things]


def test_docstrings_know_no_await() -> None:
    """Everything is documented, and no example waits or connects the async way."""
    for name, text in docstrings():
        assert text, name
        assert not re.search(r"\bawait \w|async (with|for)|lakehouse\.connect\(", text), name


def examples() -> dict[str, str]:
    """The examples of the docstrings."""
    return {
        name: textwrap.dedent(part)
        for name, text in docstrings()
        for part in re.findall(r"Example::\n\n((?:(?: {4}.*)?\n?)+)", text)
    }


@pytest.mark.parametrize("name", examples())
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    """Each example of a docstring does what it shows."""
    url = f"file://{tmp_path}"
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("sales")
        table = None
        if name != "Lake.create_table":
            schema = pa.schema({"id": pa.int64(), "amount": pa.float64()})
            table = lake.create_table("sales.orders", schema, primary_key="id")
            table.append([{"id": 1, "amount": 20.0}])
        code = compile(examples()[name].replace("s3://bucket/warehouse", url), name, "exec")
        exec(code, {"lakehouse": lakehouse, "pa": pa, "lake": lake, "table": table})


def test_there_are_examples() -> None:
    """The examples are found."""
    assert {"lakehouse.sync", "connect", "TableScan", "Table.append", "Table.get"} <= set(examples())


def test_a_table_is_written_and_read(orders: lakehouse.sync.Table) -> None:
    """Rows are added, replaced, deleted, found and scanned, all without await."""
    assert orders.upsert([{"id": 1, "amount": 99.0, "note": None}]).snapshot == 3
    assert orders.get({"id": 1}) == {"id": 1, "amount": 99.0, "note": None}
    assert orders.get_many([{"id": 2}, {"id": 77}]).column("id").to_pylist() == [2]
    assert orders.delete("id > 7").rows == 2
    orders.delete(keys=[{"id": 0}])
    assert orders.scan().count() == 7
    scan = orders.scan("amount > 2", columns=["id"])
    assert sorted(row["id"] for row in scan.to_pylist()) == [1, 5, 6, 7]
    assert scan.report.rows == 4
    assert sorted(scan.to_pandas()["id"]) == [1, 5, 6, 7]
    assert sum(batch.num_rows for batch in orders.scan().batches()) == 7
    assert sum(table.num_rows for table in orders.scan().tables()) == 7
    orders.overwrite([{"id": 5, "amount": 5.0}])
    assert orders.scan().to_arrow().num_rows == 1
    assert orders.scan(snapshot=2).count() == 10


def test_a_table_tells_of_itself(orders: lakehouse.sync.Table) -> None:
    """Schema, names and relations come as they are."""
    assert orders.name == "sales.orders"
    assert orders.uuid.hex[:8] in orders.location
    assert repr(orders) == f"<Table sales.orders at {orders.location}>"
    assert orders.schema().primary_key == ("id",)
    assert orders.current_snapshot() == 2
    assert orders.snapshots().column("kind").to_pylist() == ["create", "append"]
    assert orders.files().num_rows == 2
    assert orders.partitions().num_rows == 1
    assert orders.manifests().num_rows == 0
    assert orders.schemas().num_rows == 1
    assert orders.scan("id = 77").explain().files == 2


def test_a_table_travels_and_evolves(orders: lakehouse.sync.Table) -> None:
    """Tags, pins, rollback and changes of the schema work as they do with await."""
    orders.create_tag("before", snapshot=2)
    orders.upsert([{"id": 0, "amount": -1.0, "note": None}])
    (changed,) = orders.changes(2)
    assert changed.column("_change").to_pylist() == ["update_before", "update_after"]
    with orders.pin(2) as pinned:
        assert pinned == 2
        assert orders.tags().num_rows == 2
    assert orders.tags().column("name").to_pylist() == ["before"]
    orders.rollback(tag="before")
    assert orders.get({"id": 0}) == {"id": 0, "amount": 0.0, "note": None}
    orders.alter(lakehouse.AddColumn("day", "date"), lakehouse.RenameColumn("amount", "total"))
    orders.set_option("commit.max_retries", 3)
    assert orders.schema().arrow().names == ["id", "total", "note", "day"]


def test_databases_and_tables(lake: lakehouse.sync.Lake) -> None:
    """Databases and tables are made, listed, moved and dropped."""
    lake.create_database("other")
    assert lake.databases() == ["other", "sales"]
    assert lake.database_exists("other")
    for name in ("b", "a"):
        assert isinstance(lake.create_table(f"sales.{name}", SCHEMA), lakehouse.sync.Table)
    assert list(lake.tables("sales")) == ["sales.a", "sales.b"]
    moved = lake.rename_table("sales.b", "other.c")
    assert isinstance(moved, lakehouse.sync.Table)
    assert lake.table("other.c").uuid == moved.uuid
    assert not lake.table_exists("sales.b")
    lake.drop_table("sales.a")
    lake.drop_database("other", cascade=True)
    assert lake.databases() == ["sales"]


def test_errors_are_the_engines(lake: lakehouse.sync.Lake, orders: lakehouse.sync.Table) -> None:
    """Errors have the class, kind and context that they have with await."""
    with pytest.raises(NotFoundError) as missing:
        lake.table("sales.nothing")
    assert missing.value.kind == "not-found"
    with pytest.raises(AlreadyExistsError):
        lake.create_table("sales.orders", SCHEMA)
    with pytest.raises((AlreadyExistsError, ConflictError)):
        orders.append([{"id": 1}], on_conflict="error")
    with pytest.raises(InvalidInputError, match="amount"):
        orders.scan("amnt > 1").to_arrow()
    with pytest.raises(InvalidInputError):
        orders.scan(limit=-1)
    with pytest.raises(TypeError):
        orders.scan(nothing=1)  # type: ignore[call-arg]


def test_an_iteration_left_early_leaves_nothing(
    lake: lakehouse.sync.Lake, orders: lakehouse.sync.Table
) -> None:
    """Leaving the rows, or the lake, in the middle ends what reads them."""
    batches = orders.scan().batches()
    assert next(batches).num_rows
    batches.close()
    for _ in orders.scan().tables():
        break
    unfinished = orders.scan().batches()
    next(unfinished)
    lake.close()
    with pytest.raises(InvalidInputError, match="closed"):
        list(unfinished)


def test_rows_may_come_from_anywhere(lake: lakehouse.sync.Lake, orders: lakehouse.sync.Table) -> None:
    """Generators, readers and scans of the same lake are taken as they come."""
    copy = lake.create_table("sales.copy", SCHEMA, primary_key="id")
    copy.append({"id": n, "amount": float(n), "note": None} for n in range(100, 105))
    copy.append(orders.scan().batches())
    copy.append(orders.scan("id < 3").to_arrow().to_reader())
    assert copy.scan().count() == 15


def test_closing_is_the_end(url: str) -> None:
    """After with, or close, every use says that the lake is closed."""
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("sales")
        table = lake.create_table("sales.orders", SCHEMA)
    for use in (lake.databases, table.schema, lambda: next(table.scan().batches()), lake.__enter__):
        with pytest.raises(InvalidInputError, match="closed"):
            use()
    lake.close()


def test_a_lake_works_without_with(url: str) -> None:
    """Connecting does nothing yet; the first call opens the lake and close ends it."""
    before = threading.active_count()
    lake = lakehouse.sync.connect(url)
    assert threading.active_count() == before
    assert repr(lake).startswith("<Lake at ")
    assert lake.databases() == []
    with lake:
        lake.create_database("sales")
    with pytest.raises(InvalidInputError):
        lake.databases()


def test_a_program_may_end_without_closing(tmp_path: Path) -> None:
    """A lake that is left open is closed at the end, and what was committed is there."""
    program = f"""
import pyarrow as pa, lakehouse.sync, threading
assert threading.active_count() == 1
lake = lakehouse.sync.connect({str(tmp_path)!r})
lake.create_database("sales")
table = lake.create_table("sales.orders", pa.schema({{"id": pa.int64()}}))
table.append([{{"id": 1}}, {{"id": 2}}])
rows = table.scan().batches()
next(rows)
"""
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with lakehouse.sync.connect(str(tmp_path)) as lake:
        assert lake.table("sales.orders").scan().count() == 2


def test_a_store_is_checked_when_that_is_asked(url: str) -> None:
    """check=True tries the store before anything else is done with it."""
    with lakehouse.sync.connect(url, check=True) as lake:
        assert lake.databases() == []


def test_settings_and_caches_are_the_lakes(url: str) -> None:
    """What a lake is bounded by and remembers can be looked at."""
    with lakehouse.sync.connect(url, settings={"table.scan_concurrency": 3}) as lake:
        assert lake.settings.table.scan_concurrency == 3
        assert lake.caches.stats()


def test_costs_are_counted(orders: lakehouse.sync.Table) -> None:
    """Requests are counted by the block that surrounds the call, as they are with await."""
    with lakehouse.measure() as cost:
        orders.append([{"id": 50, "amount": 1.0, "note": None}])
    assert cost.by_kind()["put"] == 2
    with lakehouse.measure() as cost:
        rows = sum(batch.num_rows for batch in orders.scan().batches())
    assert rows == 11
    assert cost.by_kind()["get"] >= 3


def test_many_threads_share_a_lake(lake: lakehouse.sync.Lake) -> None:
    """Threads write to one table through one lake, and every row is there once."""
    table = lake.create_table("sales.log", pa.schema({"thread": pa.int64(), "at": pa.timestamp("us")}))

    def write(number: int) -> int:
        return table.append([{"thread": number, "at": dt.datetime(2026, 1, 1)}]).snapshot

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(write, range(6))) == [2, 3, 4, 5, 6, 7]
    assert sorted(row["thread"] for row in table.scan().to_pylist()) == list(range(6))


def test_twins_hold_calls_only() -> None:
    """The generated modules have no loop, no await and no handler: nothing is done twice."""
    folder = Path(inspect.getfile(lakehouse.sync)).parent
    logic = (
        ast.Await,
        ast.AsyncFor,
        ast.AsyncWith,
        ast.AsyncFunctionDef,
        ast.For,
        ast.While,
        ast.If,
        ast.Try,
    )
    texts = [module.read_text(encoding="utf-8") for module in folder.rglob("*.py")]
    made = [text for text in texts if "# Made by tools/gen_sync.py" in text]
    assert len(made) > 10
    for text in made:
        tree = ast.parse(text)
        assert not [node for node in ast.walk(tree) if isinstance(node, logic)]


def test_index_metas_are_enumerated(lake: lakehouse.sync.Lake) -> None:
    """The indexes of a warehouse are iterated, or taken as one table, and an early end is one."""
    for name in ("sales.a", "sales.b"):
        options = {"index.min_rows": 1}
        indexes = {"note": "bloom", "amount": "inverted"}
        table = lake.create_table(name, SCHEMA, primary_key="id", indexes=indexes, options=options)
        table.append([{"id": 1, "amount": 1.5, "note": "a"}])
    scan = lake.index_metas()
    assert sorted(entry.index_type for entry in scan) == ["bloom_skipping"] * 2 + ["inverted"] * 2
    assert (scan.stats.files, scan.problems) == (2, [])
    assert lake.index_metas("sales.b", kinds=["inverted"]).to_arrow().num_rows == 1
    for entry in lake.index_metas("sales.a"):
        assert entry.error is None
        break


def test_lakes_and_tables_are_pickled_as_configuration(tmp_path: Path) -> None:
    """A lake and a table of it, used or not, work where they are unpickled; writers and scans refuse."""
    with lakehouse.sync.connect(str(tmp_path)) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", pa.schema({"id": pa.int64()}))
        table.append([{"id": 1}])
        for what in (table.writer(), table.scan()):
            with pytest.raises(InvalidInputError, match="cannot be pickled"):
                pickle.dumps(what)
        unused = pickle.dumps(lakehouse.sync.connect(str(tmp_path)))
        sent = pickle.dumps((lake, table))
    copy, its_table = pickle.loads(sent)
    with copy:
        assert its_table.scan().count() == 1
    with pickle.loads(unused) as other:
        assert other.table("db.t").scan().count() == 1
