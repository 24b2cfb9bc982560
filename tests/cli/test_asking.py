"""Commands that take something away: none does so unasked."""

from __future__ import annotations

import ast
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import lakehouse.sync
from lakehouse.cli import app as root
from lakehouse.cli.asking import is_asking
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from tests.cli.tables.test_commands import Run, orders, run, warehouse  # noqa: F401 - fixtures
from tests.cli.test_store import lakehouse as in_a_process
from tests.house.source_tree import library

NAME = "sales.orders"
TAKES_AWAY = {
    *("delete", "delete_tag", "drop_column", "drop_database", "drop_index", "drop_table", "drop_view"),
    *("expire_partitions", "expire_snapshots", "overwrite", "purge_dropped", "remove_orphans", "repair"),
    *("rescale", "rollback", "unset_option"),
}
"""Methods of tables and lakes after which rows, history, names or objects are gone, or all files others."""
HARMLESS = {
    *(
        "accounts",
        "analyze",
        "cache",
        "caches",
        "create_view",
        "data_files",
        "for_account",
        "graph",
        "impact",
    ),
    *("join_query", "query", "rename_view", "settings", "sql", "sql_session", "store", "table_node"),
    "undrop_view",
    *("update_catalog", "validate_catalog", "view", "view_dependencies", "view_versions", "views"),
    "with_staleness",
    *("add_column", "add_index", "alter", "alter_index", "append", "attach_catalog", "catalogs", "changes"),
    *("compact", "core", "detach_catalog", "publish_iceberg"),
    *("create_database", "create_table", "create_tag", "current_snapshot", "database_exists", "databases"),
    *("files", "flush", "follow", "get", "get_many", "index_metas", "indexes", "location", "make_optional"),
    *("manifests", "move_column", "name", "partitions", "pin", "rebuild_indexes", "rename_column"),
    *("rename_table", "scan", "schema", "schemas", "set_comment", "set_default", "set_option", "snapshots"),
    *(
        "table",
        "table_exists",
        "tables",
        "tags",
        "undrop_database",
        "undrop_table",
        "upsert",
        "uuid",
        "verify",
        "widen_column",
        "writer",
    ),
}
WORDS: dict[str, tuple[object, ...]] = {
    "db drop": ("sales", "--cascade"),
    "table drop": (NAME,),
    "table untag": (NAME, "kept"),
    "table alter": (NAME, "--drop", "note"),
    "table delete": (NAME, "--key", "id=0"),
    "table rollback": (NAME, "--snapshot", 2),
    "table expire": (NAME, "--retain", 1, "--grace", 0),
    "table expire-partitions": (NAME, "2030-01-01"),
    "table orphans": (NAME, "--older-than", "2100-01-01"),
    "table repair": (NAME,),
    "table rescale": (NAME, 3),
    "table purge": ("--grace", 0),
    "view drop": ("sales.large",),
}
"""What stands behind the warehouse, for each command that asks."""
DRY = {"table expire", "table expire-partitions", "table orphans", "table repair", "table rescale"}


def commands(app: typer.Typer, before: str = "") -> Iterator[tuple[str, object]]:
    """Every command of a command line, by its words."""
    for one in app.registered_commands:
        yield f"{before}{one.name}", one.callback
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, f"{before}{group.name} ")


class Terminal(io.StringIO):
    """Somebody who sits at a terminal and answers."""

    def isatty(self) -> bool:
        return True


def contents(url: str) -> dict[str, bytes]:
    """All objects of a warehouse."""
    return {str(one): one.read_bytes() for one in Path(url).rglob("*") if one.is_file()}


@pytest.fixture
def filled(orders: str, run: Run) -> str:  # noqa: F811
    """A warehouse in which every command of ``WORDS`` has something to take away."""
    assert run("table", "tag", orders, NAME, "kept").code == 0
    with lakehouse.sync.connect(orders) as lake:
        lake.create_table("sales.gone", lake.table(NAME).schema().arrow())
        lake.drop_table("sales.gone")
        lake.create_view("sales.large", {"duckdb": f"select * from {NAME} where amount > 100"})
    return orders


def test_every_method_is_known_to_take_away_or_not() -> None:
    """A new public method of tables or lakes is sorted in here, so that its command is known to ask."""
    public = {one for owner in (Lake, Table) for one in dir(owner) if not one.startswith("_")}
    assert public == TAKES_AWAY | HARMLESS
    assert not TAKES_AWAY & HARMLESS


def test_every_command_that_takes_away_asks() -> None:
    """A function of the command line that calls such a method is a command which asks first."""
    unasked = []
    for module in library():
        # The demo's bucket is its own.
        if not module.name.startswith("lakehouse.cli.") or module.name.startswith("lakehouse.cli.demo"):
            continue
        for one in module.tree.body:
            calls = [node.func for node in ast.walk(one) if isinstance(node, ast.Call)]
            called = {func.attr for func in calls if isinstance(func, ast.Attribute)} & TAKES_AWAY
            asking = isinstance(one, ast.AsyncFunctionDef) and any(
                isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "asks"
                for mark in one.decorator_list
            )
            if called and not asking:
                unasked.append(f"{module.path}:{one.lineno}: {', '.join(called)}")
    assert not unasked


def test_the_commands_that_ask_are_these() -> None:
    """Each command that asks is tried below."""
    names = {*root._COMMANDS} - {"spark"}
    found = {
        words
        for name in names
        for words, callback in commands(root.app_for([name]))
        if is_asking(callback)  # type: ignore[arg-type]
    }
    assert found == {*WORDS}


@pytest.mark.parametrize("command", WORDS)
def test_without_a_terminal_nothing_is_taken_away_unasked(
    command: str,
    filled: str,
    run: Run,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where nobody can answer it ends with exit code 2, says so, and every object is as it was."""
    before = contents(filled)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    done = run(*command.split(), filled, *WORDS[command])
    assert (done.code, done.out) == (2, "")
    assert "add --yes" in done.err
    assert contents(filled) == before
    assert run(*command.split(), filled, *WORDS[command], "--json").lines == [
        {"error": "unconfirmed", "message": done.err.strip().removeprefix("error: ")}
    ]


@pytest.mark.parametrize("command", WORDS)
def test_a_no_at_the_terminal_takes_nothing_away(
    command: str,
    filled: str,
    run: Run,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A terminal is asked; after a no every object is as it was, after a yes it is not."""
    before = contents(filled)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    done = run(*command.split(), filled, *WORDS[command])
    assert done.code == 1
    assert "[y/N]" in done.err
    assert contents(filled) == before
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert run(*command.split(), filled, *WORDS[command]).code == 0
    assert contents(filled) != before or command == "table repair"


@pytest.mark.parametrize("command", sorted(DRY))
def test_a_dry_run_does_not_ask(command: str, filled: str, run: Run) -> None:  # noqa: F811
    """What takes nothing away needs no yes."""
    before = contents(filled)
    assert run(*command.split(), filled, *WORDS[command], "--dry-run").code == 0
    assert contents(filled) == before


def test_a_no_from_a_pipe_drops_nothing(filled: str) -> None:
    """``echo n |`` in front of a command is no terminal: nothing is dropped."""
    done = in_a_process("db", "drop", filled, "sales", "--cascade", input=b"n\n")
    assert done.returncode == 2
    assert b"add --yes" in done.stderr
    assert NAME.encode() in in_a_process("table", "list", filled).stdout
