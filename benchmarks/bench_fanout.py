"""Fan-out over a slow store: wall time next to ``ceil(N / c) x latency``.

Twice: over an in-memory store that only waits, where nothing but our own CPU time stands
between us and the ideal, and over a real store behind a proxy that waits, next to plain
s3fs and obstore. Both have a floor, measured in the same rounds: `asyncio.sleep` alone
(asyncio rounds waits up to whole milliseconds), and signed GETs on plain sockets (which
see the store's own time, and the proxy's). And a small machine has a limit, since client,
proxy and store share its cores: the same requests without a wait show it. Where the ideal
asks for more than half of that, requests queue for a core.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.peers import (
    BARE_HTTP,
    FAST,
    LAKEHOUSE,
    TailReader,
    each_by_workers,
    fill,
    open_bare_http,
    open_sides,
    tail_sides_agree,
)
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot, seconds_text
from lakehouse.io import ObjectStore, map_bounded
from lakehouse.io.open import stacked
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.proxy import proxy_process
from lakehouse.testing.servers import best_server
from lakehouse.testing.stores import LatencyStore, memory_store

__all__ = ["TITLE", "goals", "plot", "run", "tables"]

TITLE = "Fan-out under injected latency"

_SLEEP = "asyncio.sleep"
_MEMORY = "latency store"
_REAL = "real store"
_FLOORS = {_MEMORY: _SLEEP, _REAL: BARE_HTTP}
_OBJECT_BYTES = 16 * 1024
_TAIL_BYTES = 4 * 1024
_KEYS = tuple(f"warehouse/db/table-00000000/index/{number:04}.puffin" for number in range(256))
_GOAL = 1.10
_GOAL_FROM_MS = 20


async def run(plan: Plan) -> Report:
    """The grid of latency and concurrency, over both kinds of store."""
    latencies = plan.pick(quick=(20,), default=(20, 100), full=(5, 20, 50, 100))
    levels = plan.pick(quick=(16, 64), default=(1, 16, 64), full=(1, 8, 16, 32, 64))
    results: list[Result] = []
    for latency_ms, concurrency in itertools.product(latencies, levels):
        results += await _over_memory(plan, latency_ms, concurrency)
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with open_sides(server, bucket) as sides:
            await fill(sides[LAKEHOUSE], _KEYS, _OBJECT_BYTES)
            await tail_sides_agree(sides.values(), _KEYS[0], length=_TAIL_BYTES, size=_OBJECT_BYTES)
        for latency_ms in (0, *latencies):
            with proxy_process(server.endpoint_url, latency_ms=latency_ms) as proxy:
                results += await _over_the_wire(plan, (server, bucket, proxy.url), latency_ms, levels)
    return Report(
        name="fanout",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        notes=(
            f"{_TAIL_BYTES // 1024} KiB tails of known size; the ideal is ceil(N / c) × latency.",
            f"Real store: {server.note}, behind a proxy in a process of its own that waits before a request.",
        ),
        facts={"object_store": server.note},
    )


async def _over_memory(plan: Plan, latency_ms: int, concurrency: int) -> list[Result]:
    say(f"fanout: {_MEMORY}, {latency_ms} ms, concurrency {concurrency}")
    waves = max(4, round(500 / latency_ms))
    reads = waves * concurrency
    bare = memory_store()
    for key in _KEYS:
        await bare.put(key, bytes(_OBJECT_BYTES))
    store = stacked(LatencyStore(bare, latency_ms / 1000))
    return await compare(
        [
            Case(side=_SLEEP, run=lambda: _only_sleep(latency_ms / 1000, reads, concurrency)),
            Case(side=LAKEHOUSE, run=lambda: _drain(store, reads, concurrency)),
        ],
        work=reads,
        unit="reads",
        params={"over": _MEMORY, "latency_ms": latency_ms, "concurrency": concurrency},
        ideal_s=math.ceil(reads / concurrency) * latency_ms / 1000,
        warmup=plan.warmup,
        repeats=plan.repeats,
    )


async def _only_sleep(seconds: float, times: int, concurrency: int) -> None:
    await each_by_workers(lambda _: asyncio.sleep(seconds), _keys(times), concurrency)


async def _drain(store: ObjectStore, reads: int, concurrency: int) -> None:
    async for _ in map_bounded(
        lambda key: store.get_tail(key, _TAIL_BYTES, size=_OBJECT_BYTES), _keys(reads), concurrency
    ):
        pass


def _keys(count: int) -> Iterator[str]:
    return itertools.islice(itertools.cycle(_KEYS), count)


async def _over_the_wire(
    plan: Plan, where: tuple[ServerInfo, str, str], latency_ms: int, levels: tuple[int, ...]
) -> list[Result]:
    results: list[Result] = []
    server, bucket, url = where
    for concurrency in levels if latency_ms else levels[-1:]:
        say(f"fanout: {server.kind}, {latency_ms} ms, concurrency {concurrency}")
        waves = max(4, round(500 / latency_ms)) if latency_ms else 8
        reads = min(waves * concurrency, max(512, 4 * concurrency))
        async with (
            open_sides(server, bucket, endpoint_url=url) as sides,
            open_bare_http(server, bucket, _KEYS, endpoint_url=url) as floor,
        ):
            results += await compare(
                [_wire_case(side, reads, concurrency) for side in (floor, *sides.values())],
                work=reads,
                unit="reads",
                params={"over": _REAL, "latency_ms": latency_ms, "concurrency": concurrency},
                ideal_s=math.ceil(reads / concurrency) * latency_ms / 1000 or None,
                warmup=plan.warmup,
                repeats=plan.repeats,
            )
    return results


def _wire_case(side: TailReader, reads: int, concurrency: int) -> Case:
    return Case(
        side=side.name,
        run=lambda: side.each(
            lambda key: side.tail(key, _TAIL_BYTES, _OBJECT_BYTES), _keys(reads), concurrency
        ),
    )


# ------------------------------------------------------------------ what it says


def _limit(report: Report, side: str) -> float:
    """Reads per second that the side reaches through the proxy when nothing waits."""
    return report.one(over=_REAL, latency_ms=0, side=side).rate


def _is_crowded(report: Report, result: Result) -> bool:
    """Whether the ideal asks for more than half of the reads per second that this machine can do."""
    assert result.ideal_s is not None
    return result.work / result.ideal_s > _limit(report, result.side) / 2


def _to_ideal(report: Report, result: Result) -> float:
    """Wall time over ceil(N / c) × the latency that was injected."""
    assert result.to_ideal is not None
    return result.to_ideal


def _to_floor(report: Report, result: Result) -> float:
    """Wall time over that of the floor under the same parameters, round by round."""
    floor = report.one(side=_FLOORS[str(result.params["over"])], **result.params)
    return ratio(floor, result).median


def _waiting(report: Report, **wanted: str) -> list[Result]:
    return [result for result in report.where(**wanted) if result.params["latency_ms"]]


def goals(report: Report) -> list[Goal]:
    """Wall time within 1.10 of the ideal, up to the CPU limit."""
    found = [_goal(report, _waiting(report, over=_MEMORY, side=LAKEHOUSE), _to_ideal, f"ideal, {_MEMORY}")]
    for side in (LAKEHOUSE, FAST):
        free = [r for r in _waiting(report, over=_REAL, side=side) if not _is_crowded(report, r)]
        where = f"{_REAL}, {side}, below half the CPU limit"
        found.append(_goal(report, free, _to_ideal, f"ideal, {where}"))
        found.append(_goal(report, free, _to_floor, f"{BARE_HTTP}, {where}"))
    return found


def _goal(
    report: Report, results: list[Result], quotient: Callable[[Report, Result], float], text: str
) -> Goal:
    found = [(quotient(report, r), r.params) for r in results if int(r.params["latency_ms"]) >= _GOAL_FROM_MS]
    if not found:
        return Goal(text=f"wall ÷ {text}", target=f"≤ {_GOAL:.2f}", measured="every cell is above", met=None)
    worst, params = max(found, key=lambda pair: pair[0])
    return Goal(
        text=f"wall ÷ {text} (worst: {params['latency_ms']} ms × {params['concurrency']})",
        target=f"≤ {_GOAL:.2f}",
        measured=f"{worst:.3f}",
        met=worst <= _GOAL,
    )


def tables(report: Report) -> list[Table]:
    """Wall time over the ideal and over the floor, as grids; then rates and the limit."""
    pairs = dict.fromkeys((str(r.params["over"]), r.side) for r in report.results)
    return [*(_grid(report, over, side) for over, side in pairs), _rates(report)]


def _grid(report: Report, over: str, side: str) -> Table:
    floor = _FLOORS[over]

    def cell(result: Result) -> str:
        text = f"{_to_ideal(report, result):.2f}"
        if side != floor:
            text += f" / {_to_floor(report, result):.2f}"
        return text + (r" \*" if over == _REAL and _is_crowded(report, result) else "")

    return pivot(
        _waiting(report, over=over, side=side),
        title=f"Over the {over}: {side}, wall ÷ ideal" + (f" / wall ÷ {floor}" if side != floor else ""),
        rows="latency_ms",
        columns="concurrency",
        cell=cell,
        note=r"\* the ideal asks for more than half of the reads per second that this machine can do at all."
        if over == _REAL
        else "",
    )


def _rates(report: Report) -> Table:
    sides = list(dict.fromkeys(result.side for result in report.where(over=_REAL)))
    rows = []
    for latency_ms, concurrency in dict.fromkeys(
        (r.params["latency_ms"], r.params["concurrency"]) for r in report.where(over=_REAL)
    ):
        here = {"over": _REAL, "latency_ms": latency_ms, "concurrency": concurrency}
        rates = (f"{report.one(side=side, **here).rate:,.0f}" for side in sides)
        rows.append((f"{latency_ms} ms × {concurrency}", *rates))
    cpu = (seconds_text(report.one(over=_REAL, latency_ms=0, side=side).cpu_per_unit) for side in sides)
    rows.append(("client CPU per read, 0 ms", *cpu))
    return Table(
        title=f"Over the {_REAL}: reads per second; without a wait (0 ms) this is the CPU limit",
        header=("latency × concurrency", *sides),
        rows=tuple(rows),
    )


def plot(report: Report, figure: Any) -> None:
    """Wall ÷ ideal by concurrency: a panel per latency."""
    latencies = [latency for latency in report.values("latency_ms") if latency]
    levels = report.values("concurrency")
    panels = figure.subplots(1, len(latencies), sharey=True, squeeze=False)[0]
    for panel, latency_ms in zip(panels, latencies, strict=True):
        for over, style in ((_MEMORY, "-"), (_REAL, "--")):
            for side in report.values("side"):
                if line := report.where(over=over, latency_ms=latency_ms, side=side):
                    x = [r.params["concurrency"] for r in line]
                    y = [r.to_ideal for r in line]
                    panel.plot(x, y, style, marker="o", markersize=3, label=f"{side}, {over}")
        panel.axhline(_GOAL, color="grey", linewidth=0.8, linestyle=":")
        panel.set(title=f"{latency_ms} ms", xlabel="concurrency", xscale="log", yscale="log")
        panel.set_xticks(levels, labels=[str(level) for level in levels])
        panel.set_yticks([1, 1.1, 1.5, 2, 4, 8], labels=["1", "1.1", "1.5", "2", "4", "8"])
        panel.minorticks_off()
    panels[0].set_ylabel("wall ÷ ideal")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small"
    )
