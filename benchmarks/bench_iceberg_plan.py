"""Planning of scans of Iceberg tables with very many files, beside pyiceberg.

Tables are metadata alone: manifest lists and manifests on the object store, six columns of statistics in
every entry. Each condition is met by one file, so that nothing is spent on the answer; its column is none of
the partition's, so that all manifests are needed.

Cold: the table is opened by its metadata file and planned, with nothing cached. Warm: it is planned again
with another condition. pyiceberg reads all manifests anew for every plan; it has pyarrow's FileIO and as many
threads as we have requests under way.

The large table is ours alone, in a process of its own: pyiceberg takes minutes. After its cold plan memory is
looked at, then it is planned again and again; then one commit adds one manifest.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.iceberg_manifests import ManyFiles
from benchmarks.model import Goal, Params, Report, Result, Table, ratio
from benchmarks.runner import Case, Plan, compare, say
from benchmarks.tables import pivot, seconds_text
from benchmarks.worker import Worker, started
from lakehouse import iceberg
from lakehouse.config import IoSettings
from lakehouse.io import map_bounded, open_store
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "plot", "run", "tables"]

TITLE = "Planning scans of Iceberg tables"

_OURS, _PYICEBERG = "lakehouse", "pyiceberg"
_COLD, _WARM, _FILTERED, _COMMITTED = "cold", "warm", "runtime filter", "after a commit"
_COLD_TIMES, _WARM_S, _LARGE_WARM_S, _FILTER_S, _MIB_PER_MILLION = 8, 0.005, 0.050, 0.100, 300
_FILTER_VALUES = 10_000
_MIB = 1024**2
_STRIDE = 7_919
"""From one asked file to the next, a prime: everywhere in the table."""
_CONDITIONS: Mapping[str, str] = {
    _WARM: "id = {least}",
    "warm, three columns": "id between {least} and {most} and amount >= 0 and status <= 20",
    "warm, text or number": "region = 'region07' and id < 50000000 or id = {least}",
}
"""Of the large table: each is met by few files."""


async def run(plan: Plan) -> Report:
    """Tables of 400 manifests side by side; then a million files, ours alone."""
    manifests = plan.pick(quick=40, default=400, full=400)
    many = plan.pick(quick=100, default=1_000, full=1_000)
    os.environ["PYICEBERG_MAX_WORKERS"] = str(IoSettings().max_concurrency)
    results: list[Result] = []
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        for entries in (10, 100):
            table = ManyFiles(location=f"s3://{bucket}/{entries}", manifests=manifests, entries=entries)
            await _fill(server, bucket, table)
            results += await _side_by_side(plan, server, table)
        large = ManyFiles(location=f"s3://{bucket}/large", manifests=many, entries=many, specs=3)
        results += await _large(plan, server, bucket, large)
    return Report(
        name="iceberg_plan",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=_PYICEBERG,
        notes=(
            f"Paths of {large.path_length} characters; manifests are compressed by deflate.",
            f"pyiceberg has {os.environ['PYICEBERG_MAX_WORKERS']} threads, our limit of concurrent requests.",
            "It answers with a list of tasks, we with an Arrow table.",
            "Client and store share the machine.",
        ),
        facts={"object_store": server.note},
    )


async def _fill(server: ServerInfo, bucket: str, table: ManyFiles, *, added: bool = False) -> None:
    """Puts the table, or what its commit adds, into the bucket."""
    prefix = table.location.removeprefix(f"s3://{bucket}/")
    async with open_store(f"s3://{bucket}", storage_options=server.storage_options) as store:

        async def put(each: tuple[str, bytes]) -> None:
            await store.put(f"{prefix}/{each[0]}", each[1])

        objects = table.added_objects() if added else table.objects()
        async for _ in map_bounded(put, objects, 8, ordered=False):
            pass


# --- side by side -----------------------------------------------------------------------


async def _side_by_side(plan: Plan, server: ServerInfo, table: ManyFiles) -> list[Result]:
    """Cold and warm plans of both sides, which take turns; each plan asks for another file."""
    turns = itertools.count(1)
    url = f"{table.location}/{table.metadata_key}"

    def wanted() -> int:
        return table.ids_of(next(turns) * _STRIDE % table.files)[0] + 5

    async def ours_cold() -> None:
        async with await iceberg.open(url, storage_options=server.storage_options) as opened:
            assert await _our_files(opened, wanted()) == 1

    def theirs_cold() -> None:
        _clear_their_cache()
        assert _their_files(_their_table(server, url), wanted()) == 1

    found: list[Result] = []
    theirs = _their_table(server, url)
    async with await iceberg.open(url, storage_options=server.storage_options) as ours:

        async def ours_warm() -> None:
            assert await _our_files(ours, wanted()) == 1

        def theirs_warm() -> None:
            assert _their_files(theirs, wanted()) == 1

        for what, one, other in ((_COLD, ours_cold, theirs_cold), (_WARM, ours_warm, theirs_warm)):
            say(f"iceberg_plan: {table.manifests} x {table.entries}, {what}")
            found += await compare(
                [Case(side=_OURS, run=one), Case(side=_PYICEBERG, run=other)],
                work=1,
                unit="plans",
                params={"what": what, "files": f"{table.manifests:,} x {table.entries:,}"},
                repeats=plan.pick(quick=2, default=5, full=7),
            )
    return found


async def _our_files(table: iceberg.IcebergTable, value: int) -> int:
    return int((await table.plan(where=f"id = {value}")).files().num_rows)


def _their_table(server: ServerInfo, url: str) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(
        url,
        {
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
            "s3.endpoint": server.endpoint_url,
            "s3.access-key-id": server.key,
            "s3.secret-access-key": server.secret,
            "s3.region": server.region or "us-east-1",
        },
    )


def _clear_their_cache() -> None:
    from pyiceberg.manifest import clear_manifest_cache

    clear_manifest_cache()


def _their_files(table: Any, value: int) -> int:
    from pyiceberg.expressions import EqualTo

    return len(list(table.scan(row_filter=EqualTo("id", value)).plan_files()))


# --- the large table --------------------------------------------------------------------


async def _large(plan: Plan, server: ServerInfo, bucket: str, table: ManyFiles) -> list[Result]:
    """Plans of the large table by a process of its own, and what it keeps in memory."""
    say(f"iceberg_plan: {table.files:,} files are written")
    await _fill(server, bucket, table)
    repeats = plan.pick(quick=5, default=15, full=30)
    options = {**server.storage_options, "endpoint_url": server.endpoint_url}
    params: Params = {"files": f"{table.manifests:,} x {table.entries:,}"}
    async with started("benchmarks.iceberg_plan_worker") as worker:
        small = await _small(server, bucket)
        await worker.ask("open", url=small, options=options)  # everything is loaded and compiled
        await worker.ask("plan", where="id = 5")
        await worker.ask("close")
        before = (await worker.ask("memory"))["resident"]
        say("iceberg_plan: the large table, cold")
        found = [await _opened(worker, f"{table.location}/{table.metadata_key}", options)]
        after = await worker.ask("memory")
        kept = {
            "resident_mib": round((after["resident"] - before) / _MIB),
            "cache_mib": after["cache"] // _MIB,
        }
        results = [_result(_COLD, found, {**params, **kept})]
        say("iceberg_plan: the large table, warm")
        for what, condition in _CONDITIONS.items():
            asked = (table.ids_of(turn * _STRIDE % table.files) for turn in range(1, repeats + 1))
            texts = [condition.format(least=least, most=most) for least, most in asked]
            found = [await worker.ask("plan", where=text) for text in texts]
            results.append(_result(what, found, params))
        values = min(_FILTER_VALUES, table.files // 2)
        step = table.ids_of(1)[0]
        found = [await worker.ask("prune", column="id", step=step, values=values) for _ in range(repeats)]
        assert {each["files"] for each in found} == {values}
        results.append(_result(_FILTERED, found, {**params, "values": values}))
        await _fill(server, bucket, table, added=True)
        found = [await _refreshed(worker, table)]
        return [*results, _result(_COMMITTED, found, params)]


async def _small(server: ServerInfo, bucket: str) -> str:
    """A table of the same shape, just large enough for loops to be compiled."""
    table = ManyFiles(location=f"s3://{bucket}/small", manifests=6, entries=2_000, specs=3)
    await _fill(server, bucket, table)
    return f"{table.location}/{table.metadata_key}"


async def _opened(worker: Worker, url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What opening and the first plan took together."""
    opened = await worker.ask("open", url=url, options=options)
    return _both(opened, await worker.ask("plan", where="id = 5"))


async def _refreshed(worker: Worker, table: ManyFiles) -> dict[str, Any]:
    """What the newer metadata and a plan of them took together."""
    opened = await worker.ask("refresh")
    planned = await worker.ask("plan", where=f"id = {table.ids_of(table.files)[0] + 5}")
    assert planned["files"] == 1
    return _both(opened, planned)


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    sums = {name: one[name] + other[name] for name in ("seconds", "cpu_seconds", "bytes")}
    kinds = one["requests"].keys() | other["requests"].keys()
    return {
        **sums,
        "requests": {kind: one["requests"].get(kind, 0) + other["requests"].get(kind, 0) for kind in kinds},
    }


def _result(what: str, found: Sequence[Mapping[str, Any]], params: Params) -> Result:
    return Result(
        side=_OURS,
        params={**params, "what": what},
        work=1,
        unit="plans",
        seconds=tuple(each["seconds"] for each in found),
        cpu_seconds=tuple(each["cpu_seconds"] for each in found),
        requests=found[-1].get("requests", {}),
        bytes_read=found[-1].get("bytes", 0),
    )


# --- what was promised ------------------------------------------------------------------


def goals(report: Report) -> list[Goal]:
    """Cold beside pyiceberg, warm, and of the large table warm, filtered, after a commit, and in memory."""
    beside = [
        goal
        for files in _compared(report)
        for goal in (_cold_goal(report, files), _seconds_goal(report, _WARM, files, _WARM_S))
    ]
    large = report.results[-1].params["files"]
    return [
        *beside,
        *(_seconds_goal(report, what, large, _LARGE_WARM_S) for what in _CONDITIONS),
        _seconds_goal(report, _FILTERED, large, _FILTER_S),
        _commit_goal(report, large),
        _memory_goal(report, large),
    ]


def _compared(report: Report) -> list[str]:
    """The tables that both sides planned."""
    return list(dict.fromkeys(str(each.params["files"]) for each in report.where(side=_PYICEBERG)))


def _cold_goal(report: Report, files: str) -> Goal:
    ours, theirs = (report.one(what=_COLD, files=files, side=side) for side in (_OURS, _PYICEBERG))
    times = ratio(ours, theirs)
    return Goal(
        text=f"{files} files, cold: pyiceberg's time ÷ ours",
        target=f"≥ {_COLD_TIMES}",
        measured=f"{times.median:.1f}",
        met=times.median >= _COLD_TIMES if report.scale != "quick" else None,
    )


def _seconds_goal(report: Report, what: str, files: str, limit: float) -> Goal:
    seconds = report.one(what=what, files=files, side=_OURS).wall.median
    return Goal(
        text=f"{files} files, {what}",
        target=f"≤ {seconds_text(limit)}",
        measured=seconds_text(seconds),
        met=seconds <= limit,
    )


def _commit_goal(report: Report, files: str) -> Goal:
    found = report.one(what=_COMMITTED, files=files)
    return Goal(
        text=f"{files} files, planned again after a commit: metadata, list and one manifest",
        target="3 get",
        measured=", ".join(f"{count:g} {kind}" for kind, count in sorted(found.requests.items())),
        met=dict(found.requests) == {"get": 3},
    )


def _memory_goal(report: Report, files: str) -> Goal:
    cold = report.one(what=_COLD, files=files)
    manifests, entries = (int(number.replace(",", "")) for number in files.split(" x "))
    per_million = int(cold.params["resident_mib"]) * 1e6 / (manifests * entries)
    return Goal(
        text="memory of a million entries, paths included: resident (by the cache's own count)",
        target=f"≤ {_MIB_PER_MILLION} MiB",
        measured=f"{per_million:.0f} MiB ({cold.params['cache_mib']} MiB of {files})",
        met=per_million <= _MIB_PER_MILLION if report.scale != "quick" else None,
    )


def tables(report: Report) -> list[Table]:
    """Times side by side, requests and bytes, and CPU."""
    compared = [each for each in report.results if each.params["files"] in _compared(report)]
    large = [each for each in report.results if each not in compared]
    named = [*compared, *large]

    def text(result: Result) -> str:
        return f"{seconds_text(result.wall.median)} ({seconds_text(result.cpu.median)} CPU)"

    def cost(result: Result) -> str:
        each = ", ".join(f"{count:g} {kind}" for kind, count in sorted(result.requests.items()))
        return f"{each or 'no requests'}, {result.bytes_read / 1e6:.2f} MB"

    return [
        *(
            pivot(
                [each for each in compared if each.params["what"] == what],
                title=f"Manifests x entries, {what}: time of a plan",
                rows="files",
                columns="side",
                cell=text,
            )
            for what in (_COLD, _WARM)
        ),
        pivot(large, title="The large table: time of a plan", rows="what", columns="files", cell=text),
        pivot(
            [each for each in named if each.side == _OURS],
            title="Requests and bytes of a plan of ours",
            rows="what",
            columns="files",
            cell=cost,
        ),
    ]


def plot(report: Report, figure: Any) -> None:
    """Times of both sides, on a scale of powers of ten."""
    axes = figure.subplots()
    labels = [f"{what}\n{files}" for files in _compared(report) for what in (_COLD, _WARM)]
    for at, side in enumerate((_OURS, _PYICEBERG)):
        found = [
            each.wall.median for each in report.where(side=side) if each.params["files"] in _compared(report)
        ]
        axes.bar([place + at * 0.4 for place in range(len(labels))], found, 0.4, label=side)
    axes.set_xticks([place + 0.2 for place in range(len(labels))], labels)
    axes.set_yscale("log")
    axes.set_ylabel("seconds of a plan")
    axes.legend()
