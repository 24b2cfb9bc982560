"""Enumerating the index metadata of many puffin files, next to reading them the plain way.

The plain way is what GreptimeDB's own listing does for a file that no cache knows: ask for
the size, read the footer, then the tail of each blob, one after another; as many files at
once as we read. Files hold four kinds of index on five targets. Sizes come from a
listing. The ideal is ``ceil(N / c) x latency``: one request per file.

Memory is that of a process that enumerates so many files, measured from outside its heap.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.model import Goal, Report, Result, Table, ratio
from benchmarks.peers import FAST, LAKEHOUSE, each_by_workers
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot, seconds_text
from lakehouse.cache import CacheBudget, CacheSpec
from lakehouse.config import IndexSettings, IoSettings
from lakehouse.format.index.bloom import BloomMeta
from lakehouse.format.index.inverted import InvertedMetas
from lakehouse.format.puffin.footer import PuffinFooter
from lakehouse.index import FileListSource, IndexType, PuffinReader, classify, iterate_index_metas
from lakehouse.index.metas.file_metas import read_file_metas
from lakehouse.io import ObjectStore, map_bounded, measure, open_store
from lakehouse.io.open import stacked
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.index_files import all_kinds
from lakehouse.testing.proxy import proxy_process
from lakehouse.testing.servers import best_server
from lakehouse.testing.stores import LatencyStore, memory_store

__all__ = ["TITLE", "goals", "plot", "run", "tables"]

TITLE = "Enumerating index metadata"

_PLAIN = "stat + footer + blob tails"
_MEMORY = "latency store"
_REAL = "real store"
_KEYS = tuple(f"data/greptime/public/1024/index/{number:04}.puffin" for number in range(256))
_GOAL = 1.15

Files = list[tuple[str, int | None]]


async def run(plan: Plan) -> Report:
    """The grid of latency and concurrency over both kinds of store, a warm pass, and memory."""
    latencies = plan.pick(quick=(20,), default=(20, 100), full=(20, 50, 100))
    levels = plan.pick(quick=(16, 64), default=(16, 64), full=(16, 32, 64))
    files = plan.pick(quick=512, default=2_000, full=10_000)
    data = all_kinds()
    results: list[Result] = []
    bare = memory_store()
    for key in _KEYS:
        await bare.put(key, data)
    for latency_ms, concurrency in itertools.product(latencies, levels):
        say(f"index_metas: {_MEMORY}, {latency_ms} ms, concurrency {concurrency}")
        slow = stacked(LatencyStore(bare, latency_ms / 1000))
        results += await _compare(plan, {LAKEHOUSE: slow}, _MEMORY, files, len(data), latency_ms, concurrency)
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        await _fill(server, bucket, data)
        for latency_ms in (0, *latencies):
            with proxy_process(server.endpoint_url, latency_ms=latency_ms) as proxy:
                for concurrency in levels if latency_ms else levels[-1:]:
                    say(f"index_metas: {server.kind}, {latency_ms} ms, concurrency {concurrency}")
                    results += await _over_the_wire(
                        plan, server, bucket, proxy.url, min(files, 2_000), len(data), latency_ms, concurrency
                    )
    facts: dict[str, Any] = {"object_store": server.note, "file_bytes": len(data)}
    facts["warm"] = await _warm(bare, files, len(data))
    facts["decode_us"] = float(_printed(_DECODE_PROGRAM))
    counts = plan.pick(quick=(1_000, 10_000), default=(1_000, 20_000), full=(1_000, 10_000, 100_000))
    facts["rss_mib"] = {str(count): _memory_of(count) for count in counts}
    return Report(
        name="index_metas",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=_PLAIN,
        notes=(
            f"{files:,} files of {len(data):,} B over the {_MEMORY}, up to 2,000 over the {_REAL}.",
            f"There are {len(_KEYS)} objects, each read again and again; nothing is cached.",
            f"{_REAL}: {server.note}, behind a proxy that waits before each request.",
        ),
        facts=facts,
    )


async def _fill(server: ServerInfo, bucket: str, data: bytes) -> None:
    async with open_store(f"s3://{bucket}", storage_options=server.storage_options) as store:

        async def put(key: str) -> None:
            await store.put(key, data)

        async for _ in map_bounded(put, _KEYS, 16, ordered=False):
            pass


def _files(count: int, size: int) -> Iterator[tuple[str, int | None]]:
    return ((key, size) for key in itertools.islice(itertools.cycle(_KEYS), count))


async def _compare(
    plan: Plan,
    stores: dict[str, ObjectStore],
    over: str,
    files: int,
    size: int,
    latency_ms: int,
    concurrency: int,
) -> list[Result]:
    first = next(iter(stores.values()))
    cases = [
        Case(side=name, run=lambda store=store: _enumerate(store, files, size, concurrency))  # type: ignore[misc]
        for name, store in stores.items()
    ]
    # The plain way is slow and always the same: fewer files say as much.
    results = await compare(
        cases,
        work=files,
        unit="files",
        params={"over": over, "latency_ms": latency_ms, "concurrency": concurrency},
        ideal_s=math.ceil(files / concurrency) * latency_ms / 1000 or None,
        warmup=0 if over == _MEMORY else 1,
        repeats=plan.pick(quick=1, default=2, full=3),
    )
    few = max(concurrency * 2, files // 10)
    results += await compare(
        [Case(side=_PLAIN, run=lambda: _plainly(first, few, size, concurrency))],
        work=few,
        unit="files",
        params={"over": over, "latency_ms": latency_ms, "concurrency": concurrency},
        ideal_s=math.ceil(few / concurrency) * latency_ms / 1000 or None,
        warmup=0,
        repeats=len(results[0].seconds),
    )
    return results


async def _over_the_wire(
    plan: Plan,
    server: ServerInfo,
    bucket: str,
    url: str,
    files: int,
    size: int,
    latency_ms: int,
    concurrency: int,
) -> list[Result]:
    options = {**server.storage_options, "endpoint_url": url}
    sides: dict[str, ObjectStore] = {
        name: open_store(
            f"s3://{bucket}", storage_options=options, settings=IoSettings(fast_reads=fast_reads)
        )
        for name, fast_reads in ((LAKEHOUSE, "off"), (FAST, "require"))
    }
    try:
        return await _compare(plan, sides, _REAL, files, size, latency_ms, concurrency)
    finally:
        for store in sides.values():
            await store.aclose()


async def _enumerate(store: ObjectStore, files: int, size: int, concurrency: int) -> None:
    scan = iterate_index_metas(FileListSource(store, _files(files, size)), concurrency=concurrency)
    entries = sum([1 async for _ in scan])
    assert entries == 5 * files
    assert not scan.problems


async def _plainly(store: ObjectStore, files: int, size: int, concurrency: int) -> None:
    """Stat, footer, and each blob's tail, one request after another; files side by side."""

    async def read(key: str) -> None:
        meta = await store.head(key)
        tail = await store.get_range(key, max(0, meta.size - 8192), meta.size)
        footer = PuffinFooter.parse(tail.data, meta.size)
        assert isinstance(footer, PuffinFooter)
        for blob in footer.blobs:
            found = classify(blob.type)
            if found is None or found[0] is IndexType.FULLTEXT_TANTIVY:
                continue
            end = await store.get_range(key, max(blob.offset, blob.end - 8192), blob.end)
            kind = InvertedMetas if found[0] is IndexType.INVERTED else BloomMeta
            kind.from_tail(end.data, blob.length)

    await each_by_workers(read, (key for key, _ in _files(files, size)), concurrency)


async def _warm(store: ObjectStore, files: int, size: int) -> dict[str, float]:
    """A second pass over files that a cache knows: requests, and files per second."""
    cache = CacheBudget().region(CacheSpec(name="puffin"))
    listed: Files = [(f"{key}", size) for key, _ in _files(min(files, len(_KEYS)), size)]
    async for _ in iterate_index_metas(FileListSource(store, listed), cache=cache):
        pass
    with measure() as cost:
        started = asyncio.get_running_loop().time()
        async for _ in iterate_index_metas(FileListSource(stacked(store), listed * 20), cache=cache):
            pass
        seconds = asyncio.get_running_loop().time() - started
    return {"requests": cost.requests, "files_per_s": len(listed) * 20 / seconds}


async def _decode_us(store: ObjectStore, size: int) -> float:
    """CPU microseconds from a file's tail to the metadata of its indexes; the quickest of some tries."""
    settings = IndexSettings()
    reader = PuffinReader(store, _KEYS[0], size=size)
    await reader.footer()
    _, tail = reader.window
    tries, files = 7, 400
    seconds = []
    for _ in range(tries):
        started = time.process_time()
        for _ in range(files):
            PuffinFooter.parse(tail, size)
            await read_file_metas(reader, settings=settings)  # all is at hand: no request
        seconds.append(time.process_time() - started)
    return min(seconds) / files * 1e6


_MEMORY_PROGRAM = """
import asyncio, resource, sys
from benchmarks.bench_index_metas import _KEYS, _enumerate
from lakehouse.testing import memory_store
from lakehouse.testing.index_files import all_kinds

async def main(files):
    store = memory_store()
    data = all_kinds()
    for key in _KEYS:
        await store.put(key, data)
    await _enumerate(store, 500, len(data), 64)
    await _enumerate(store, files, len(data), 64)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)

asyncio.run(main(int(sys.argv[1])))
"""


_DECODE_PROGRAM = """
import asyncio
from benchmarks.bench_index_metas import _KEYS, _decode_us
from lakehouse.testing import memory_store
from lakehouse.testing.index_files import all_kinds

async def main():
    store, data = memory_store(), all_kinds()
    await store.put(_KEYS[0], data)
    print(await _decode_us(store, len(data)))

asyncio.run(main())
"""


def _printed(program: str, *args: str) -> str:
    """What a process of its own prints: this one's heap, full of samples, would be measured as well."""
    return subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, check=True
    ).stdout


def _memory_of(files: int) -> int:
    """Peak resident MiB of a process that enumerates so many files."""
    say(f"index_metas: memory of {files:,} files")
    return int(_printed(_MEMORY_PROGRAM, str(files)))


# ------------------------------------------------------------------ what it says


def _limit(report: Report, side: str) -> float:
    return report.one(over=_REAL, latency_ms=0, side=side).rate


def _is_crowded(report: Report, result: Result) -> bool:
    """Whether the ideal asks for more than half of the files per second this machine can do."""
    if result.params["over"] == _MEMORY:
        return False
    assert result.ideal_s is not None
    return result.work / result.ideal_s > _limit(report, result.side) / 2


def goals(report: Report) -> list[Goal]:
    """One GET per file; wall within 1.15 of the ideal up to the CPU limit; warm 0; decode; memory flat."""
    sides = [r for r in report.results if r.side != _PLAIN]
    requests = {(sum(r.requests.values()) / r.work, r.requests.get("get", 0) / r.work) for r in sides}
    found = [
        Goal(
            text="requests per file, all of them GETs",
            target="1",
            measured=", ".join(f"{total:.3f}" for total, _ in sorted(requests)),
            met=requests == {(1.0, 1.0)},
        )
    ]
    for over, side in ((_MEMORY, LAKEHOUSE), (_REAL, LAKEHOUSE), (_REAL, FAST)):
        free = [
            r
            for r in report.where(over=over, side=side)
            if r.params["latency_ms"] and not _is_crowded(report, r)
        ]
        limit = "" if over == _MEMORY else f" (limit {_limit(report, side):,.0f} files/s)"
        worst = max((r.to_ideal or 0 for r in free), default=None)
        found.append(
            Goal(
                text=f"wall ÷ ideal, {over}, {side}, below half the CPU limit{limit}",
                target=f"≤ {_GOAL:.2f}",
                measured="every cell is above" if worst is None else f"{worst:.3f}",
                met=None if worst is None else worst <= _GOAL,
            )
        )
    warm = report.facts["warm"]
    found.append(
        Goal(
            text=f"requests of a second pass ({warm['files_per_s']:,.0f} files/s)",
            target="0",
            measured=str(warm["requests"]),
            met=warm["requests"] == 0,
        )
    )
    decode_us = report.facts.get("decode_us")
    found.append(
        Goal(
            text="decode the metadata of a file, five targets, CPU",
            target="≤ 100 µs",
            measured="not measured" if decode_us is None else f"{decode_us:.0f} µs",
            met=None if decode_us is None else decode_us <= 100,
        )
    )
    memory = {int(count): mib for count, mib in report.facts["rss_mib"].items()}
    few, many = min(memory), max(memory)
    found.append(
        Goal(
            text=f"peak memory, {few:,} → {many:,} files",
            target="flat (≤ 1.10 ×)",
            measured=f"{memory[few]} → {memory[many]} MiB",
            met=memory[many] <= 1.10 * memory[few],
        )
    )
    return found


def tables(report: Report) -> list[Table]:
    """Wall over the ideal and times faster than the plain way, by latency and concurrency."""

    def cell(result: Result) -> str:
        peer = report.baseline_of(result)
        faster = f" ({ratio(result, peer).median:.1f} × faster)" if peer else ""
        crowded = r" \*" if _is_crowded(report, result) else ""
        return f"{result.to_ideal:.2f}{faster}{crowded}" if result.to_ideal else ""

    pairs = dict.fromkeys((str(r.params["over"]), r.side) for r in report.results if r.side != _PLAIN)
    grids = [
        pivot(
            [r for r in report.where(over=over, side=side) if r.params["latency_ms"]],
            title=f"Over the {over}: {side}, wall ÷ ideal (and against “{_PLAIN}”)",
            rows="latency_ms",
            columns="concurrency",
            cell=cell,
            note=r"\* the ideal asks for more than half of what this machine can do."
            if over == _REAL
            else "",
        )
        for over, side in pairs
    ]
    rates = tuple(
        (r.side, f"{r.rate:,.0f}", seconds_text(r.cpu_per_unit), f"{sum(r.requests.values()) / r.work:.2f}")
        for r in report.where(over=_REAL, latency_ms=0)
    )
    limit = Table(
        title=f"Over the {_REAL} without a wait: the CPU limit",
        header=("side", "files per second", "client CPU per file", "requests per file"),
        rows=rates,
    )
    return [*grids, limit]


def plot(report: Report, figure: Any) -> None:
    """Files per second by concurrency: a panel per latency."""
    latencies = [latency for latency in report.values("latency_ms") if latency]
    levels = report.values("concurrency")
    panels = figure.subplots(1, len(latencies), sharey=True, squeeze=False)[0]
    for panel, latency_ms in zip(panels, latencies, strict=True):
        panel.plot(levels, [level / latency_ms * 1000 for level in levels], ":", color="grey", label="ideal")
        for over, style in ((_MEMORY, "-"), (_REAL, "--")):
            for side in report.values("side"):
                if line := report.where(over=over, latency_ms=latency_ms, side=side):
                    x = [r.params["concurrency"] for r in line]
                    panel.plot(
                        x, [r.rate for r in line], style, marker="o", markersize=3, label=f"{side}, {over}"
                    )
        panel.set(title=f"{latency_ms} ms", xlabel="concurrency", yscale="log")
    panels[0].set_ylabel("files per second")
    panels[0].legend(fontsize="x-small")
