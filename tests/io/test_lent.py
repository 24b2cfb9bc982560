"""Lakes outside their block: an error after it, a warning before it, and no connection left behind."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.errors import InvalidInputError
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import memory_store

SCHEMA = pa.schema({"id": pa.int64()})


async def filled(lake: Lake) -> Table:
    """A table of two rows."""
    await lake.create_database("db", if_not_exists=True)
    table = await lake.create_table("db.t", SCHEMA, primary_key="id")
    await table.append([{"id": 1}, {"id": 2}])
    return table


USES: dict[str, Callable[[Lake, Table], Awaitable[Any]]] = {
    "databases": lambda lake, _: lake.databases(),
    "table": lambda lake, _: lake.table("db.t"),
    "create": lambda lake, _: lake.create_database("other"),
    "scan": lambda _, table: table.scan().to_arrow(),
    "count of an old snapshot": lambda _, table: table.scan(snapshot=1).count(),
    "get": lambda _, table: table.get({"id": 1}),
    "schema": lambda _, table: table.schema(),
    "append": lambda _, table: table.append([{"id": 3}]),
    "compact": lambda _, table: table.compact(),
    "writer": lambda _, table: table.writer().__aenter__(),
}


@pytest.mark.parametrize("use", USES)
async def test_a_lake_that_was_left_is_closed(use: str) -> None:
    """Whatever is asked of it or its tables is an error that says what to do, remembered answers too."""
    async with Lake(memory_store()) as lake:
        table = await filled(lake)
        await USES["count of an old snapshot"](lake, table)
    with pytest.raises(InvalidInputError, match="this lake is closed") as caught:
        await USES[use](lake, table)
    assert caught.value.kind == "closed"


async def test_an_iteration_does_not_outlive_its_lake() -> None:
    """A scan that was begun inside the block ends with it."""
    async with Lake(memory_store()) as lake:
        table = await filled(lake)
        scan = table.scan()
    with pytest.raises(InvalidInputError, match="this lake is closed"):
        async for _ in scan.batches():
            pass


async def test_a_lake_may_be_entered_again() -> None:
    """Entering it opens it, and tables of the first time work again."""
    lake = Lake(memory_store())
    async with lake:
        table = await filled(lake)
    async with lake:
        assert await table.scan().count() == 2


def test_a_lake_that_is_not_entered_warns_once(tmp_path: Path) -> None:
    """The first use says what to write; the lake works on every event loop, one after the other."""
    lake = lakehouse.connect(str(tmp_path))
    with pytest.warns(ResourceWarning, match="async with lakehouse") as warned:
        table = asyncio.run(filled(lake))
    assert len(warned) == 1
    assert asyncio.run(table.scan().count()) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
async def test_lakes_and_tables_travel_together(tmp_path: Path, protocol: int) -> None:
    """A lake and its table that are pickled inside the block are one lake, not entered, where they arrive."""
    async with lakehouse.connect(str(tmp_path), settings={"io.threads": 2}) as lake:
        sent = pickle.dumps((lake, await filled(lake)), protocol)
        here: tuple[Lake, Table] = pickle.loads(sent)
        assert here[0].settings == lake.settings
        async with here[0]:
            assert await here[1].scan().count() == 2
        with pytest.raises(InvalidInputError, match="this lake is closed"):
            await here[1].scan().count()


async def test_a_table_travels_alone(tmp_path: Path) -> None:
    """A pickled table connects where it is used, without a word, also when its lake has been left."""
    async with lakehouse.connect(str(tmp_path)) as lake:
        table = await filled(lake)
    arrived: Table = pickle.loads(pickle.dumps(table))
    await arrived.append([{"id": 3}])
    assert (await arrived.scan().count(), arrived.name, arrived.uuid) == (3, "db.t", table.uuid)


async def test_writers_and_scans_do_not_travel(tmp_path: Path) -> None:
    """What is bound to its process says so by name, and what to pickle instead."""
    async with lakehouse.connect(str(tmp_path)) as lake:
        table = await filled(lake)
        async with table.writer() as writer:
            with pytest.raises(
                InvalidInputError, match=r"a writer of db\.t cannot be pickled: pickle the table"
            ):
                pickle.dumps(writer)
        with pytest.raises(InvalidInputError, match=r"a scan of db\.t cannot be pickled: pickle the table"):
            pickle.dumps(table.scan())


PROGRAM = """
import asyncio, json, pickle, sys, warnings
import pyarrow as pa
import lakehouse
from lakehouse.errors import InvalidInputError

url, options = json.loads(sys.argv[1])

async def left():
    async with lakehouse.connect(url, storage_options=options) as lake:
        await lake.create_database("db")
        table = await lake.create_table("db.t", pa.schema({"id": pa.int64()}))
        await table.append([{"id": 1}])
    try:
        await table.scan().count()
    except InvalidInputError as error:
        print(error.kind)
    return pickle.dumps(table)

async def never_entered():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        table = await lakehouse.connect(url, storage_options=options).table("db.t")
    print(await table.scan().count())

async def arrived(sent):
    print(await pickle.loads(sent).scan().count())
    table = pickle.loads(sent)
    print(await table.scan().count())
    return table

sent = asyncio.run(left())
asyncio.run(never_entered())
table = asyncio.run(arrived(sent))
"""


def test_no_session_is_left_open(bucket_url: str, storage_options: dict[str, Any]) -> None:
    """Lakes that were left, never entered, or arrived by pickle leave no connection to complain about."""
    words = json.dumps([f"{bucket_url}/warehouse", storage_options])
    command = [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning", "-c", PROGRAM]
    done = subprocess.run([*command, words], capture_output=True, text=True, timeout=120, check=False)
    told = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]  # slow steps
    assert (done.returncode, told, done.stdout.split()) == (0, [], ["closed", "1", "1", "1"])
