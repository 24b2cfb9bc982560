"""The commands that keep tables small and sound, as a person gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakehouse.sync
from tests.cli.tables.test_commands import Run, orders, run, warehouse  # noqa: F401 - fixtures

NAME = "sales.orders"


def members(done: object) -> dict[str, object]:
    """The JSON object that a command printed."""
    return dict(json.loads(done.out))  # type: ignore[attr-defined]


def test_expire_and_orphans(orders: str, run: Run) -> None:  # noqa: F811
    """A dry run says what the same command then does; texts name what was deleted."""
    words = ("table", "expire", "-y", orders, NAME, "--retain", 1, "--grace", 0)
    would = members(run(*words, "--dry-run", "--json"))
    done = members(run(*words, "--json"))
    assert (would["dry_run"], done["dry_run"]) == (True, False)
    assert (would["snapshots"], would["files"]) == (done["snapshots"], done["files"]) == (2, 0)
    # One for the snapshots, one for the object that was asked what time it is.
    assert done["requests"]["delete"] == 2  # type: ignore[index]
    assert "from snapshot 3 on" in run("table", "expire", "-y", orders, NAME).out
    swept = run("table", "orphans", "-y", orders, NAME)
    assert "0 orphans deleted" in swept.out
    assert members(run("table", "orphans", orders, NAME, "--dry-run", "--json"))["objects"] == 0


def test_verify_tells_damage_by_its_exit_code(orders: str, run: Run) -> None:  # noqa: F811
    """Exit code 0 for a sound table, 4 for a damaged one, whose objects are named."""
    assert run("table", "verify", orders, NAME, "--deep").code == 0
    (path, *_) = sorted(Path(orders).glob("sales/orders-*/data/**/*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    done = run("table", "verify", orders, NAME)
    assert done.code == 4
    assert path.name in done.out
    found = members(run("table", "verify", orders, NAME, "--json"))
    assert found["damages"][0]["problem"] == "size"  # type: ignore[index]


def test_repair_names_what_is_lost(orders: str, run: Run) -> None:  # noqa: F811
    """Exit code 4 when something is lost, and the table reads again."""
    assert run("table", "repair", "-y", orders, NAME).code == 0
    (path, *_) = sorted(Path(orders).glob("sales/orders-*/data/**/*.parquet"))
    path.unlink()
    assert run("table", "scan", orders, NAME).code == 1
    assert members(run("table", "repair", orders, NAME, "--dry-run", "--json"))["changed"] is False
    done = run("table", "repair", "-y", orders, NAME, "--shallow")
    assert done.code == 4
    assert path.name in done.out
    assert run("table", "scan", orders, NAME).code == 0


def test_rescale_and_partitions(orders: str, run: Run) -> None:  # noqa: F811
    """Buckets change, and rows of old partitions go."""
    assert members(run("table", "rescale", "-y", orders, NAME, 4, "--json"))["buckets"] == 4
    assert json.loads(run("table", "describe", orders, NAME, "--json").out)["buckets"] == 4
    assert run("table", "rescale", "-y", orders, NAME, 0).code == 2
    done = members(run("table", "expire-partitions", "-y", orders, NAME, "2026-01-02", "--json"))
    assert (done["changed"], done["partitions"]) == (True, 1)
    with lakehouse.sync.connect(orders) as lake:
        assert lake.table(NAME).scan().count() == 2


def test_purge_deletes_dropped_tables(orders: str, run: Run) -> None:  # noqa: F811
    """Dropped tables wait for their grace; with none they go."""
    assert run("table", "drop", "-y", orders, NAME).code == 0
    assert members(run("table", "purge", "-y", orders, "--json"))["tables"] == []
    assert len(members(run("table", "purge", "-y", orders, "--grace", 0, "--json"))["tables"]) == 1  # type: ignore[arg-type]
    assert not list(Path(orders).glob("sales/orders-*/data/**/*.parquet"))


@pytest.mark.parametrize("command", ["expire", "orphans", "verify", "repair", "rescale", "purge"])
def test_every_command_has_help(command: str, run: Run) -> None:  # noqa: F811
    """Help says what a command does."""
    done = run("table", command, "--help")
    assert done.code == 0
    assert "--json" in done.out
