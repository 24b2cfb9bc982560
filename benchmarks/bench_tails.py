"""Small tail reads: how many per second, and at how many requests and how much CPU each.

The footer of a data or index file is read by its tail: one ranged GET where a manifest
knows the size, one suffix GET where nobody does.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping

from benchmarks.model import Goal, Params, Report, Result, ratio
from benchmarks.peers import (
    FAST,
    LAKEHOUSE,
    S3FS,
    Side,
    count_on_the_wire,
    fill,
    open_sides,
    tail_sides_agree,
)
from benchmarks.runner import Case, Plan, compare, say
from lakehouse.testing.endpoint import fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run"]

TITLE = "Small tail reads"

_OBJECT_BYTES = 64 * 1024
_TAIL_BYTES = 8 * 1024
_KEYS = tuple(f"index/{number:04}.puffin" for number in range(256))
_CONNECTIONS = 64


async def run(plan: Plan) -> Report:
    """Tails of known and of unknown size, at several concurrencies."""
    levels = plan.pick(quick=(16,), default=(1, 16, 64), full=(1, 8, 16, 32, 64))
    results: list[Result] = []
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with open_sides(server, bucket, connections=_CONNECTIONS) as sides:
            await fill(sides[LAKEHOUSE], _KEYS, _OBJECT_BYTES)
            await tail_sides_agree(sides.values(), _KEYS[0], length=_TAIL_BYTES, size=_OBJECT_BYTES)
            for size_known, concurrency in itertools.product((True, False), levels):
                say(f"tails: size {'known' if size_known else 'unknown'}, concurrency {concurrency}")
                reads = max(50, 4 * concurrency)
                results += await compare(
                    [_case(side, size_known, concurrency, reads) for side in sides.values()],
                    work=reads,
                    unit="reads",
                    params=_params(size_known, concurrency),
                    # Short rounds and many of them: what disturbs a machine for a second must not
                    # decide between sides that a tenth lies between.
                    warmup=plan.warmup,
                    repeats=plan.pick(quick=3, default=9, full=25),
                )
        for size_known in (True, False):
            counts = await count_on_the_wire(
                server,
                bucket,
                functools.partial(_read, size_known=size_known, concurrency=1, reads=8),
                units=8,
            )
            results = [_counted(r, counts, "known" if size_known else "unknown") for r in results]
    return Report(
        name="tails",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=S3FS,
        notes=(
            f"{_TAIL_BYTES // 1024} KiB tails of {_OBJECT_BYTES // 1024} KiB objects.",
            "Client and store share the machine, so the store's CPU time limits the client's.",
            "Requests per read are counted on the wire in a separate, untimed pass.",
            f"s3fs is given {_CONNECTIONS} connections (its default is 10).",
        ),
        facts={"object_store": server.note},
    )


def goals(report: Report) -> list[Goal]:
    """What the object store layer promises next to bare s3fs, wherever reads overlap.

    One read after the other is a question of the store's latency; it is in the table.
    """
    found = []
    for side, target, text in (
        (LAKEHOUSE, 0.9, "reads/s, lakehouse on s3fs ÷ bare s3fs"),
        (FAST, 2.5, "reads/s, lakehouse[fast] ÷ bare s3fs"),
    ):
        results = [r for r in report.where(side=side, size="known") if r.params["concurrency"] != 1]
        pairs = [(r, report.one(side=S3FS, **r.params)) for r in results]
        worst, concurrency = min((ratio(r, p).median, r.params["concurrency"]) for r, p in pairs)
        found.append(
            Goal(
                text=f"{text} (worst: concurrency {concurrency})",
                target=f"≥ {target:g}",
                measured=f"{worst:.2f}",
                met=worst >= target,
            )
        )
    return found


def _params(size_known: bool, concurrency: int) -> Params:
    return {"size": "known" if size_known else "unknown", "concurrency": concurrency}


def _case(side: Side, size_known: bool, concurrency: int, reads: int) -> Case:
    return Case(side=side.name, run=lambda: _read(side, size_known, concurrency, reads))


async def _read(side: Side, size_known: bool, concurrency: int, reads: int) -> None:
    keys = itertools.islice(itertools.cycle(_KEYS), reads)
    if size_known:
        await side.each(lambda key: side.tail(key, _TAIL_BYTES, _OBJECT_BYTES), keys, concurrency)
    else:
        await side.each(lambda key: side.tail_of_unknown(key, _TAIL_BYTES), keys, concurrency)


def _counted(result: Result, per_read: Mapping[str, Mapping[str, float]], size: str) -> Result:
    if result.params["size"] != size:
        return result
    requests = {method: count * result.work for method, count in per_read[result.side].items()}
    return dataclasses.replace(result, requests=requests)
