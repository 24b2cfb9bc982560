"""Accounts of a lake: what they share, what they do not, and what is left when they go."""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
import lakehouse.sync
from lakehouse.catalog.ids import NodeKind
from lakehouse.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
)
from lakehouse.io import measure
from lakehouse.lake import Lake
from lakehouse.testing import ManualClock, memory_store
from tests.iceberg.catalogs.test_through_pyiceberg import ROWS, sql_table

_ID = pa.schema({"id": pa.int64()})


@asynccontextmanager
async def _lake(**options: Any) -> AsyncIterator[Lake]:
    """A lake with a table in each of two databases."""
    async with Lake(memory_store(), **options) as lake:
        for database in ("hr", "sales"):
            await lake.create_database(database)
            table = await lake.create_table(f"{database}.people", _ID)
            await table.append([{"id": 1}])
        yield lake


def _directory(directory: Path) -> dict[str, Any]:
    return {"type": "directory", "warehouse": directory.as_uri()}


# --- what is shared -----------------------------------------------------------------


async def test_an_account_shares_open_tables_and_content() -> None:
    """A table that somebody has open costs another account the pointer of its name and no content."""
    async with _lake() as lake:
        ours = await lake.table("sales.people")
        assert await ours.scan().count() == 1
        acme = lake.for_account("acme")
        with measure() as cost:
            theirs = await acme.table("sales.people")
            assert await theirs.scan().count() == 1
        assert theirs.core is ours.core
        assert cost.requests <= 3


async def test_content_of_a_node_is_loaded_once_for_all_accounts() -> None:
    """A second account resolves a table by its own pointer, and loads no schema again; ids are its own."""
    async with _lake() as lake:
        acme, zoo = lake.for_account("acme"), lake.for_account("zoo")
        first = await acme.graph.resolve_name("sales.people")
        await acme.graph.resolve(first)
        loads = {row["entry"]: row["loads"] for row in lake.cache.stats().to_pylist() if not row["account"]}
        second = await zoo.graph.resolve_name("sales.people")
        node = await zoo.graph.resolve(second)
        after = {row["entry"]: row["loads"] for row in lake.cache.stats().to_pylist() if not row["account"]}
        assert (first.account, second.account, first.uuid) == ("acme", "zoo", second.uuid)
        assert node.display.endswith("sales.people")
        assert after["table"] == loads["table"] == 1


async def test_commits_of_one_account_are_seen_by_the_others_at_once() -> None:
    """A commit through one account's view is in the next node of every account of the process."""
    async with _lake() as lake:
        acme, zoo = lake.for_account("acme"), lake.for_account("zoo")
        number = await zoo.graph.resolve_name("sales.people")
        before = await zoo.graph.resolve(number)
        await (await acme.table("sales.people")).append([{"id": 2}])
        assert (await zoo.graph.resolve(number)).version != before.version


# --- what is not --------------------------------------------------------------------


async def test_catalogs_are_the_accounts_own(tmp_path: Path) -> None:
    """A catalog that an account attaches is attached for nobody else, and its name is free for others."""
    async with _lake() as lake:
        acme, zoo = lake.for_account("acme"), lake.for_account("zoo")
        await acme.attach_catalog("ice", _directory(tmp_path))
        assert (await acme.catalogs(), await zoo.catalogs(), await lake.catalogs()) == (["ice"], [], [])
        with pytest.raises(NotFoundError, match="no catalog 'ice' is attached; there is none"):
            await zoo.databases("ice")
        await zoo.attach_catalog("ice", _directory(tmp_path))
        await acme.detach_catalog("ice")
        assert await zoo.catalogs() == ["ice"]
        with pytest.raises(AlreadyExistsError):
            await zoo.attach_catalog("ice", _directory(tmp_path))


async def _failure(lake: Any, name: str, verb: str) -> tuple[Any, ...]:
    database = name.partition(".")[0]
    calls = {
        "table": lambda: lake.table(name),
        "tables": lambda: anext(lake.tables(database)),
        "graph": lambda: lake.graph.resolve_name(name),
        "drop": lambda: lake.drop_table(name),
        "rename": lambda: lake.rename_table(name, "sales.x"),
        "undrop": lambda: lake.undrop_database(database),
        "manifests": lambda: lake.manifests(database).to_arrow(),
    }
    with pytest.raises(LakehouseError) as raised:
        await calls[verb]()
    error = raised.value
    facts = {key: str(value).replace(database, "DB") for key, value in error.context.items()}
    return type(error), error.kind, error.message.replace(database, "DB"), facts


@pytest.mark.parametrize("verb", ["table", "tables", "graph", "drop", "rename", "undrop"])
async def test_hidden_databases_are_like_missing_ones(verb: str) -> None:
    """Each call that names a hidden database fails with the words for one that does not exist."""
    async with _lake() as lake:
        acme = lake.for_account("acme", exclude=["h*"])
        assert await acme.databases() == ["sales"]
        assert await _failure(acme, "hr.people", verb) == await _failure(acme, "hx.people", verb)


async def test_hidden_databases_are_nowhere() -> None:
    """Lists, existence, inventories, ids and purges of an account know nothing of hidden databases."""
    async with _lake() as lake:
        number = (await lake.graph.resolve_name("hr.people"))._replace(account="acme")
        acme = lake.for_account("acme", include=["sales"])
        assert not await acme.database_exists("hr")
        assert not await acme.table_exists("hr.people")
        assert [row["table"] for row in (await acme.data_files().to_arrow()).to_pylist()] == ["sales.people"]
        assert [entry async for entry in acme.index_metas("hr")] == []
        with pytest.raises(NotFoundError):
            await acme.graph.resolve(number)
        await lake.drop_table("hr.people")
        assert (await acme.purge_dropped(grace_s=0)).tables == ()
        assert len((await lake.purge_dropped(grace_s=0)).tables) == 1


async def test_nothing_is_made_outside_of_an_accounts_authority() -> None:
    """Making a database that the account may not see is refused, whether it is there or not."""
    async with _lake() as lake:
        acme = lake.for_account("acme", include=["acme_*"])
        for name in ("hr", "other"):
            with pytest.raises(PermissionDeniedError, match="may not use a database"):
                await acme.create_database(name)
        await acme.create_database("acme_new")
        assert await lake.databases() == ["acme_new", "hr", "sales"]


async def test_authority_may_be_asked_for() -> None:
    """A callback decides for each database what an account sees, at the moment."""
    allowed = {"sales"}
    async with _lake() as lake:
        acme = lake.for_account("acme", authorise=lambda namespace: namespace[0] in allowed)
        assert await acme.databases() == ["sales"]
        allowed.add("hr")
        assert await acme.databases() == ["hr", "sales"]


async def test_ids_of_another_account_are_unknown() -> None:
    """An id that another account resolved is not found, whether or not the relation exists."""
    async with _lake() as lake:
        acme, zoo = lake.for_account("acme"), lake.for_account("zoo")
        number = await acme.graph.resolve_name("sales.people", NodeKind.TABLE)
        with pytest.raises(NotFoundError):
            await zoo.graph.resolve(number)


async def test_statistics_show_an_account_its_own() -> None:
    """An account's statistics have its own pointers, and none of another account; metrics are refused."""
    async with _lake() as lake:
        acme, zoo = lake.for_account("acme"), lake.for_account("zoo")
        for one in (acme, zoo):
            await one.graph.resolve_name("sales.people")
        assert {row["account"] for row in acme.cache.stats().to_pylist()} == {None, "acme"}
        with pytest.raises(InvalidInputError, match="all accounts"):
            acme.cache.metrics()
        assert 'account="zoo"' in lake.cache.metrics()


async def test_refreshing_an_account_leaves_the_others_pointers() -> None:
    """A refresh or a clear of one account drops nothing that another one was told."""
    async with _lake() as lake:
        acme, zoo = lake.for_account("acme"), lake.for_account("zoo")
        for one in (acme, zoo):
            await one.graph.resolve(await one.graph.resolve_name("sales.people"))
        await acme.cache.refresh()
        await acme.cache.clear()
        number = await zoo.graph.resolve_name("sales.people")
        with measure() as cost:
            await zoo.graph.resolve(number)
        assert cost.requests == 0


async def test_queries_are_an_accounts_own() -> None:
    """A query reads what its account sees; another account cannot join what was shared."""
    async with _lake() as lake:
        acme, zoo = lake.for_account("acme", exclude=["hr"]), lake.for_account("zoo")
        async with acme.query() as query:
            assert await query.scan("sales.people").count() == 1
            with pytest.raises(NotFoundError):
                await query.scan("hr.people").count()
            number = await query.share()
            with pytest.raises(NotFoundError):
                async with zoo.join_query(number):
                    pass
            async with acme.join_query(number) as joined:
                assert await joined.scan("sales.people").count() == 1


# --- lives --------------------------------------------------------------------------


async def test_one_name_is_one_account(tmp_path: Path) -> None:
    """Two views of an account are the same account; other arguments for it are refused while it is used."""
    async with _lake() as lake:
        first = lake.for_account("acme", include=["sales"])
        await first.attach_catalog("ice", _directory(tmp_path))
        assert await lake.for_account("acme").catalogs() == ["ice"]
        assert await lake.for_account("acme", include=["sales"]).databases() == ["sales"]
        with pytest.raises(InvalidInputError, match="in use with other"):
            lake.for_account("acme", include=["hr"])


async def test_leaving_an_account_ends_its_catalogs(tmp_path: Path) -> None:
    """An account that is left has no catalogs any more; the lake and its other accounts go on."""
    async with _lake() as lake:
        async with lake.for_account("acme", include=["sales"]) as acme:
            await acme.attach_catalog("ice", _directory(tmp_path))
            assert lake.accounts() == ["acme"]
        assert lake.accounts() == []
        assert await lake.for_account("acme").databases() == ["hr", "sales"]
        assert await lake.for_account("acme").catalogs() == []


async def test_an_idle_account_gives_back_what_is_kept_and_comes_back() -> None:
    """A resting account has no pointer and no label; who holds its view uses it on, with its rights."""
    clock = ManualClock()
    settings = lakehouse.Settings.resolve({"catalog.account_idle_s": 10.0})
    async with _lake(clock=clock, settings=settings) as lake:
        acme = lake.for_account("acme", include=["sales"])
        await acme.graph.resolve_name("sales.people")
        assert 'account="acme"' in lake.cache.metrics()
        await clock.advance(11)
        lake.for_account("zoo")
        assert 'account="acme"' not in lake.cache.metrics()
        assert await acme.databases() == ["sales"]
        with pytest.raises(NotFoundError):
            await acme.table("hr.people")


@pytest.mark.parametrize("account", ["", "a\nb", "x" * 257, 7, "default"])
async def test_names_of_accounts_are_checked(account: Any) -> None:
    """A name is printable text of bounded length, and not that of the lake's own account."""
    async with _lake() as lake:
        with pytest.raises(InvalidInputError):
            lake.for_account(account)


async def test_an_account_travels_with_its_rights_and_nobody_elses(tmp_path: Path) -> None:
    """A pickled view has its catalogs and rights where it arrives, and nothing of the lake's own."""
    url = f"file://{tmp_path}/wh"
    async with lakehouse.connect(url, catalogs={"own": {"type": "sql", "uri": "sqlite:///c4n4ry"}}) as lake:
        await lake.create_database("sales")
        await lake.create_database("hr")
        acme = lake.for_account("acme", exclude=["hr"])
        await acme.attach_catalog("ice", _directory(tmp_path))
        sent = pickle.dumps(acme)
    assert b"c4n4ry" not in sent
    arrived = pickle.loads(sent)
    assert arrived.account == "acme"
    assert await arrived.databases() == ["sales"]
    assert await arrived.catalogs() == ["ice"]
    await arrived._lent.aclose()


async def test_ten_thousand_accounts_leave_memory_and_metrics_flat() -> None:
    """Accounts that pass through leave no entry, no label, no floor and no object behind."""
    settings = lakehouse.Settings.resolve({"catalog.accounts_max": 50})
    async with _lake(settings=settings) as lake:

        async def passing(numbers: range) -> tuple[int, int, int]:
            for number in numbers:
                account = lake.for_account(f"account {number}")
                await account.catalogs()
                if number % 20 == 0:
                    await account.graph.resolve_name("sales.people")
            gc.collect()
            entries = sum(one.entries for one in lake.caches.stats())
            return len(lake.cache.metrics()), entries, lake.caches.weight

        metrics, entries, weight = await passing(range(1_000, 1_500))
        objects = len(gc.get_objects())
        blocks = sys.getallocatedblocks()
        after = await passing(range(1_500, 10_500))
        assert after[0] <= metrics * 1.05
        assert after[1] <= entries + 5
        assert after[2] <= weight * 1.1
        assert len(gc.get_objects()) <= objects + 5_000
        assert sys.getallocatedblocks() <= blocks + 5_000
        gc.collect()
        assert len(lake.accounts()) <= 50


async def test_accounts_of_the_configuration_begin_with_what_it_says(tmp_path: Path) -> None:
    """Catalogs and databases of an account may be given to ``connect``; they come again when it does."""
    accounts = {"acme": {"include": ["sales"], "catalogs": {"ice": _directory(tmp_path)}}}
    async with lakehouse.connect(f"file://{tmp_path}/wh", accounts=accounts) as lake:
        await lake.create_database("sales")
        await lake.create_database("hr")
        for _ in range(2):
            async with lake.for_account("acme") as acme:
                assert (await acme.databases(), await acme.catalogs()) == (["sales"], ["ice"])
        assert await lake.catalogs() == []


async def test_catalogs_of_the_configuration_file_are_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catalogs of the file are attached when a lake is made; those of the call come before them."""
    properties = sql_table(tmp_path, f"file://{tmp_path}/warehouse")
    text = "\n".join(f'{name} = "{value}"' for name, value in properties.items())
    file = tmp_path / "lakehouse.toml"
    file.write_text(f"[catalogs.ice]\n{text}\n")
    monkeypatch.setenv("LAKEHOUSE_CONFIG", str(file))
    async with lakehouse.connect("memory://accounts-file", catalogs={"d": _directory(tmp_path)}) as lake:
        assert await lake.catalogs() == ["d", "ice"]
        table = await lake.table("ice.web.events")
        assert (await table.schema()).names == ROWS.schema.names


def test_accounts_without_await(tmp_path: Path) -> None:
    """The blocking twin of an account uses the lake's thread, and leaving it leaves the lake open."""
    with lakehouse.sync.connect(f"file://{tmp_path}/wh") as lake:
        lake.create_database("sales")
        lake.create_database("hr")
        with lake.for_account("acme", include=["sales"]) as acme:
            assert acme.databases() == ["sales"]
        assert lake.databases() == ["hr", "sales"]
