"""``lakehouse demo``: the main job, end to end, on a real object store, in two minutes or so."""

from __future__ import annotations

import math
import time
from typing import Any

import anyio
from rich.markup import escape

from lakehouse._version import install_command
from lakehouse.cli.demo.tables import show_tables
from lakehouse.cli.output import console, print_table
from lakehouse.cli.store import print_report
from lakehouse.index import FLAT, FileListSource, PrefixSource, iterate_index_metas
from lakehouse.io import ObjectStore, map_bounded, measure, open_store
from lakehouse.io.proofs import check_store
from lakehouse.lake import connect
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.index_files import all_kinds
from lakehouse.testing.servers import best_server
from lakehouse.testing.stores import LatencyStore

__all__ = ["demo"]

_TAIL_BYTES = 4096
_INDEXES = "indexes/"
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
            url = f"s3://{bucket}/demo"
            anyio.run(_run, server, url)
            _headline("The same tables from Spark: ingest, upsert, compaction, enumeration of the indexes")
            _spark(server, url)


def _spark(server: ServerInfo, url: str) -> None:
    try:
        from lakehouse.cli.demo.spark import show_spark
    except ModuleNotFoundError as error:
        # Only Spark itself may be missing; any other module would be a bug of ours.
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        needed = escape(install_command("spark"))
        console().print(f"[yellow]Left out:[/] this needs Spark: {needed}, and Java 17")
        return
    rows = 20_000 if server.kind == "moto" else 500_000
    show_spark(url, server.storage_options, rows=rows, indexes=_INDEXES)


async def _run(server: ServerInfo, url: str) -> None:
    async with open_store(url, storage_options=server.storage_options) as store:
        _headline("May the engine commit on this store?")
        print_report(await check_store(store, short=True))
        slow = server.kind == "moto"
        _headline("A table with a primary key, on nothing but a bucket")
        async with connect(f"{url}/warehouse", storage_options=server.storage_options) as lake:
            await show_tables(lake, rows=20_000 if slow else 200_000)
        _headline("Reading the tails of many small objects")
        await _fan_out(store, objects=60 if slow else 400)
        _headline("Enumerating the indexes in many puffin files")
        await _index_metas(store, files=100 if slow else 2_000)


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


async def _index_metas(store: ObjectStore, files: int) -> None:
    data = all_kinds(rows=100)
    keys = [f"{_INDEXES}{number // 500:03}/{number:05}.puffin" for number in range(files)]

    async def write(key: str) -> None:
        await store.put(key, data)

    started = time.perf_counter()
    async for _ in map_bounded(write, keys, 32, ordered=False):
        pass
    console().print(
        f"{files:,} index files of {len(data):,} B written in {time.perf_counter() - started:.1f} s"
    )
    scan = iterate_index_metas(PrefixSource(store, _INDEXES), concurrency=32)
    rows = await scan.to_arrow(FLAT)
    stats = scan.stats
    rate = stats.files / stats.seconds
    console().print(
        f"{rows.num_rows:,} indexes listed in {stats.seconds:.1f} s ({rate:,.0f} files/s): {stats.cost}"
    )
    counts = rows.group_by("index_type").aggregate([("blob_size", "sum"), ("index_type", "count")])
    print_table(
        ("index", "count", "bytes"),
        sorted(
            (row["index_type"], f"{row['index_type_count']:,}", f"{row['blob_size_sum']:,}")
            for row in counts.to_pylist()
        ),
        right=("count", "bytes"),
    )
    await _sweep(store, [(key, len(data)) for key in keys[:256]])


async def _sweep(store: ObjectStore, files: list[tuple[str, int | None]]) -> None:
    """Prints files per second over latency and concurrency, as bars."""
    rates: list[tuple[int, int, float]] = []
    for latency_ms in (20, 50, 100):
        distant = LatencyStore(store, latency_ms / 1000)
        for limit in (8, 16, 32, 64):
            scan = iterate_index_metas(FileListSource(distant, files), concurrency=limit)
            async for _ in scan:
                pass
            rates.append((latency_ms, limit, scan.stats.files / scan.stats.seconds))
    most = max(rate for _, _, rate in rates)
    rows = [
        (f"{latency_ms} ms", limit, f"{rate:,.0f}", "█" * max(1, round(40 * rate / most)))
        for latency_ms, limit, rate in rates
    ]
    print_table(
        ("latency", "at once", "files/s", ""),
        rows,
        title="One request per file, so more at once is more per second, until a core is busy",
        right=("latency", "at once", "files/s"),
    )
