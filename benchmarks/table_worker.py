"""A process that commits rows to tables, one by one: ``python -m benchmarks.table_worker SIDE``.

The sides are lakehouse and delta-rs; :mod:`benchmarks.pypaimon_worker` answers the same questions.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.worker import commits, serve
from lakehouse.lake import Lake, connect
from lakehouse.storage.table import Table

_SCHEMA = pa.schema({"id": pa.int64(), "note": pa.string()})


def _row(number: int) -> pa.Table:
    return pa.table({"id": [number], "note": [f"row {number}"]}, schema=_SCHEMA)


class _Lakehouse:
    _lake: Lake
    _table: Table

    async def connect(self, bucket: str, options: Mapping[str, Any]) -> None:
        self._lake = connect(f"s3://{bucket}/lake", storage_options=options)
        await self._lake.__aenter__()
        await self._lake.create_database("bench", if_not_exists=True)

    async def close(self) -> None:
        await self._lake.__aexit__(None, None, None)

    async def create(self, name: str, keyed: bool) -> None:
        await self._lake.create_table(f"bench.{name}", _SCHEMA, primary_key=["id"] if keyed else [])

    async def open(self, name: str) -> None:
        self._table = await self._lake.table(f"bench.{name}")
        await self._table.current_snapshot()

    async def commit(self, number: int) -> None:
        await self._table.append(_row(number))

    async def ids(self) -> list[int]:
        rows = await self._table.scan(columns=["id"]).to_arrow()
        return rows["id"].to_pylist()  # type: ignore[no-any-return]


class _DeltaRs:
    _base: str
    _at: str

    async def connect(self, bucket: str, options: Mapping[str, Any]) -> None:
        self._base = f"s3://{bucket}/delta/"
        self._options = {
            "AWS_ENDPOINT_URL": options["endpoint_url"],
            "AWS_ACCESS_KEY_ID": options["key"],
            "AWS_SECRET_ACCESS_KEY": options["secret"],
            "AWS_REGION": options.get("client_kwargs", {}).get("region_name", "us-east-1"),
            "AWS_ALLOW_HTTP": "true",
        }

    async def close(self) -> None:
        pass

    async def create(self, name: str, keyed: bool) -> None:
        assert not keyed, "delta-rs has no primary keys"
        await asyncio.to_thread(DeltaTable.create, self._base + name, _SCHEMA, storage_options=self._options)

    async def open(self, name: str) -> None:
        self._at = self._base + name

    async def commit(self, number: int) -> None:
        write = functools.partial(write_deltalake, mode="append", storage_options=self._options)
        await asyncio.to_thread(write, self._at, _row(number))

    async def ids(self) -> list[int]:
        table = await asyncio.to_thread(DeltaTable, self._at, storage_options=self._options)
        return table.to_pyarrow_table(columns=["id"])["id"].to_pylist()  # type: ignore[no-any-return]


_SIDES: Mapping[str, Callable[[], Any]] = {"lakehouse": _Lakehouse, "delta-rs": _DeltaRs}


async def main(name: str) -> None:
    """Answers until nobody asks any more."""
    side = _SIDES[name]()
    do = {command: getattr(side, command) for command in ("connect", "create", "open", "ids", "close")}
    await serve({**do, "commit": functools.partial(commits, side.commit)})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
