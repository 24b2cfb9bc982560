"""``lakehouse demo``: the main job, end to end, on a real object store, in a minute or two."""

from __future__ import annotations

import math
import time
from typing import Any

import anyio

from lakehouse.cli.output import console, print_table
from lakehouse.cli.store import print_report
from lakehouse.io import ObjectStore, map_bounded, measure, open_store
from lakehouse.io.check import check_store
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server
from lakehouse.testing.stores import LatencyStore

__all__ = ["demo"]

_TAIL_BYTES = 4096
_LATENCY_S = 0.02
_CONCURRENCY = (1, 8, 16, 32, 64)


def demo() -> None:
    """Show what lakehouse does, on the best object store that can be had here.

    Takes an endpoint from LAKEHOUSE_TEST_ENDPOINT, Docker, the MinIO that `make minio`
    built, or moto's server, in this order, and says which it took.
    """
    with best_server() as server:
        for line in server.explain():
            console().print(line, markup=False)
        with fresh_bucket(server, "lakehouse-demo") as bucket:
            anyio.run(_run, server, f"s3://{bucket}/demo")


async def _run(server: ServerInfo, url: str) -> None:
    async with open_store(url, storage_options=server.storage_options) as store:
        _headline("May the engine commit on this store?")
        print_report(await check_store(store))
        _headline("Reading the tails of many small objects")
        await _fan_out(store, objects=60 if server.kind == "moto" else 400)


def _headline(text: str) -> None:
    console().print(f"\n[bold cyan]{text}[/]")


async def _fan_out(store: ObjectStore, objects: int) -> None:
    keys = [f"tails/{number:05}" for number in range(objects)]

    async def write(key: str) -> None:
        await store.put(key, bytes(_TAIL_BYTES))

    async for _ in map_bounded(write, keys, 32, ordered=False):
        pass
    # A round trip to a real S3 takes tens of milliseconds; the store beside us takes one.
    distant = LatencyStore(store, _LATENCY_S)
    rows = [
        [limit, *(await _row(store, keys, limit, None)), *(await _row(distant, keys, limit, _LATENCY_S))]
        for limit in _CONCURRENCY
    ]
    print_table(
        ("at once", "s here", "reads/s here", "s at 20 ms", "reads/s at 20 ms", "of the ideal"),
        rows,
        title=f"{objects} tails of {_TAIL_BYTES} B: one request each, ever more at once",
        right=("at once", "s here", "reads/s here", "s at 20 ms", "reads/s at 20 ms", "of the ideal"),
    )


async def _row(store: ObjectStore, keys: list[str], limit: int, latency_s: float | None) -> list[Any]:
    async def tail(key: str) -> int:
        return len((await store.get_tail(key, 1024, size=_TAIL_BYTES)).data)

    started = time.perf_counter()
    with measure() as cost:
        read = sum([length async for length in map_bounded(tail, keys, limit, ordered=False)])
    seconds = time.perf_counter() - started
    assert read == 1024 * len(keys)
    assert cost.by_kind() == {"get": len(keys)}, cost
    cells: list[Any] = [f"{seconds:.2f}", f"{len(keys) / seconds:,.0f}"]
    if latency_s is not None:
        ideal = math.ceil(len(keys) / limit) * latency_s
        cells.append(f"{seconds / ideal:.2f} x")
    return cells
