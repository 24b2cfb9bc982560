"""Rows looked up by key in a table: SSTables, and Parquet with ``point_reads``, beside SlateDB and bare GETs.

A get through a snapshot that was looked up before is one ranged read when the row is not cached, and
none when it is. A get from the table asks the bucket first whether there is a newer snapshot, which
is one request more; SlateDB's reader looks for one every ten seconds instead. Cold: the metadata of the
file is known and nothing of its rows; every key is in another piece of it. Warm: the same keys
again. The floors are one GET of as many bytes as ours reads, by bare s3fs and by bare obstore.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import obstore
import pyarrow as pa
import s3fs

from benchmarks.model import Goal, Params, Report, Result, Table
from benchmarks.runner import Plan, say
from benchmarks.slate import Slate
from benchmarks.table_peers import orders
from benchmarks.tables import pivot, seconds_text
from lakehouse.config import Settings
from lakehouse.io import Cost
from lakehouse.io import measure as count_requests
from lakehouse.lake import connect
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Point gets from a table"

_OURS, _FAST = "lakehouse", "lakehouse[fast]"
_OURS_NEWEST, _FAST_NEWEST = "lakehouse, newest snapshot", "lakehouse[fast], newest snapshot"
_S3FS, _OBSTORE, _SLATEDB = "s3fs GET", "obstore GET", "SlateDB"
_SST, _PARQUET = "SSTable", "Parquet, point_reads"
_OPTIONS: Mapping[str, Mapping[str, object]] = {
    _SST: {"file.format.level0": "sst"},
    _PARQUET: {"point_reads": True},
}
_KEYS = 50
"""So many that each is in another row group of a million rows."""
_STEP = 7
"""From one key of :func:`benchmarks.table_peers.orders` to the next: what is between is absent."""
_VALUE_BYTES = 45


@dataclass(slots=True)
class _Gets:
    """Gets one after the other, each timed apart."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    """Of all of them, as far as our stores made the requests."""

    async def make(self, get: Callable[[int], Awaitable[Any]], keys: Sequence[int]) -> None:
        """Gets every key."""
        with count_requests() as cost:
            for key in keys:
                cpu, began = time.process_time(), time.perf_counter()
                await get(key)
                self.seconds.append(time.perf_counter() - began)
                self.cpu_seconds.append(time.process_time() - cpu)
        self.cost += cost

    def result(self, side: str, params: Params) -> Result:
        """All gets as samples; requests and bytes are those of one."""
        count = len(self.seconds)
        return Result(
            side=side,
            params=params,
            work=1,
            unit="gets",
            seconds=tuple(self.seconds),
            cpu_seconds=tuple(self.cpu_seconds),
            requests={kind: number / count for kind, number in self.cost.by_kind().items()},
            bytes_read=self.cost.bytes_read / count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One way to get a row by its key."""

    name: str
    get: Callable[[int], Awaitable[Any]]
    forget: Callable[[], Awaitable[None]] | None = None
    """Keeps metadata and nothing else; None = nothing is kept anyway."""
    caches: bool = True
    """Whether it gets a row faster the second time."""


async def run(plan: Plan) -> Report:
    """Cold and warm gets from both formats."""
    rows = 1_000_000
    rounds = plan.pick(quick=3, default=6, full=20)
    table = orders(rows, "int64 sorted")
    results: list[Result] = []
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with contextlib.AsyncExitStack() as stack:
            say("point_get: SlateDB is filled")
            slate = await stack.enter_async_context(_slate(server, bucket, table["id"].to_pylist()))
            for kind, options in _OPTIONS.items():
                say(f"point_get: {kind}")
                async with _ours(server, bucket, table, options) as (ours, found):
                    piece = await _piece_bytes(ours, found)
                    async with _bare(server, bucket, piece) as bare:
                        sides = [*ours, slate, *bare]
                        results += await _rounds(sides, _wanted(rows), rounds, {"format": kind})
    return Report(
        name="point_get",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=_SLATEDB,
        notes=(
            f"{rows:,} rows in one file, five columns; {_KEYS} keys a round, one after the other.",
            f"Ours gives a row as a dict of typed values, SlateDB gives {_VALUE_BYTES} bytes.",
            "Client and store share the machine.",
        ),
        facts={"object_store": server.note},
    )


def _wanted(rows: int) -> list[int]:
    """Keys spread over the file, none of them in its first piece, which warms the metadata."""
    return [(at + 1) * rows // (_KEYS + 1) * _STEP for at in range(_KEYS)]


async def _rounds(sides: Sequence[_Side], keys: Sequence[int], rounds: int, params: Params) -> list[Result]:
    """Rounds in which sides take turns: cold gets, then the same keys again."""
    cold = {side.name: _Gets() for side in sides}
    warm = {side.name: _Gets() for side in sides if side.caches}
    for turn in range(1 + rounds):
        if turn == 1:  # the first round warms everybody up
            cold = {name: _Gets() for name in cold}
            warm = {name: _Gets() for name in warm}
        first = turn % len(sides)
        for side in (*sides[first:], *sides[:first]):
            if side.forget is not None:
                await side.forget()
            await cold[side.name].make(side.get, keys)
            if side.caches:
                await warm[side.name].make(side.get, keys)
    return [
        gets.result(name, {**params, "what": what})
        for what, all_gets in (("cold", cold), ("warm", warm))
        for name, gets in all_gets.items()
    ]


# --- sides ------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _ours(
    server: ServerInfo, bucket: str, rows: pa.Table, options: Mapping[str, object]
) -> AsyncIterator[tuple[list[_Side], str]]:
    """Gets through a snapshot that is held, and from the table; and the key of the data file."""
    url = f"s3://{bucket}/lake"
    storage = {**server.storage_options, "endpoint_url": server.endpoint_url}
    name = f"bench.{'_'.join(options).replace('.', '_')}"
    async with connect(url, storage_options=storage) as lake:
        await lake.create_database("bench", if_not_exists=True)
        made = await lake.create_table(name, rows.schema, primary_key=["id"], options=options)
        await made.upsert(rows)
        (path,) = (await made.files())["path"].to_pylist()
        file = f"{made.location.removeprefix('s3://')}/{path}"
    async with contextlib.AsyncExitStack() as stack:
        sides: list[_Side] = []
        for held, newest, fast_reads in ((_OURS, _OURS_NEWEST, "off"), (_FAST, _FAST_NEWEST, "require")):
            connection = _Connection(url, storage, name, fast_reads)
            stack.push_async_callback(connection.close)
            sides += [
                _Side(name=held, get=connection.get_from_snapshot, forget=connection.forget),
                _Side(name=newest, get=connection.get_from_table, forget=connection.forget),
            ]
        yield sides, file


class _Connection:
    """A lake that is connected anew whenever its caches are to be empty."""

    def __init__(self, url: str, storage: Mapping[str, Any], name: str, fast_reads: str) -> None:
        self._url, self._storage, self._name = url, storage, name
        self._settings = Settings.resolve({"io.fast_reads": fast_reads})
        self._stack = contextlib.AsyncExitStack()

    async def forget(self) -> None:
        await self.close()
        lake = connect(self._url, storage_options=self._storage, settings=self._settings)
        await self._stack.enter_async_context(lake)
        self._table = await lake.table(self._name)
        # What Table.get makes for each call: the files of the newest snapshot.
        self._lookup = await self._table._lookup(None, None, None, "snapshot")
        assert await self._lookup.get({"id": 1}) is None

    async def get_from_snapshot(self, key: int) -> None:
        assert await self._lookup.get({"id": key}) is not None

    async def get_from_table(self, key: int) -> None:
        assert await self._table.get({"id": key}) is not None

    async def close(self) -> None:
        await self._stack.aclose()


async def _piece_bytes(sides: Sequence[_Side], file: str) -> tuple[str, int]:
    """The file, and how much of it a cold get reads."""
    side = sides[0]
    assert side.forget is not None
    await side.forget()
    gets = _Gets()
    await gets.make(side.get, [_KEYS * _STEP * 1_000])
    return file, gets.cost.bytes_read


@contextlib.asynccontextmanager
async def _bare(server: ServerInfo, bucket: str, piece: tuple[str, int]) -> AsyncIterator[list[_Side]]:
    """GETs of as many bytes, at other places for other keys."""
    file, length = piece
    fs = s3fs.S3FileSystem(
        asynchronous=True,
        skip_instance_cache=True,
        **{**server.storage_options, "endpoint_url": server.endpoint_url},
    )
    session = await fs.set_session()
    store = obstore.store.S3Store(
        bucket,
        endpoint=server.endpoint_url,
        access_key_id=server.key,
        secret_access_key=server.secret,
        region=server.region or "us-east-1",
        client_options={"allow_http": True},
    )
    key_in_bucket = file.removeprefix(f"{bucket}/")

    async def by_s3fs(key: int) -> None:
        assert len(await fs._cat_file(file, start=key, end=key + length)) == length

    async def by_obstore(key: int) -> None:
        data = await obstore.get_range_async(store, key_in_bucket, start=key, end=key + length)
        assert len(data) == length

    try:
        yield [
            _Side(name=_S3FS, get=by_s3fs, caches=False),
            _Side(name=_OBSTORE, get=by_obstore, caches=False),
        ]
    finally:
        await session.close()


@contextlib.asynccontextmanager
async def _slate(server: ServerInfo, bucket: str, keys: Sequence[int]) -> AsyncIterator[_Side]:
    slate = Slate(server, bucket)
    await slate.fill([_packed(key) for key in keys], b"v" * _VALUE_BYTES)

    async def get(key: int) -> None:
        assert len(await slate.get(_packed(key))) == _VALUE_BYTES

    try:
        yield _Side(name=_SLATEDB, get=get, forget=lambda: slate.reopen(_packed(1)))
    finally:
        await slate.close()


def _packed(key: int) -> bytes:
    return struct.pack(">q", key)


# --- what it says -----------------------------------------------------------------------


def goals(report: Report) -> list[Goal]:
    """Requests and times of gets from SSTables."""
    found = []
    for kind in _OPTIONS:
        cold = report.one(format=kind, what="cold", side=_OURS)
        requests = sum(cold.requests.values())
        found.append(
            Goal(
                text=f"{kind}: requests of a cold get",
                target="1",
                measured=f"{requests:.2f}",
                met=requests <= 1,
            )
        )
        for what, side, peer, most in (
            ("cold", _FAST, _SLATEDB, 1.5),
            ("cold", _OURS, _S3FS, 1.2),
            ("warm", _OURS, _SLATEDB, 0.5),
        ):
            ours, theirs = (report.one(format=kind, what=what, side=name) for name in (side, peer))
            share = ours.percentile(0.5) / theirs.percentile(0.5)
            found.append(
                Goal(
                    text=f"{kind}: {what} p50 of {side} ÷ {peer}'s",
                    target=f"≤ {most:g}",
                    measured=f"{share:.2f}",
                    # Parquet is measured beside; what is promised is promised of SSTables.
                    met=share <= most if kind == _SST else None,
                )
            )
    return found


def tables(report: Report) -> list[Table]:
    """Times, then requests and CPU time, of cold and warm gets."""
    cells: tuple[tuple[str, Callable[[Result], str]], ...] = (
        ("p50 / p99", lambda r: " / ".join(seconds_text(r.percentile(share)) for share in (0.5, 0.99))),
        (
            "requests, bytes, client CPU of one",
            lambda r: f"{sum(r.requests.values()):.2f}, {r.bytes_read:,.0f} B, {seconds_text(r.cpu.median)}",
        ),
    )
    return [
        pivot(
            report.where(what=what),
            title=f"{what.capitalize()} gets: {title}",
            rows="side",
            columns="format",
            cell=cell,
        )
        for title, cell in cells
        for what in ("cold", "warm")
    ]
