"""SlateDB's Python binding as a side of a comparison of point reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slatedb import uniffi as slatedb

from lakehouse.testing.endpoint import ServerInfo

__all__ = ["Slate", "object_store"]

_BATCH_KEYS = 20_000


def object_store(server: ServerInfo, bucket: str) -> Any:
    """The bucket as SlateDB sees it."""
    builder = slatedb.ObjectStoreBuilder(slatedb.ObjectStoreType.S3)
    for name, value in {
        "endpoint": server.endpoint_url,
        "access_key_id": server.key,
        "secret_access_key": server.secret,
        "region": server.region or "us-east-1",
        "allow_http": "true",
        "bucket": bucket,
    }.items():
        builder.with_config(name, value)
    return builder.build()


class Slate:
    """A database of one SST in a bucket, and a reader of it."""

    def __init__(self, server: ServerInfo, bucket: str) -> None:
        self._store = object_store(server, bucket)
        self._reader: Any = None

    async def fill(self, keys: Sequence[bytes], value: bytes) -> None:
        """Writes all keys, each with the same value, and closes the database."""
        db = await slatedb.DbBuilder("slate", self._store).build()
        for at in range(0, len(keys), _BATCH_KEYS):
            batch = slatedb.WriteBatch()
            for key in keys[at : at + _BATCH_KEYS]:
                batch.put(key, value)
            await db.write(batch)
        await db.flush_with_options(slatedb.FlushOptions(flush_type=slatedb.FlushType.MEM_TABLE))
        await db.shutdown()

    async def reopen(self, absent: bytes) -> None:
        """Opens a reader that knows the metadata and no data: it looks for a key that is not there."""
        await self.close()
        self._reader = await slatedb.DbReaderBuilder("slate", self._store).build()
        assert await self._reader.get(absent) is None

    async def get(self, key: bytes) -> bytes:
        """The value of a key that is there."""
        value: bytes | None = await self._reader.get(key)
        assert value is not None
        return value

    async def close(self) -> None:
        """Closes the reader."""
        if self._reader is not None:
            await self._reader.shutdown()
