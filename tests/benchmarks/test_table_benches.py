"""Benchmarks of tables: what was lost is found, batches are what they are said to be, workers answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_table_commits, bench_table_upsert, peer_env
from benchmarks.bench_table_commits import Tally, tally
from benchmarks.bench_table_upsert import batch
from benchmarks.model import Report, Result
from benchmarks.table_peers import Key, orders
from benchmarks.worker import WorkerFailedError, commits, started


def commit(number: int, error: str | None = None) -> dict[str, Any]:
    """What a worker says of a commit."""
    return {"id": number, "seconds": 0.01, "error": error}


def upserts(side: str, seconds: float) -> Result:
    """An upsert of a batch into a million rows."""
    params = {"what": "upsert", "rows": 1_000_000, "key": "int64"}
    return Result(
        side=side,
        params=params,
        work=100_000,
        unit="rows",
        seconds=(seconds,) * 3,
        cpu_seconds=(seconds,) * 3,
    )


# ------------------------------------------------------------------ commits


def test_commits_that_are_all_there_once_are_exact() -> None:
    """Nothing is lost or doubled when every acknowledged row is found once."""
    assert tally([commit(1), commit(2)], [2, 1]) == Tally(asked=2, acknowledged=2)


def test_an_acknowledged_row_that_is_missing_is_lost() -> None:
    """A commit that was acknowledged and left no row counts as lost."""
    assert tally([commit(1), commit(2)], [2]) == Tally(asked=2, acknowledged=2, lost=1)


def test_a_row_that_is_there_twice_is_doubled() -> None:
    """A row that a retry added again counts as doubled."""
    assert tally([commit(1)], [1, 1]) == Tally(asked=1, acknowledged=1, doubled=1)


def test_a_commit_that_failed_is_not_lost() -> None:
    """A writer that was told of an error was not promised a row."""
    assert tally([commit(1, "ConflictError: late"), commit(2)], [2]) == Tally(asked=2, acknowledged=1)


def test_tallies_add_up() -> None:
    """The rounds of a side are counted together."""
    whole = Tally(asked=2, acknowledged=2, lost=1) + Tally(asked=2, acknowledged=1, doubled=1)
    assert whole == Tally(asked=4, acknowledged=3, lost=1, doubled=1)


async def test_every_task_commits_rows_of_its_own() -> None:
    """Tasks share nothing: each commits as many rows as are asked for, and an error ends no task."""
    made: list[int] = []

    async def make(number: int) -> None:
        if number == 12:
            raise ValueError("no")
        made.append(number)

    done = await commits(make, first=10, count=2, tasks=3)
    assert sorted(made) == [10, 11, 13, 14, 15]
    assert {one["id"]: one["error"] for one in done if one["error"]} == {12: "ValueError: no"}


def test_a_lost_row_fails_the_goal() -> None:
    """A bench of commits in which one of ours was lost says that its goal is missed."""
    outcome = {
        "side": "lakehouse",
        "table": "primary key",
        "writers": "4 processes",
        "asked": 80,
        "acknowledged": 80,
        "lost": 1,
        "doubled": 0,
    }
    report = Report(name="x", title="X", scale="quick", results=(), facts={"outcomes": [outcome]})
    (goal,) = bench_table_commits.goals(report)
    assert (goal.measured, goal.met) == ("79 of 80, 0 doubled", False)


# ------------------------------------------------------------------ upserts


@pytest.mark.parametrize("key", ["int64", "string"])
def test_nine_rows_in_ten_replace_one(key: Key) -> None:
    """A batch has distinct keys, nine in ten of which the table has; batches add different ones."""
    base = orders(1_000, key)
    first, second = (batch(base, 100, key, number) for number in (0, 1))
    there = set(base["id"].to_pylist())
    new = [set(one["id"].to_pylist()) - there for one in (first, second)]
    assert [len(one) for one in new] == [10, 10]
    assert not new[0] & new[1]
    assert len(set(first["id"].to_pylist())) == 100
    assert first.schema == base.schema


def test_a_goal_without_its_peer_is_left_out() -> None:
    """Upserts are judged beside the peers that took part."""
    results = (upserts("lakehouse", 0.1), upserts("delta-rs", 0.4))
    report = Report(name="x", title="X", scale="quick", results=results)
    (goal,) = bench_table_upsert.goals(report)
    assert (goal.target, goal.measured, goal.met) == ("≥ 3", "4.00 ± 0.00", True)


# ------------------------------------------------------------------ peers


def test_an_environment_counts_when_it_was_installed_from_the_list_of_today(tmp_path: Path) -> None:
    """An environment that was cut short, or made from another list, is not used."""
    place = tmp_path / "pypaimon"
    (place / "bin").mkdir(parents=True)
    assert peer_env.python_of("pypaimon", home=tmp_path) is None
    (place / "installed.txt").write_text("pypaimon==0.2.0\n")
    assert peer_env.python_of("pypaimon", home=tmp_path) is None
    (place / "installed.txt").write_text((peer_env.REQUIREMENTS / "pypaimon.txt").read_text())
    assert peer_env.python_of("pypaimon", home=tmp_path) == place / "bin" / "python"


def test_an_environment_is_pinned() -> None:
    """Every package of a peer's list has one version."""
    lists = [(peer_env.REQUIREMENTS / f"{name}.txt").read_text() for name in peer_env.names()]
    lines = [line for text in lists for line in text.splitlines() if not line.startswith("#")]
    assert "pypaimon==2.1.0" in lines
    assert all(line.count("==") == 1 for line in lines)


async def test_a_worker_answers() -> None:
    """What a worker prints does not get between its answers, and an error is one."""
    async with started("tests.benchmarks.echo_worker") as worker:
        assert await worker.ask("repeat", text="one\ntwo") == "one\ntwo"
        with pytest.raises(WorkerFailedError, match="ValueError: three"):
            await worker.ask("fail", text="three")
        assert await worker.ask("repeat", text="four") == "four"
