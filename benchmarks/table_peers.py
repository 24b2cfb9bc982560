"""The sides of a comparison of tables over one bucket: lakehouse, delta-rs, pyiceberg and pypaimon.

Every side writes the same rows into a new table its own usual way, with its own defaults, and says how
many rows and bytes it then has, so that a bench can check that all did the same work. pypaimon runs in
a process of its own (see :mod:`benchmarks.peer_env`) and gets its rows through a local Arrow file, which
takes a hundredth of the time it needs to write them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as IcebergTable

from benchmarks.peer_env import python_of
from benchmarks.worker import Worker, started
from lakehouse.lake import Lake, connect
from lakehouse.storage.table import Table
from lakehouse.testing.endpoint import ServerInfo

__all__ = [
    "DELTA",
    "LAKEHOUSE",
    "PYICEBERG",
    "PYPAIMON",
    "Key",
    "TableSide",
    "open_table_sides",
    "orders",
    "peers_missing",
]

DELTA = "delta-rs"
LAKEHOUSE = "lakehouse"
PYICEBERG = "pyiceberg"
PYPAIMON = "pypaimon"

Key = Literal["int64", "int64 sorted", "string"]
"""The first column of :func:`orders`: numbers in random or ascending order, or texts in random order."""

_CITIES = np.array([f"city-{number:04}" for number in range(1_000)])
_SECOND = 1_767_225_600
"""Begin of 2026, seconds since 1970."""


def orders(rows: int, key: Key, *, seed: int = 0, first: int = 0) -> pa.Table:
    """Rows of five columns, one row per key."""
    random = np.random.default_rng(seed)
    numbers = np.arange(first, first + rows) * 7
    if key != "int64 sorted":
        random.shuffle(numbers)
    ids = pa.array(numbers)
    if key == "string":
        ids = pa.array([f"order-{number:010}" for number in numbers])
    return pa.table(
        {
            "id": ids,
            "customer": random.integers(0, 100_000, rows),
            "city": pa.array(_CITIES[random.integers(0, len(_CITIES), rows)]),
            "amount": np.round(random.gamma(2, 50, rows), 2),
            "at": pa.array(
                (_SECOND + random.integers(0, 30 * 86_400, rows)) * 1_000_000, pa.timestamp("us", tz="UTC")
            ),
        }
    )


class TableSide(Protocol):
    """One engine, with one table at a time."""

    name: str

    async def create(self, schema: pa.Schema) -> None:
        """Begins a new table without rows; its key is the column ``id`` where there are keys."""
        ...

    async def write(self, rows: pa.Table) -> None:
        """Adds the rows in one commit."""
        ...

    async def upsert(self, rows: pa.Table) -> None:
        """Adds the rows in one commit; each replaces the older one of its key."""
        ...

    async def scan(self) -> int:
        """Reads all rows into memory; how many there are."""
        ...

    async def held(self) -> tuple[int, int, int]:
        """Rows, files and bytes of the table; rows that newer ones replaced count until they are gone."""
        ...


class _Lakehouse:
    name = LAKEHOUSE

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._numbers = itertools.count()
        self._table: Table

    async def create(self, schema: pa.Schema) -> None:
        name = f"bench.orders_{next(self._numbers)}"
        self._table = await self._lake.create_table(name, schema, primary_key=["id"])

    async def write(self, rows: pa.Table) -> None:
        await self._table.upsert(rows)

    async def upsert(self, rows: pa.Table) -> None:
        await self._table.upsert(rows)

    async def scan(self) -> int:
        rows: int = (await self._table.scan().to_arrow()).num_rows
        return rows

    async def held(self) -> tuple[int, int, int]:
        return _sums(await self._table.files(), "stored_rows", "bytes")


class _DeltaRs:
    name = DELTA

    def __init__(self, server: ServerInfo, bucket: str) -> None:
        self._url = f"s3://{bucket}/delta/orders_"
        self._numbers = itertools.count()
        self._at = ""
        self._options = {
            "AWS_ENDPOINT_URL": server.endpoint_url,
            "AWS_ACCESS_KEY_ID": server.key,
            "AWS_SECRET_ACCESS_KEY": server.secret,
            "AWS_REGION": server.region or "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    async def create(self, schema: pa.Schema) -> None:
        self._at = f"{self._url}{next(self._numbers)}"
        await asyncio.to_thread(DeltaTable.create, self._at, schema, storage_options=self._options)

    async def write(self, rows: pa.Table) -> None:
        def write() -> None:
            write_deltalake(self._at, rows, mode="append", storage_options=self._options)

        await asyncio.to_thread(write)

    async def upsert(self, rows: pa.Table) -> None:
        def merge() -> None:
            table = DeltaTable(self._at, storage_options=self._options)
            merging = table.merge(rows, "old.id = new.id", source_alias="new", target_alias="old")
            merging.when_matched_update_all().when_not_matched_insert_all().execute()

        await asyncio.to_thread(merge)

    async def scan(self) -> int:
        def read() -> int:
            table = DeltaTable(self._at, storage_options=self._options)
            return table.to_pyarrow_table().num_rows  # type: ignore[no-any-return]

        return await asyncio.to_thread(read)

    async def held(self) -> tuple[int, int, int]:
        table = await asyncio.to_thread(DeltaTable, self._at, storage_options=self._options)
        return _sums(pa.table(table.get_add_actions(flatten=True)), "num_records", "size_bytes")


class _Pyiceberg:
    """Its catalog is an SQLite file."""

    name = PYICEBERG

    def __init__(self, server: ServerInfo, bucket: str, home: Path) -> None:
        self._catalog = SqlCatalog(
            "bench",
            **{
                "uri": f"sqlite:///{home}/catalog.db",
                "warehouse": f"s3://{bucket}/iceberg",
                "s3.endpoint": server.endpoint_url,
                "s3.access-key-id": server.key,
                "s3.secret-access-key": server.secret,
                "s3.region": server.region or "us-east-1",
            },
        )
        self._catalog.create_namespace("bench")
        self._numbers = itertools.count()
        self._table: IcebergTable

    async def create(self, schema: pa.Schema) -> None:
        name = f"bench.orders_{next(self._numbers)}"
        self._table = await asyncio.to_thread(self._catalog.create_table, name, schema)

    async def write(self, rows: pa.Table) -> None:
        await asyncio.to_thread(self._table.append, rows)

    async def upsert(self, rows: pa.Table) -> None:
        await asyncio.to_thread(self._table.upsert, rows, join_cols=["id"])

    async def scan(self) -> int:
        rows = await asyncio.to_thread(lambda: self._table.scan().to_arrow())
        return int(rows.num_rows)

    async def held(self) -> tuple[int, int, int]:
        files = await asyncio.to_thread(self._table.inspect.files)
        return _sums(files, "record_count", "file_size_in_bytes")


class _Pypaimon:
    """A table with a primary key and one bucket, like ours."""

    name = PYPAIMON

    def __init__(self, worker: Worker, home: Path) -> None:
        self._worker = worker
        self._file = home / "rows.arrow"
        self._numbers = itertools.count()

    async def create(self, schema: pa.Schema) -> None:
        await self._hand_over(schema.empty_table())
        name = f"orders_{next(self._numbers)}"
        await self._worker.ask("create_for", name=name, path=str(self._file))

    async def write(self, rows: pa.Table) -> None:
        await self._hand_over(rows)
        await self._worker.ask("load", path=str(self._file))
        await self._worker.ask("write")

    async def upsert(self, rows: pa.Table) -> None:
        await self.write(rows)

    async def scan(self) -> int:
        return int(await self._worker.ask("scan"))

    async def held(self) -> tuple[int, int, int]:
        rows, files, size = await self._worker.ask("held")
        return rows, files, size

    async def _hand_over(self, rows: pa.Table) -> None:
        def write() -> None:
            with pa.OSFile(str(self._file), "w") as file, pa.ipc.new_file(file, rows.schema) as arrow:
                arrow.write_table(rows)

        await asyncio.to_thread(write)


def _sums(files: pa.Table, rows: str, size: str) -> tuple[int, int, int]:
    return sum(files[rows].to_pylist()), files.num_rows, sum(files[size].to_pylist())


def peers_missing() -> tuple[str, ...]:
    """What a page says of peers that cannot be had here."""
    return () if python_of(PYPAIMON) else ("pypaimon was left out: `make peers` makes its environment.",)


@contextlib.asynccontextmanager
async def open_table_sides(
    server: ServerInfo, bucket: str, names: Sequence[str] = (LAKEHOUSE, DELTA)
) -> AsyncIterator[dict[str, TableSide]]:
    """The named sides over one bucket, as far as they can be had (see :func:`peers_missing`)."""
    options: dict[str, Any] = {**server.storage_options, "endpoint_url": server.endpoint_url}
    async with contextlib.AsyncExitStack() as stack:
        lake = await stack.enter_async_context(connect(f"s3://{bucket}/lake", storage_options=options))
        await lake.create_database("bench")
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakehouse-bench-")))
        sides: list[TableSide] = [_Lakehouse(lake), _DeltaRs(server, bucket)]
        if PYICEBERG in names:
            sides.append(_Pyiceberg(server, bucket, home))
        python = python_of(PYPAIMON)
        if PYPAIMON in names and python is not None:
            worker = await stack.enter_async_context(started("benchmarks.pypaimon_worker", python=python))
            await worker.ask("connect", bucket=bucket, options=options)
            sides.append(_Pypaimon(worker, home))
        yield {side.name: side for side in sides if side.name in names}
