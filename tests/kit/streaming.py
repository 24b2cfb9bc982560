"""Streaming writers for tests: small tables, writers that vanish, and what a fresh process reads."""

from __future__ import annotations

from typing import Any

from lakehouse.clock import Clock
from lakehouse.errors import CommitUnknownError, LakehouseError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.storage.write.streaming_writer import TableWriter
from lakehouse.testing import PowerCut
from tests.kit.table_operations import LAYOUTS, SCHEMA
from tests.kit.worlds import NAME, process, restored, table_of

__all__ = ["Rows", "acknowledged", "made", "opened", "rows_of", "some", "vanish"]

Rows = list[tuple[int, str, int | None]]


def some(*rows: tuple[int, str, int | None]) -> list[dict[str, Any]]:
    """Rows as dicts."""
    return [{"id": number, "part": part, "v": value} for number, part, value in rows]


async def made(layout: str = "rows move between partitions", **options: str) -> ObjectStore:
    """A store with an empty table."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    await lake.create_table(NAME, SCHEMA, options=options, **LAYOUTS[layout])
    return store


async def opened(store: ObjectStore, *, clock: Clock | None = None) -> TableWriter:
    """A writer of a process of its own."""
    writer = (await table_of(store, clock=clock)).writer()
    await writer.__aenter__()
    return writer


async def vanish(writer: TableWriter) -> None:
    """Its process ends, and leaves everything as it is."""
    error = RuntimeError("the process ended")
    await writer.__aexit__(type(error), error, None)


async def acknowledged(stream: TableWriter, data: object, **how: Any) -> str:
    """What becomes of a put: done, failed, unknown, or dead when the process ended."""
    try:
        await (await stream.put(data, **how))
    except CommitUnknownError:
        return "unknown"
    except LakehouseError:
        return "failed"
    except PowerCut:
        return "dead"
    return "done"


async def rows_of(where: ObjectStore | Table, freshness: str = "snapshot") -> Rows:
    """What is read, of a store by a process that opens the table afresh."""
    table = where if isinstance(where, Table) else await table_of(where)
    found = await table.scan(freshness=freshness).to_pylist()  # type: ignore[arg-type]
    return sorted((row["id"], row["part"], row["v"]) for row in found)
