"""The registry: one object for each open table, and who hears of its commits."""

from __future__ import annotations

import gc

import pyarrow as pa

import lakehouse
from lakehouse.storage.commit import Committed
from lakehouse.storage.tables import OpenTable

_SCHEMA = pa.schema({"id": pa.int64()})


class _Heard:
    def __init__(self) -> None:
        self.commits: list[int] = []
        self.names: list[tuple[str, str | None]] = []

    def committed(self, table: OpenTable, done: Committed) -> None:
        self.commits.append(done.snapshot.id)

    def name_changed(self, database: str, table: str | None) -> None:
        self.names.append((database, table))


async def test_a_table_is_open_as_long_as_somebody_holds_it() -> None:
    """Opened twice it is one object; when nobody holds it, the registry lets it go."""
    async with lakehouse.connect("memory://registry-open") as lake:
        await lake.create_database("db")
        first = await lake.create_table("db.t", _SCHEMA)
        second = await lake.table("db.t")
        assert first.core is second.core
        registry = lake._state.registry
        assert len(registry) == 1
        number = first.uuid
        del first, second
        gc.collect()
        assert registry.get(number) is None
        assert len(registry) == 0


async def test_watchers_hear_of_commits_and_names_while_they_exist() -> None:
    """Each commit and each change of a name reaches whoever watches; one that is gone is forgotten."""
    async with lakehouse.connect("memory://registry-watch") as lake:
        heard, gone = _Heard(), _Heard()
        lake._state.registry.watch(heard)
        lake._state.registry.watch(gone)
        del gone
        await lake.create_database("db")
        table = await lake.create_table("db.t", _SCHEMA)
        await table.append([{"id": 1}])
        await lake.rename_table("db.t", "db.u")
        assert heard.commits == [2]
        assert heard.names == [("db", None), ("db", "t"), ("db", "u"), ("db", "t")]
