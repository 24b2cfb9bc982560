"""Metadata with a right checksum and wrong content: whoever meets it says what is wrong with which object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.errors import InternalError, LakehouseError
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from tests.kit.resealed import kinds, known_world, resealed
from tests.kit.worlds import NAME, process, restored

WORLD = anyio.run(known_world)
KINDS = kinds(WORLD)
EXAMPLES = 3 if settings().max_examples <= 100 else settings().max_examples // 25
"""Mutants of each kind of object; each meets every call."""
KEY = {"id": 5, "part": "b"}
ROW = {"id": 70, "part": "a", "v": 1.0, "t": "word", "st": None, "c": 1, "d": None}


async def changes(table: Table) -> None:
    """Reads what changed since the beginning."""
    async for _ in table.changes(1):
        pass


async def written(table: Table) -> None:
    """Puts a row through the log."""
    async with table.writer() as writer:
        await (await writer.put([ROW]))


READS: dict[str, Callable[[Table], Awaitable[Any]]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "scan where": lambda table: table.scan(where="v > 3 and matches(t, 'word5')").to_arrow(),
    "scan wal": lambda table: table.scan(freshness="wal", where="part = 'a'").to_arrow(),
    "explain": lambda table: table.scan(where="v > 3").explain(),
    "travel": lambda table: table.scan(tag="here").to_arrow(),
    "get": lambda table: table.get(KEY),
    "get many": lambda table: table.get_many([KEY, {"id": 2, "part": "a"}, {"id": 40, "part": "a"}]),
    "snapshots": lambda table: table.snapshots(),
    "schemas": lambda table: table.schemas(),
    "files": lambda table: table.files(),
    "manifests": lambda table: table.manifests(),
    "partitions": lambda table: table.partitions(),
    "indexes": lambda table: table.indexes(),
    "tags": lambda table: table.tags(),
    "changes": changes,
    "verify": lambda table: table.verify(),
    "expire": lambda table: table.expire_snapshots(retain=1, dry_run=True),
    "orphans": lambda table: table.remove_orphans(dry_run=True),
    "repair": lambda table: table.repair(dry_run=True),
}
WRITES: dict[str, Callable[[Table], Awaitable[Any]]] = {
    "append": lambda table: table.upsert([ROW]),
    "delete": lambda table: table.delete(where="v > 3"),
    "alter": lambda table: table.add_column("z", "int"),
    "compact": lambda table: table.compact(full=True),
    "rebuild": lambda table: table.rebuild_indexes(every=True),
    "put": written,
    "rollback": lambda table: table.rollback(snapshot=2),
    "tag": lambda table: table.create_tag("there"),
    "real repair": lambda table: table.repair(),
}


async def index_metas(lake: Lake) -> None:
    """Enumerates what the table's index files hold."""
    async for _ in lake.index_metas():
        pass


async def names(lake: Lake) -> None:
    """Lists databases and tables."""
    await lake.databases()
    async for _ in lake.tables("db"):
        pass


async def judge(world: dict[str, bytes], what: str) -> None:
    """Every call ends, and with an answer or an error that is ours."""
    store = await restored(world)
    odd: list[str] = []

    async def call(name: str, act: Callable[[], Awaitable[Any]]) -> None:
        try:
            with anyio.fail_after(60):
                await act()
        except InternalError as error:
            odd.append(f"{name}: {error!r:.300}")
        except LakehouseError as error:
            if len(error.message) > 5_000 or len(repr(error)) > 20_000:
                odd.append(f"{name}: {len(error.message):,} characters of {type(error).__name__}")
        except Exception as error:
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            place = (
                f"{frame.tb_frame.f_code.co_filename.rpartition('/')[2]}:{frame.tb_lineno}" if frame else ""
            )
            odd.append(f"{name}: {type(error).__name__}: {error!s:.200} at {place}")

    async def opened() -> None:
        tables.append(await process(store).table(NAME))

    tables: list[Table] = []
    await call("open", opened)
    # A table that does not open does so for no read and no write.
    for name, act in READS.items() if tables else ():
        await call(name, lambda act=act: act(tables[0]))  # type: ignore[misc]
    await call("index metas", lambda: index_metas(process(store)))
    await call("names", lambda: names(process(store)))
    for name, act in WRITES.items() if tables else ():
        store = await restored(world)
        await opened()
        await call(name, lambda act=act: act(tables[-1]))  # type: ignore[misc]
    assert not odd, f"{what}\n  " + "\n  ".join(odd)


def test_the_world_has_every_kind_of_object() -> None:
    """What is mutated is a table with every kind of object that there is."""
    assert set(KINDS) == {
        *("snapshot", "schema", "manifest", "wal", "_tables", "_database"),
        *("parquet", "sst", "puffin"),
    }


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_wrong_content_is_an_error_of_ours(kind: str, data: st.DataObject) -> None:
    """With one value exchanged and the checksum right, every call answers or says what is wrong."""
    key = data.draw(st.sampled_from(KINDS[kind]))
    world, what = resealed(WORLD, key, lambda below: data.draw(st.integers(0, max(below - 1, 0))))
    anyio.run(judge, world, what)
