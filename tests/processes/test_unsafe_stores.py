"""Tables behind a gateway that drops conditions: nothing is acknowledged that could be lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.errors import InvalidInputError
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.lake import Lake
from lakehouse.testing import RecordingStore, UnsafeStore, memory_store
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.http_wire import Request
from lakehouse.testing.proxy import FaultProxy, proxy_thread
from lakehouse.testing.proxy_rules import Match, Rule, Strip
from tests.kit.doubtful_process import Job, refused_everything, reports, rows_one_by_one

SCHEMA = pa.schema({"who": pa.int64(), "number": pa.int64()})
PROCESSES = 20
OF_EACH_HALF = 3
STRIPPED = {
    "all": ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since"),
    "creates": ("if-none-match",),
    "replaces": ("if-match",),
}


def conditional(request: Request) -> bool:
    """Whether the request has a condition."""
    return request.header("if-match") is not None or request.header("if-none-match") is not None


@contextmanager
def stripping(
    server: ServerInfo, headers: tuple[str, ...], match: Match = conditional
) -> Iterator[FaultProxy]:
    """A gateway that drops these headers."""
    strip = Strip(headers=headers, secrets={server.key: server.secret})
    with proxy_thread(server.endpoint_url, rules=[Rule(match=match, action=strip, times=None)]) as proxy:
        yield proxy


async def made(url: str, server: ServerInfo) -> None:
    """A table without rows, made through the store's own endpoint."""
    async with lakehouse.connect(url, storage_options=server.storage_options) as lake:
        await lake.create_database("db")
        await lake.create_table("db.t", SCHEMA)


async def objects(url: str, server: ServerInfo) -> set[str]:
    """Keys and versions of what there is, but for what is known of the store."""
    async with lakehouse.connect(url, storage_options=server.storage_options) as lake:
        found = [(one.key, one.version) async for one in lake.store.list()]
    return {f"{key} {version}" for key, version in found if not key.startswith("_lakehouse/")}


def asking(store: ObjectStore) -> RecordingStore:
    """A store that honours conditions and is not known to, with what is asked of it."""
    return RecordingStore(UnsafeStore(store))


async def test_a_process_asks_for_the_proof_once() -> None:
    """The first warehouse costs five requests, each later process one read, and no later write anything."""
    base = memory_store()

    async def append(lake: Lake) -> None:
        await (await lake.table("db.t")).append([{"who": 1, "number": 2}])

    async def put(lake: Lake) -> None:
        async with (await lake.table("db.t")).writer() as writer:
            await (await writer.put([{"who": 1, "number": 3}]))

    async def costs(*works: Callable[[Lake], Awaitable[object]]) -> list[list[str]]:
        """What each piece of work asks about the proof, in one process."""
        found, asked = [], asking(base)
        async with Lake(asked) as lake:
            for work in works:
                asked.clear()
                await work(lake)
                found.append([call.verb for call in asked.calls if call.key.startswith("_lakehouse/")])
        return found

    create = ["get", "put_if_absent", "put_if_absent", "put_if_match", "put_if_match"]
    made = await costs(
        lambda lake: lake.create_database("db"), lambda lake: lake.create_table("db.t", SCHEMA), append, put
    )
    assert made == [create, [], [], []]
    for work in (append, put, lambda lake: lake.drop_table("db.t")):
        assert await costs(work) == [["get"]]


class SlowProof(StoreDecorator):
    """Answers the read of the proof only once a data file is uploaded."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.uploaded = asyncio.Event()

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[Any]], size: int = 0) -> Any:
        """Waits where it reads the proof."""
        if "/data/" in key:
            self.uploaded.set()
        if verb == "get" and key.startswith("_lakehouse/"):
            await self.uploaded.wait()
        return await request()


async def test_the_proof_is_read_beside_the_first_reads() -> None:
    """A commit that uploads rows makes no round trip more for the proof."""
    base = memory_store()
    async with Lake(asking(base)) as lake:
        await lake.create_database("db")
        await lake.create_table("db.t", SCHEMA)
    slow = SlowProof(asking(base))
    async with asyncio.timeout(30), Lake(slow) as lake:
        done = await (await lake.table("db.t")).append([{"who": 1, "number": 2}])
        assert done.changed


async def test_reads_ask_for_no_proof() -> None:
    """A process that only reads makes no request for it."""
    base = memory_store()
    async with Lake(base) as lake:
        await lake.create_database("db")
        await (await lake.create_table("db.t", SCHEMA)).append([{"who": 1, "number": 2}])
    asked = asking(base)
    async with Lake(asked) as lake:
        table = await lake.table("db.t")
        assert await table.scan().count() == 1
        assert await table.scan(freshness="wal").count() == 1
        assert [name async for name in lake.tables("db")] == ["db.t"]
    assert not [call for call in asked.calls if call.key.startswith("_lakehouse/")]


async def test_a_write_to_a_store_that_is_known_to_fail_uploads_nothing() -> None:
    """The first write finds out beside its upload, which it takes back; later ones do not begin."""
    base = memory_store()
    async with Lake(base) as lake:
        await lake.create_database("db")
        await lake.create_table("db.t", SCHEMA)
    before = [one.key async for one in base.list()]
    asked = RecordingStore(UnsafeStore(base, ignores=["put_if_absent", "put_if_match"]))
    async with Lake(asked) as lake:
        table = await lake.table("db.t")
        for _ in range(2):
            asked.clear()
            with pytest.raises(InvalidInputError, match="not committed to"):
                await table.append([{"who": 1, "number": 2}])
        assert asked.kinds() == {}
    after = [one.key async for one in base.list() if not one.key.startswith("_lakehouse/")]
    assert after == before


@pytest.mark.slow
async def test_twenty_processes_are_refused_every_write(minio: ServerInfo) -> None:
    """Whichever conditions are dropped, no write of any kind succeeds, reads do, and nothing changes."""
    with fresh_bucket(minio) as bucket, ExitStack() as stack:
        places: dict[str, tuple[str, dict[str, Any]]] = {}
        for name, headers in STRIPPED.items():
            proxy = stack.enter_context(stripping(minio, headers))
            places[name] = f"s3://{bucket}/{name}", {**minio.storage_options, "endpoint_url": proxy.url}
            await made(places[name][0], minio)
        before = {name: await objects(url, minio) for name, (url, _) in places.items()}
        jobs = [
            [
                Job(who=who, url=url, storage_options=options, work=refused_everything)
                for name, (url, options) in places.items()
                if name == "all" or who < OF_EACH_HALF
            ]
            for who in range(PROCESSES)
        ]
        for found in reports(jobs):
            for report in found:
                assert report.acknowledged == []
                assert [kind for kind, _, _ in report.errors] == ["unsafe-store"] * 8
        assert {name: await objects(url, minio) for name, (url, _) in places.items()} == before


class Stripper:
    """Chooses which conditional puts of commits lose their conditions.

    Args:
        after: snapshots up to this one keep theirs.
        share: of those that come then, this part loses them.
    """

    def __init__(self, *, after: int = 0, share: float = 1.0) -> None:
        self._after, self._share, self._rng = after, share, random.Random(7)

    def __call__(self, request: Request) -> bool:
        if request.method != "PUT" or "/snapshot/snapshot-" not in request.path:
            return False
        number = int(request.path.rpartition("-")[2])
        return number > self._after and self._rng.random() < self._share


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "share"),
    [
        pytest.param(100, 1.0, id="after 100 commits"),
        pytest.param(0, 0.1, id="one in ten"),
    ],
)
async def test_every_lost_commit_is_reported_by_whoever_lost_it(
    minio: ServerInfo, after: int, share: float
) -> None:
    """When conditions are dropped later, what is lost is named, the proof ends, and others are refused."""
    with fresh_bucket(minio) as bucket:
        url = f"s3://{bucket}/warehouse"
        await made(url, minio)
        with stripping(minio, STRIPPED["all"], Stripper(after=after, share=share)) as proxy:
            options = {**minio.storage_options, "endpoint_url": proxy.url}
            # The last look of twenty processes on a busy machine takes longer than it may by default.
            settings = {"io.recheck_interval_s": 0, "io.recheck_grace_s": 60}
            async with lakehouse.connect(url, storage_options=options) as lake:
                table = await lake.table("db.t")
                for number in range(max(0, after - PROCESSES)):
                    await table.append([{"who": -1, "number": number}])
            jobs = [
                Job(
                    who=who,
                    url=url,
                    storage_options=options,
                    work=rows_one_by_one,
                    count=10,
                    settings=settings,
                )
                for who in range(PROCESSES)
            ]
            found = [one for [one] in reports([[job] for job in jobs])]
            async with lakehouse.connect(url, storage_options=options) as lake:
                table = await lake.table("db.t")
                there = {(row["who"], row["number"]) for row in await table.scan().to_pylist()}
                with pytest.raises(InvalidInputError, match="had acknowledged"):
                    await table.append([{"who": 99, "number": 0}])
    lost = {
        (one.who, snapshot)
        for one in found
        for number, snapshot in one.acknowledged
        if (one.who, number) not in there
    }
    reported = {
        (one.who, snapshot)
        for one in found
        for kind, _, facts in one.errors
        if kind == "acknowledged-lost"
        for snapshot in facts["snapshots"]
    }
    assert lost
    assert lost <= reported
    assert {kind for one in found for kind, _, _ in one.errors} <= {"acknowledged-lost", "unsafe-store"}
