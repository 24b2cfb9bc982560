"""What a point read pays to be as fresh as it is asked to be, beside SlateDB and bare GETs of its clients.

All through ``Table.get``: *pinned* names a snapshot, *bounded* may be a minute old (``max_staleness``),
*exact* looks for a newer snapshot, which is one GET that finds nothing. Warm: the block is in memory. Cold:
the metadata of the file is known and none of its rows. Together: 1,000 exact gets of warm rows at once. A
*bare GET* reads 4 KiB of an object through the client library that ours uses; the *GET of what is absent*
asks it for the very object that an exact get asks for. SlateDB's reader looks for newer rows every ten
seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import obstore
import pyarrow as pa
import s3fs

from benchmarks.gets import SLATEDB, VALUE_BYTES, Gets, Side, slate_side, wanted_keys
from benchmarks.model import Goal, Params, Report, Result, Table
from benchmarks.runner import Plan, say
from benchmarks.table_peers import orders
from benchmarks.tables import pivot, seconds_text
from lakehouse.config import Settings
from lakehouse.io import measure as count_requests
from lakehouse.lake import connect
from lakehouse.storage.metadata.paths import snapshot_path
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Point reads: pinned, bounded and exact"

_CLIENTS: Mapping[str, tuple[str, str]] = {
    "lakehouse": ("off", "s3fs"),
    "lakehouse[fast]": ("require", "obstore"),
}
"""Ways of ours, each with its setting and the library that makes its requests."""
_KINDS = ("pinned", "bounded", "exact")
_BOUND_S = 60.0
_AT_ONCE = 1_000
_SMALL = 4096


async def run(plan: Plan) -> Report:
    """Every way, taking turns."""
    rows = plan.pick(quick=200_000, default=1_000_000, full=1_000_000)
    rounds = plan.pick(quick=3, default=10, full=30)
    table, keys = orders(rows, "int64 sorted"), wanted_keys(rows)
    results: list[Result] = []
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with contextlib.AsyncExitStack() as stack:
            say("point_reads: SlateDB is filled")
            sides = [await stack.enter_async_context(slate_side(server, bucket, table["id"].to_pylist()))]
            say("point_reads: the table is filled")
            place = await _fill(server, bucket, table)
            ways = []
            for name, (fast_reads, _) in _CLIENTS.items():
                way = _Way(server, bucket, name, fast_reads)
                stack.push_async_callback(way.close)
                ways.append(way)
                sides += way.sides()
            sides += await stack.enter_async_context(_bare(server, bucket, place))
            say("point_reads: gets")
            results += await _rounds(sides, keys, rounds)
            results += await _together(ways, keys, rounds)
    return Report(
        name="point_reads",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=SLATEDB,
        notes=(
            f"{rows:,} rows in one SSTable, five columns; {len(keys)} keys a round, one after the other.",
            f"Ours gives a row as a dict of typed values, SlateDB gives {VALUE_BYTES} bytes.",
            "Client and store share the machine.",
        ),
        facts={"object_store": server.note},
    )


async def _rounds(sides: Sequence[Side], keys: Sequence[int], rounds: int) -> list[Result]:
    """Rounds in which sides take turns: cold gets, then the same keys again."""
    cold: dict[str, Gets] = {}
    warm: dict[str, Gets] = {}
    for turn in range(1 + rounds):
        if turn <= 1:  # the first round warms everybody up
            cold = {side.name: Gets() for side in sides if side.caches}
            warm = {side.name: Gets() for side in sides}
        first = turn % len(sides)
        for side in (*sides[first:], *sides[:first]):
            if side.forget is not None:
                await side.forget()
                await cold[side.name].make(side.get, keys)
            await warm[side.name].make(side.get, keys)
    return [
        gets.result(name, {"what": what})
        for what, all_gets in (("cold", cold), ("warm", warm))
        for name, gets in all_gets.items()
    ]


async def _together(ways: Sequence[_Way], keys: Sequence[int], rounds: int) -> list[Result]:
    """Exact gets of warm rows, all at once."""
    results = []
    for way in ways:
        await way.forget()
        get = way.sides()[-1].get
        for key in keys:
            await get(key)
        params: Params = {"what": "together"}
        seconds, cpu_seconds, requests = [], [], 0
        for _ in range(rounds):
            asked = [keys[at % len(keys)] for at in range(_AT_ONCE)]
            with count_requests() as cost:
                cpu, began = time.process_time(), time.perf_counter()
                await asyncio.gather(*map(get, asked))
                seconds.append(time.perf_counter() - began)
                cpu_seconds.append(time.process_time() - cpu)
            requests = max(requests, cost.requests)
        results.append(
            Result(
                side=f"{way.name}, exact",
                params=params,
                work=_AT_ONCE,
                unit="gets",
                seconds=tuple(seconds),
                cpu_seconds=tuple(cpu_seconds),
                requests={"get": requests},
            )
        )
    return results


# --- sides ------------------------------------------------------------------------------

_NAME = "bench.orders"


@dataclass(frozen=True, slots=True)
class _Place:
    """Keys in the bucket."""

    data: str
    """A data file."""
    next_snapshot: str
    """What an exact get asks for: the snapshot that is not there."""


async def _fill(server: ServerInfo, bucket: str, rows: pa.Table) -> _Place:
    async with connect(f"s3://{bucket}/lake", storage_options=_options(server)) as lake:
        await lake.create_database("bench")
        options = {"file.format.level0": "sst", "compaction.auto": "off"}
        made = await lake.create_table(_NAME, rows.schema, primary_key=["id"], options=options)
        await made.upsert(rows)
        (path,) = (await made.files())["path"].to_pylist()
        root = made.location.removeprefix(f"s3://{bucket}/")
        following = snapshot_path(await made.current_snapshot() + 1)
        return _Place(f"{root}/{path}", f"{root}/{following}")


def _options(server: ServerInfo) -> dict[str, Any]:
    return {**server.storage_options, "endpoint_url": server.endpoint_url}


class _Way:
    """A lake that is connected anew whenever its caches are to be empty."""

    def __init__(self, server: ServerInfo, bucket: str, name: str, fast_reads: str) -> None:
        self.name = name
        self._url, self._storage = f"s3://{bucket}/lake", _options(server)
        self._settings = Settings.resolve({"io.fast_reads": fast_reads})
        self._stack = contextlib.AsyncExitStack()

    def sides(self) -> list[Side]:
        """The same gets, by how fresh they are."""

        def getter(kind: str) -> Callable[[int], Awaitable[None]]:
            async def get(key: int) -> None:
                assert await self._table.get({"id": key}, **self._how[kind]) is not None

            return get

        return [Side(name=f"{self.name}, {kind}", get=getter(kind), forget=self.forget) for kind in _KINDS]

    async def forget(self) -> None:
        """Keeps the metadata of the table and its file, and nothing else."""
        await self.close()
        lake = connect(self._url, storage_options=self._storage, settings=self._settings)
        await self._stack.enter_async_context(lake)
        self._table = await lake.table(_NAME)
        snapshot = await self._table.current_snapshot()
        self._how: dict[str, dict[str, Any]] = {
            "pinned": {"snapshot": snapshot},
            "bounded": {"max_staleness": _BOUND_S},
            "exact": {},
        }
        assert await self._table.get({"id": 1}, snapshot=snapshot) is None

    async def close(self) -> None:
        """Disconnects."""
        await self._stack.aclose()


@contextlib.asynccontextmanager
async def _bare(server: ServerInfo, bucket: str, place: _Place) -> AsyncIterator[list[Side]]:
    """GETs by the client libraries alone."""
    fs = s3fs.S3FileSystem(asynchronous=True, skip_instance_cache=True, **_options(server))
    session = await fs.set_session()
    store = obstore.store.S3Store(
        bucket,
        endpoint=server.endpoint_url,
        access_key_id=server.key,
        secret_access_key=server.secret,
        region=server.region or "us-east-1",
        client_options={"allow_http": True},
    )

    async def s3fs_absent(_: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            await fs._cat_file(f"{bucket}/{place.next_snapshot}")
            raise AssertionError

    async def obstore_absent(_: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            await obstore.get_async(store, place.next_snapshot)
            raise AssertionError

    async def s3fs_small(key: int) -> None:
        assert len(await fs._cat_file(f"{bucket}/{place.data}", start=key, end=key + _SMALL)) == _SMALL

    async def obstore_small(key: int) -> None:
        data = await obstore.get_range_async(store, place.data, start=key, end=key + _SMALL)
        assert len(data) == _SMALL

    try:
        yield [
            Side(name="s3fs, bare GET", get=s3fs_small, caches=False),
            Side(name="s3fs, GET of what is absent", get=s3fs_absent, caches=False),
            Side(name="obstore, bare GET", get=obstore_small, caches=False),
            Side(name="obstore, GET of what is absent", get=obstore_absent, caches=False),
        ]
    finally:
        await session.close()


# --- what it says -----------------------------------------------------------------------


def goals(report: Report) -> list[Goal]:
    """Times beside SlateDB and bare GETs, and requests."""
    found = []
    for way, (_, library) in _CLIENTS.items():
        for kind in ("pinned", "bounded"):
            found += [
                _share(report, "warm", f"{way}, {kind}", SLATEDB, 0.5),
                _requests(report, "warm", f"{way}, {kind}", 0),
            ]
        found += [
            _share(report, "warm", f"{way}, exact", f"{library}, bare GET", 1.2),
            # Beside: an answer without an object is quicker by obstore, and slower by s3fs, which asks twice.
            _share(report, "warm", f"{way}, exact", f"{library}, GET of what is absent", None),
            _requests(report, "warm", f"{way}, exact", 1),
            _requests(report, "together", f"{way}, exact", 5),
        ]
    found.append(_share(report, "cold", "lakehouse[fast], pinned", SLATEDB, 1.5))
    return found


def _share(report: Report, what: str, side: str, peer: str, most: float | None) -> Goal:
    """Ratio of medians; None = nothing is promised of it."""
    ours, theirs = (report.one(what=what, side=name).percentile(0.5) for name in (side, peer))
    share = ours / theirs
    return Goal(
        text=f"{what}: p50 of {side} ÷ {peer}'s",
        target="—" if most is None else f"≤ {most:g}",
        measured=f"{share:.2f}",
        met=None if most is None else share <= most,
    )


def _requests(report: Report, what: str, side: str, most: int) -> Goal:
    count = sum(report.one(what=what, side=side).requests.values())
    one = "of 1,000 at once" if what == "together" else "of one"
    return Goal(
        text=f"{what}: requests of {side}, {one}",
        target=f"≤ {most}" if most else "0",
        measured=f"{count:g}",
        met=count <= most,
    )


def tables(report: Report) -> list[Table]:
    """Times, then requests and CPU time."""
    cells: tuple[tuple[str, Callable[[Result], str]], ...] = (
        ("p50 / p99", lambda r: " / ".join(seconds_text(r.percentile(share)) for share in (0.5, 0.99))),
        (
            "requests, client CPU of one",
            lambda r: f"{sum(r.requests.values()):.2f}, {seconds_text(r.cpu.median)}",
        ),
    )
    single = [*report.where(what="warm"), *report.where(what="cold")]
    found = [
        pivot(single, title=f"Gets one after the other: {title}", rows="side", columns="what", cell=cell)
        for title, cell in cells
    ]
    found.append(
        pivot(
            report.where(what="together"),
            title="1,000 exact gets at once: time of all, requests of all",
            rows="side",
            columns="what",
            cell=lambda r: f"{seconds_text(r.wall.median)}, {sum(r.requests.values()):g}",
        )
    )
    return found
