"""Rows looked up by key in a table: SSTables, and Parquet with ``point_reads``, beside SlateDB and bare GETs.

A get of a snapshot that is named (pinned) is one ranged read when the row is not cached, and
none when it is. A get from the table asks the bucket first whether there is a newer snapshot, which
is one request more; SlateDB's reader looks for one every ten seconds instead. Cold: the metadata of the
file is known and nothing of its rows; every key is in another piece of it. Warm: the same keys
again. The floors are one GET of as many bytes as ours reads, by bare s3fs and by bare obstore.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import obstore
import pyarrow as pa
import s3fs

from benchmarks.gets import KEYS, SLATEDB, STEP, VALUE_BYTES, Gets, Side, slate_side, wanted_keys
from benchmarks.model import Goal, Params, Report, Result, Table
from benchmarks.runner import Plan, say
from benchmarks.table_peers import orders
from benchmarks.tables import pivot, seconds_text
from lakehouse.config import Settings
from lakehouse.lake import connect
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.servers import best_server

__all__ = ["TITLE", "goals", "run", "tables"]

TITLE = "Point gets from a table"

_OURS, _FAST = "lakehouse", "lakehouse[fast]"
_OURS_NEWEST, _FAST_NEWEST = "lakehouse, newest snapshot", "lakehouse[fast], newest snapshot"
_S3FS, _OBSTORE = "s3fs GET", "obstore GET"
_SST, _PARQUET = "SSTable", "Parquet, point_reads"
_OPTIONS: Mapping[str, Mapping[str, object]] = {
    _SST: {"file.format.level0": "sst"},
    _PARQUET: {"point_reads": True},
}


async def run(plan: Plan) -> Report:
    """Cold and warm gets from both formats."""
    rows = 1_000_000
    rounds = plan.pick(quick=3, default=6, full=20)
    table = orders(rows, "int64 sorted")
    results: list[Result] = []
    with best_server() as server, fresh_bucket(server, "bench") as bucket:
        async with contextlib.AsyncExitStack() as stack:
            say("point_get: SlateDB is filled")
            slate = await stack.enter_async_context(slate_side(server, bucket, table["id"].to_pylist()))
            for kind, options in _OPTIONS.items():
                say(f"point_get: {kind}")
                async with _ours(server, bucket, table, options) as (ours, found):
                    piece = await _piece_bytes(ours, found)
                    async with _bare(server, bucket, piece) as bare:
                        sides = [*ours, slate, *bare]
                        results += await _rounds(sides, wanted_keys(rows), rounds, {"format": kind})
    return Report(
        name="point_get",
        title=TITLE,
        scale=plan.scale,
        results=tuple(results),
        baseline=SLATEDB,
        notes=(
            f"{rows:,} rows in one file, five columns; {KEYS} keys a round, one after the other.",
            f"Ours gives a row as a dict of typed values, SlateDB gives {VALUE_BYTES} bytes.",
            "Client and store share the machine.",
        ),
        facts={"object_store": server.note},
    )


async def _rounds(sides: Sequence[Side], keys: Sequence[int], rounds: int, params: Params) -> list[Result]:
    """Rounds in which sides take turns: cold gets, then the same keys again."""
    cold = {side.name: Gets() for side in sides}
    warm = {side.name: Gets() for side in sides if side.caches}
    for turn in range(1 + rounds):
        if turn == 1:  # the first round warms everybody up
            cold = {name: Gets() for name in cold}
            warm = {name: Gets() for name in warm}
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
) -> AsyncIterator[tuple[list[Side], str]]:
    """Gets from a snapshot that is named, and from the newest; and the key of the data file."""
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
        sides: list[Side] = []
        for held, newest, fast_reads in ((_OURS, _OURS_NEWEST, "off"), (_FAST, _FAST_NEWEST, "require")):
            connection = _Connection(url, storage, name, fast_reads)
            stack.push_async_callback(connection.close)
            sides += [
                Side(name=held, get=connection.get_from_snapshot, forget=connection.forget),
                Side(name=newest, get=connection.get_from_table, forget=connection.forget),
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
        self._snapshot = await self._table.current_snapshot()
        assert await self._table.get({"id": 1}, snapshot=self._snapshot) is None

    async def get_from_snapshot(self, key: int) -> None:
        assert await self._table.get({"id": key}, snapshot=self._snapshot) is not None

    async def get_from_table(self, key: int) -> None:
        assert await self._table.get({"id": key}) is not None

    async def close(self) -> None:
        await self._stack.aclose()


async def _piece_bytes(sides: Sequence[Side], file: str) -> tuple[str, int]:
    """The file, and how much of it a cold get reads."""
    side = sides[0]
    assert side.forget is not None
    await side.forget()
    gets = Gets()
    await gets.make(side.get, [KEYS * STEP * 1_000])
    return file, gets.cost.bytes_read


@contextlib.asynccontextmanager
async def _bare(server: ServerInfo, bucket: str, piece: tuple[str, int]) -> AsyncIterator[list[Side]]:
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
            Side(name=_S3FS, get=by_s3fs, caches=False),
            Side(name=_OBSTORE, get=by_obstore, caches=False),
        ]
    finally:
        await session.close()


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
            ("cold", _FAST, SLATEDB, 1.5),
            ("cold", _OURS, _S3FS, 1.2),
            ("warm", _OURS, SLATEDB, 0.5),
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
