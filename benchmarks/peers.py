"""The sides of a comparison over one bucket: plain s3fs, plain obstore, and lakehouse on each.

And a floor below them all: GETs that were signed beforehand, on plain sockets.

Every side is told the same thing and does it its own usual way; a peer gets what it needs
to do well (as many connections as we have). :func:`open_sides` checks that all of them
read the same bytes before anything is timed. What a side costs in requests is counted on
the wire, by a proxy, so that peers are counted like we are: :func:`count_on_the_wire`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import errno
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import obstore
import s3fs
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from lakehouse.config import IoSettings
from lakehouse.errors import ConflictError
from lakehouse.io import ObjectStore, map_bounded, open_store
from lakehouse.testing.endpoint import ServerInfo
from lakehouse.testing.proxy import proxy_process

__all__ = [
    "BARE_HTTP",
    "FAST",
    "LAKEHOUSE",
    "OBSTORE",
    "S3FS",
    "Side",
    "TailReader",
    "count_on_the_wire",
    "each_by_workers",
    "fill",
    "open_bare_http",
    "open_sides",
    "tail_sides_agree",
]

BARE_HTTP = "bare HTTP"
S3FS = "s3fs"
OBSTORE = "obstore"
LAKEHOUSE = "lakehouse"
FAST = "lakehouse[fast]"

Each = Callable[[str], Awaitable[Any]]


class TailReader(Protocol):
    """One way to read tails from the bucket."""

    name: str

    async def tail(self, key: str, length: int, size: int) -> bytes:
        """The last bytes of an object whose size is known."""
        ...

    async def each(self, do: Each, keys: Iterable[str], limit: int) -> None:
        """``do(key)`` for every key, ``limit`` at once."""
        ...


class Side(TailReader, Protocol):
    """One way to talk to the bucket."""

    async def tail_of_unknown(self, key: str, length: int) -> bytes:
        """The last bytes of an object whose size is not known."""
        ...

    async def create(self, key: str, data: bytes) -> bool:
        """Creates the object; False when the key is taken."""
        ...


async def each_by_workers(do: Each, keys: Iterable[str], limit: int) -> None:
    """The plainest fan-out there is: ``limit`` tasks over one iterator."""
    source = iter(keys)

    async def work() -> None:
        for key in source:
            await do(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(limit):
            group.create_task(work())


class _S3fsSide:
    name = S3FS

    def __init__(self, fs: s3fs.S3FileSystem, bucket: str) -> None:
        self._fs = fs
        self._bucket = bucket

    async def tail(self, key: str, length: int, size: int) -> bytes:
        data: bytes = await self._fs._cat_file(f"{self._bucket}/{key}", start=size - length, end=size)
        return data

    async def tail_of_unknown(self, key: str, length: int) -> bytes:
        data: bytes = await self._fs._cat_file(f"{self._bucket}/{key}", start=-length)
        return data

    async def create(self, key: str, data: bytes) -> bool:
        try:
            await self._fs._pipe_file(f"{self._bucket}/{key}", data, mode="create")
        except OSError as error:
            # AWS's refusal arrives as FileExistsError, MinIO's as EINVAL.
            if error.errno not in (errno.EEXIST, errno.EINVAL) and not isinstance(error, FileExistsError):
                raise
            return False
        return True

    async def each(self, do: Each, keys: Iterable[str], limit: int) -> None:
        await each_by_workers(do, keys, limit)


class _ObstoreSide:
    name = OBSTORE

    def __init__(self, store: S3Store) -> None:
        self._store = store

    async def tail(self, key: str, length: int, size: int) -> bytes:
        return bytes(await obstore.get_range_async(self._store, key, start=size - length, end=size))

    async def tail_of_unknown(self, key: str, length: int) -> bytes:
        answer = await obstore.get_async(self._store, key, options={"range": {"suffix": length}})
        return bytes(await answer.bytes_async())

    async def create(self, key: str, data: bytes) -> bool:
        try:
            await obstore.put_async(self._store, key, data, mode="create")
        except AlreadyExistsError:
            return False
        return True

    async def each(self, do: Each, keys: Iterable[str], limit: int) -> None:
        await each_by_workers(do, keys, limit)


class _LakehouseSide:
    def __init__(self, name: str, store: ObjectStore) -> None:
        self.name = name
        self._store = store

    async def tail(self, key: str, length: int, size: int) -> bytes:
        return (await self._store.get_tail(key, length, size=size)).data

    async def tail_of_unknown(self, key: str, length: int) -> bytes:
        return (await self._store.get_tail(key, length)).data

    async def create(self, key: str, data: bytes) -> bool:
        try:
            await self._store.put_if_absent(key, data)
        except ConflictError:
            return False
        return True

    async def each(self, do: Each, keys: Iterable[str], limit: int) -> None:
        async for _ in map_bounded(do, keys, limit, ordered=False):
            pass


class _BareHttpSide:
    """Writes a request, reads its answer, and does nothing else; a connection for each reader."""

    name = BARE_HTTP

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = {key: urllib.parse.urlsplit(url) for key, url in urls.items()}
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def tail(self, key: str, length: int, size: int) -> bytes:
        url = self._urls[key]
        reader, writer = (
            self._idle.pop() if self._idle else await asyncio.open_connection(url.hostname, url.port)
        )
        target = f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n"
        writer.write(f"{target}Range: bytes={size - length}-{size - 1}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 206"), head
        data = await reader.readexactly(length)
        self._idle.append((reader, writer))
        return data

    async def each(self, do: Each, keys: Iterable[str], limit: int) -> None:
        await each_by_workers(do, keys, limit)

    async def close(self) -> None:
        """Closes its connections."""
        for _, writer in self._idle:
            writer.close()
            await writer.wait_closed()


def _bare_obstore(server: ServerInfo, bucket: str, endpoint_url: str) -> S3Store:
    return S3Store(
        bucket,
        endpoint=endpoint_url,
        access_key_id=server.key,
        secret_access_key=server.secret,
        region=server.region or "us-east-1",
        client_options={"allow_http": True},
    )


@contextlib.asynccontextmanager
async def open_sides(
    server: ServerInfo, bucket: str, *, endpoint_url: str | None = None, connections: int = 64
) -> AsyncIterator[dict[str, Side]]:
    """All sides over one bucket, by name; ``endpoint_url`` leads them through a proxy."""
    options: dict[str, Any] = {**server.storage_options, "endpoint_url": endpoint_url or server.endpoint_url}
    fs = s3fs.S3FileSystem(
        asynchronous=True,
        skip_instance_cache=True,
        config_kwargs={"max_pool_connections": connections},
        **options,
    )
    async with contextlib.AsyncExitStack() as stack:
        session = await fs.set_session()
        stack.push_async_callback(session.close)
        bare = _bare_obstore(server, bucket, options["endpoint_url"])
        sides: list[Side] = [_S3fsSide(fs, bucket), _ObstoreSide(bare)]
        for name, fast_reads in ((LAKEHOUSE, "off"), (FAST, "require")):
            settings = IoSettings(max_concurrency=connections, fast_reads=fast_reads)
            store = open_store(f"s3://{bucket}", storage_options=options, settings=settings)
            sides.append(_LakehouseSide(name, await stack.enter_async_context(store)))
        yield {side.name: side for side in sides}


@contextlib.asynccontextmanager
async def open_bare_http(
    server: ServerInfo, bucket: str, keys: Sequence[str], *, endpoint_url: str
) -> AsyncIterator[TailReader]:
    """The floor: what the network, the proxy and the store take without any client library."""
    urls = obstore.sign(_bare_obstore(server, bucket, endpoint_url), "GET", keys, dt.timedelta(hours=6))
    side = _BareHttpSide(dict(zip(keys, urls, strict=True)))
    try:
        yield side
    finally:
        await side.close()


async def fill(side: Side, keys: Sequence[str], size: int) -> None:
    """Objects of ``size`` bytes, each of other content."""

    async def put(key: str) -> None:
        pattern = f"{key}\n".encode()
        created = await side.create(key, (pattern * (size // len(pattern) + 1))[:size])
        assert created, key

    await side.each(put, keys, 16)


async def tail_sides_agree(sides: Iterable[Side], key: str, *, length: int, size: int) -> None:
    """Fails unless every side reads the same bytes, whether it knows the size or not."""
    found: set[bytes] = set()
    for side in sides:
        found.add(await side.tail(key, length, size))
        found.add(await side.tail_of_unknown(key, length))
    assert len(found) == 1, "the sides do not read the same bytes"
    assert len(found.pop()) == length


async def count_on_the_wire(
    server: ServerInfo,
    bucket: str,
    work: Callable[[Side], Awaitable[Any]],
    *,
    units: float,
    names: Sequence[str] = (S3FS, OBSTORE, LAKEHOUSE, FAST),
) -> dict[str, Mapping[str, float]]:
    """Requests per unit, by method, that each named side makes for ``work(side)``; nothing is timed."""
    counts: dict[str, Mapping[str, float]] = {}
    with proxy_process(server.endpoint_url) as proxy:
        async with open_sides(server, bucket, endpoint_url=proxy.url) as sides:
            for name in names:
                before = proxy.counts()
                await work(sides[name])
                after = proxy.counts()
                made = {m.lower(): n - before.get(m, 0) for m, n in after.items()}
                counts[name] = {method: count / units for method, count in made.items() if count}
    return counts
