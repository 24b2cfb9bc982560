"""Benchmarks measure what they say: turns, samples, ratios, goals, and pages that follow from the JSON."""

from __future__ import annotations

import asyncio
import dataclasses
import getpass
import json
import socket
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import __main__ as command
from benchmarks import bench_conditional, machine, registry, render
from benchmarks.compare import comparison
from benchmarks.model import Goal, Report, Result, Spread, Table, ratio
from benchmarks.peers import Each, each_by_workers
from benchmarks.runner import Case, Plan, compare, measure
from benchmarks.tables import default_table, goal_table, markdown, pivot, seconds_text
from lakehouse.io.open import stacked
from lakehouse.testing.stores import memory_store


def result(side: str, *seconds: float, work: float = 10, **params: str | int | float) -> Result:
    """A result whose samples are given."""
    return Result(side=side, params=params, work=work, unit="reads", seconds=seconds, cpu_seconds=seconds)


def report(*results: Result, baseline: str = "peer") -> Report:
    """A report of some results."""
    return Report(name="x", title="X", scale="quick", results=results, baseline=baseline, notes=("a note",))


# ------------------------------------------------------------------ measuring


async def test_sides_take_turns() -> None:
    """Every round runs every side once, and begins with another one than the round before."""
    ran: list[str] = []
    cases = [Case(side=side, run=lambda side=side: ran.append(side)) for side in "abc"]
    await compare(cases, work=1, unit="runs", warmup=0, repeats=3)
    assert "".join(ran) == "abcbcacab"


async def test_warm_up_does_not_count() -> None:
    """Rounds before the first that counts are run and leave no sample."""
    runs: list[int] = []
    (found,) = await compare(
        [Case(side="a", run=lambda: runs.append(1))], work=1, unit="runs", warmup=2, repeats=3
    )
    assert (len(runs), len(found.seconds), len(found.cpu_seconds)) == (5, 3, 3)


async def test_preparation_is_not_timed() -> None:
    """What a case does before a run takes none of the run's time."""
    case = Case(side="a", run=lambda: None, before=lambda: asyncio.sleep(0.05))
    (found,) = await compare([case], work=1, unit="runs", warmup=0, repeats=3)
    assert found.wall.low < 0.05


async def test_wall_time_is_measured() -> None:
    """A run that waits is as long as its wait, and takes little CPU time."""

    async def wait() -> None:
        await asyncio.sleep(0.05)

    found = await measure(wait, repeats=2)
    assert found.side == "wait"
    assert found.wall.low >= 0.049
    assert found.cpu_per_unit < 0.049


async def test_requests_of_our_stores_are_counted() -> None:
    """A run that uses a store of ours says how many requests and bytes one run took."""
    store = stacked(memory_store())
    await store.put("k", b"x" * 100)

    async def read() -> None:
        await store.get_tail("k", 10, size=100)
        await store.get_tail("k", 10, size=100)

    found = await measure(read, repeats=3)
    assert found.requests == {"get": 2}
    assert found.bytes_read == 20


def test_a_plan_scales() -> None:
    """A bench picks how much it does by the scale that was asked for."""
    picked = [Plan(scale=scale).pick(quick=1, default=2, full=3) for scale in ("quick", "default", "full")]
    assert picked == [1, 2, 3]


async def test_workers_stay_within_the_limit() -> None:
    """The plain fan-out of the peers calls every item once, and never more than the limit at once."""
    now = most = 0
    seen: list[str] = []

    async def do(key: str) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        seen.append(key)
        now -= 1

    await each_by_workers(do, [str(number) for number in range(20)], 3)
    assert (most, sorted(map(int, seen))) == (3, list(range(20)))


class _Dictionary:
    """A side over a dictionary."""

    name = "dictionary"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    async def tail(self, key: str, length: int, size: int) -> bytes:
        return self.objects[key][-length:]

    async def tail_of_unknown(self, key: str, length: int) -> bytes:
        return self.objects[key][-length:]

    async def create(self, key: str, data: bytes) -> bool:
        await asyncio.sleep(0)
        free = key not in self.objects
        self.objects.setdefault(key, data)
        return free

    async def each(self, do: Each, keys: Iterable[str], limit: int) -> None:
        await each_by_workers(do, keys, limit)


async def test_racing_writers_leave_a_dense_log() -> None:
    """Every number of the log is committed once, however many writers race for it."""
    side = _Dictionary()
    await bench_conditional.write_log(side, writers=4, commits=10)
    assert [int(key.rpartition("/")[2]) for key in sorted(side.objects)] == list(range(10))


async def test_a_log_with_a_lost_commit_is_no_result() -> None:
    """A side that says it created what was there fails the bench instead of winning it."""

    class Liar(_Dictionary):
        async def create(self, key: str, data: bytes) -> bool:
            await super().create(key, data)
            return True

    with pytest.raises(AssertionError, match="10 commits, 20 acknowledged"):
        await bench_conditional.write_log(Liar(), writers=2, commits=10)


# ------------------------------------------------------------------ judging


def test_a_spread_is_not_moved_by_one_odd_sample() -> None:
    """Median and MAD stay where most samples are; low and high show the odd one."""
    assert Spread.of([1, 1.1, 0.9, 1, 50]) == Spread(
        median=1, low=0.9, high=50, mad=pytest.approx(0.1), count=5
    )


def test_a_ratio_is_taken_round_by_round() -> None:
    """A disturbance that slows both sides of a round leaves the ratio as it is."""
    assert ratio(result("ours", 1, 5, 1), result("peer", 2, 10, 2)) == Spread(
        median=2, low=2, high=2, mad=0, count=3
    )


def test_a_ratio_is_per_unit() -> None:
    """Sides that did different amounts of work are compared by the unit."""
    assert ratio(result("ours", 1, work=10), result("peer", 1, work=5)).median == 2


def test_a_rate_is_work_over_the_median() -> None:
    """Units per second come from the median sample."""
    assert result("ours", 1, 2, 9, work=10).rate == 5


def test_the_ideal_is_a_multiple() -> None:
    """Wall time is shown as a multiple of the ideal where there is one."""
    assert result("ours", 3).to_ideal is None
    assert dataclasses.replace(result("ours", 3), ideal_s=2.0).to_ideal == 1.5


def test_a_baseline_has_the_same_parameters() -> None:
    """A result is compared with its baseline under the same parameters, the baseline with nothing."""
    ours, peer, other = result("ours", 1, c=1), result("peer", 2, c=1), result("peer", 3, c=2)
    whole = report(ours, other, peer)
    assert whole.baseline_of(ours) == peer
    assert whole.baseline_of(peer) is None


def test_a_report_survives_json() -> None:
    """What was written can be read again, and says the same."""
    whole = report(
        dataclasses.replace(result("ours", 0.25, c=1), requests={"get": 2}), result("peer", 0.5, c=1)
    )
    assert Report.from_json(json.loads(json.dumps(whole.to_json()))) == whole


def test_two_runs_are_compared_result_by_result() -> None:
    """Results that both runs have stand side by side; a difference within the noise is no difference."""
    before = report(result("ours", 4, 4, 4, c=1), result("peer", 1, 2, 3, c=1), result("gone", 1, c=1))
    after = report(result("ours", 2, 2, 2, c=1), result("peer", 2, 3, 4, c=1), result("new", 1, c=1))
    table = comparison(before, after)
    assert [(row[1], *row[2:5]) for row in table.rows] == [
        ("ours", "400 ms", "200 ms", "0.50"),
        ("peer", "200 ms", "300 ms", "≈"),
    ]


# ------------------------------------------------------------------ showing


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(123.4, "123 s"), (1.234, "1.23 s"), (0.0456, "45.6 ms"), (0.000789, "789 µs"), (5e-7, "0.50 µs")],
)
def test_times_have_three_figures(seconds: float, text: str) -> None:
    """A time is shown in the unit that fits."""
    assert seconds_text(seconds) == text


def test_the_default_table_has_every_result() -> None:
    """Without tables of its own, a bench shows each result with its ratio to the baseline."""
    table = default_table(report(result("ours", 1, c=8), result("peer", 2, c=8)))
    assert table.header == ("c", "side", "wall", "± MAD", "per second", "client CPU", "× peer")
    assert [(row[:2], row[-1]) for row in table.rows] == [
        (("8", "ours"), "2.00 ± 0.00"),
        (("8", "peer"), "1"),
    ]


def test_a_grid_keeps_its_order() -> None:
    """Rows and columns of a grid come in the order of the results, and holes stay empty."""
    grid = pivot(
        [result("a", 1, c=8, l=5), result("a", 2, c=1, l=5), result("a", 3, c=1, l=100)],
        title="t",
        rows="l",
        columns="c",
        cell=lambda r: f"{r.wall.median:g}",
    )
    assert (grid.header, grid.rows) == (("l \\ c", "8", "1"), (("5", "1", "2"), ("100", "", "3")))


def test_goals_say_whether_they_are_met() -> None:
    """A goal that this run says nothing about is neither met nor missed."""
    goals = [Goal(text="g", target="1", measured="2", met=met) for met in (True, False, None)]
    assert [row[-1] for row in goal_table(goals).rows] == ["met", "missed", "—"]


def test_markdown_is_a_table() -> None:
    """A table becomes Markdown with its title above and its note below."""
    table = Table(title="T", header=("a", "b"), rows=(("1", "2"),), note="n")
    assert markdown(table) == "### T\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n\nn\n"


def test_a_saved_report_is_json_page_and_plot(tmp_path: Path) -> None:
    """Saving writes three files; the page shows the plot, and the JSON is the report."""
    whole = report(result("ours", 1, c=8), result("peer", 2, c=8))
    render.save(whole, ModuleType("plain"), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.md", "x.png"]
    assert "![X](x.png)" in (tmp_path / "x.md").read_text()
    assert render.load("x", tmp_path) == whole


@pytest.mark.parametrize("name", sorted(path.stem for path in render.COMMITTED.glob("*.json")))
def test_committed_pages_follow_from_their_json(name: str) -> None:
    """A committed page is what its JSON renders to; ``python -m benchmarks.render`` makes it so."""
    page = render.page(render.load(name), registry.bench(name), plotted=True)
    assert (render.COMMITTED / f"{name}.md").read_text() == page


def test_the_machine_is_described_without_its_name() -> None:
    """Results say what ran them, and neither where that stands nor whose it is."""
    described = machine.describe()
    assert {"cpu", "cores", "memory_gib", "system", "python", "packages", "load_before"} <= described.keys()
    text = json.dumps(described)
    assert not [
        secret for secret in (socket.gethostname(), str(Path.home()), str(Path.cwd())) if secret in text
    ]
    assert getpass.getuser() not in described["system"]


# ------------------------------------------------------------------ the command


def test_every_bench_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Every module called bench_… is listed with its title, and has the function that runs it."""
    assert command.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == registry.names()
    assert {"conditional", "fanout", "tails"} <= set(registry.names())
    assert all(asyncio.iscoroutinefunction(registry.bench(name).run) for name in registry.names())


def test_an_unknown_bench_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that no bench has is refused with the names there are, before anything runs."""
    assert command.main(["tails", "tales"]) == 2
    assert "there is no bench tales: choose from" in capsys.readouterr().err
