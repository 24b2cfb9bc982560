"""Our warehouse as a source: what each answer costs in requests, and what own and foreign changes do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.catalog.ids import DEFAULT_ACCOUNT, NodeKind, ResourceId
from lakehouse.catalog.nodes import TableNode
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io import measure
from lakehouse.lake import Lake
from lakehouse.testing import ManualClock

_SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.float64()})
NAME = "sales.orders"


@contextlib.asynccontextmanager
async def _lakes(name: str, tables: int = 1) -> AsyncIterator[tuple[Lake, Lake, ManualClock]]:
    """Two lakes over one warehouse, as two processes would have: one that writes, one that is asked."""
    clock, url = ManualClock(), f"memory://graph-warehouse-{name}"
    async with lakehouse.connect(url) as writer, lakehouse.connect(url, clock=clock) as reader:
        await writer.create_database("sales")
        for number in range(tables):
            table = await writer.create_table(
                NAME if number == 0 else f"sales.t{number:03}", _SCHEMA, primary_key=["id"]
            )
            await table.append([{"id": 1, "amount": 2.0}])
        yield writer, reader, clock


async def test_a_name_costs_one_get() -> None:
    """Resolving a name reads its pointer and nothing of the table."""
    async with _lakes("name") as (_, lake, _clock):
        with measure() as cost:
            await lake.graph.resolve_name(NAME)
        assert cost.by_kind() == {"get": 1}


async def test_a_cold_node_costs_what_the_note_says() -> None:
    """Hint, list of snapshots, snapshot and schema, behind the pointer of the name; then nothing."""
    async with _lakes("cold") as (_, lake, _clock):
        number = await lake.graph.resolve_name(NAME)
        with measure() as cost:
            node = await lake.graph.resolve(number)
        assert cost.by_kind() == {"get": 3, "list": 1}
        with measure() as warm:
            assert await lake.graph.resolve(number) is node
            assert await lake.graph.table(NAME) is node
        assert warm.by_kind() == {}


async def test_many_warm_tables_cost_nothing_and_one_look_each_window() -> None:
    """N tables resolved, pinned and described: no request while fresh, then one for each and no content."""
    async with _lakes("window", tables=12) as (_, lake, clock):
        page = await lake.graph.resolve_tables(prefix="sales")
        ids = [item.id for item in page.items if item.id is not None]
        assert len(ids) == 12

        async def describe() -> None:
            for number in ids:
                node = await lake.graph.resolve(number)
                assert isinstance(node, TableNode)
                await lake.graph.snapshot(node, number=node.current_snapshot)
                await lake.graph.facts_at(node, node.current_snapshot or 0)

        await describe()
        with measure() as warm:
            await describe()
        assert warm.by_kind() == {}
        for _ in range(2):
            await clock.advance(2.1)
            with measure() as window:
                await describe()
                await describe()
            assert window.by_kind() == {"get": 12}


async def test_own_commits_are_seen_at_once_and_cost_nothing() -> None:
    """After a commit of this process the node is of its snapshot, by name and by id, without a look."""
    async with _lakes("own") as (writer, _, _clock):
        node = await writer.graph.table(NAME)
        table = await writer.table(NAME)
        for snapshot in (3, 4):
            await table.append([{"id": snapshot, "amount": 1.0}])
            with measure() as cost:
                found = await writer.graph.resolve(node.id)
            assert isinstance(found, TableNode)
            assert found.current_snapshot == snapshot
            assert cost.by_kind() == {}


async def test_a_commit_beats_a_load_that_began_before_it() -> None:
    """A pointer that was being read when this process committed does not hide the commit."""
    async with _lakes("race") as (writer, _, _clock):
        table = await writer.table(NAME)
        for round_ in range(5):
            writer._state.layers.account().drop("", ("sales", "orders"))
            loading = asyncio.create_task(writer.graph.table(NAME))
            for _ in range(round_):
                await asyncio.sleep(0)
            await table.append([{"id": 100 + round_, "amount": 1.0}])
            await loading
            assert (await writer.graph.table(NAME)).current_snapshot == 3 + round_


async def test_commits_of_others_are_seen_after_the_bound() -> None:
    """Commits of another process are unseen while the pointer is fresh, then seen."""
    async with _lakes("others") as (writer, lake, clock):
        assert (await lake.graph.table(NAME)).current_snapshot == 2
        await (await writer.table(NAME)).append([{"id": 2, "amount": 1.0}])
        await clock.advance(1.9)
        assert (await lake.graph.table(NAME)).current_snapshot == 2
        await clock.advance(0.2)
        assert (await lake.graph.table(NAME)).current_snapshot == 3


async def test_own_names_change_at_once() -> None:
    """A table that this process made, renamed, dropped or brought back is seen so by the next call."""
    async with _lakes("ddl") as (lake, _, _clock):
        number = await lake.graph.resolve_name(NAME)
        await lake.graph.resolve(number)
        await lake.rename_table(NAME, "sales.bills")
        node = await lake.graph.resolve(number)
        assert isinstance(node, TableNode)
        assert node.display == "sales.bills"
        with pytest.raises(NotFoundError, match=r"sales\.bills"):
            await lake.graph.resolve_name(NAME)
        await lake.drop_table("sales.bills")
        for asked in (lake.graph.resolve(number), lake.graph.table("sales.bills")):
            with pytest.raises(NotFoundError):
                await asked
        await lake.undrop_table("sales.bills")
        assert (await lake.graph.table("sales.bills")).id == number
        listed = await lake.graph.resolve_tables(prefix="sales")
        assert [item.name for item in listed.items] == ["sales.bills"]
        await lake.create_table("sales.new", _SCHEMA)
        listed = await lake.graph.resolve_tables(prefix="sales")
        assert [item.name for item in listed.items] == ["sales.bills", "sales.new"]


async def test_databases_of_this_process_are_seen_at_once() -> None:
    """A database that was made or dropped here is in the next listing, or not in it any more."""
    async with _lakes("databases") as (lake, _, _clock):
        await lake.graph.catalog()
        await lake.create_database("fresh")
        assert (await lake.graph.namespace("fresh")).path == ("fresh",)
        await lake.drop_database("fresh")
        with pytest.raises(NotFoundError):
            await lake.graph.namespace("fresh")


async def test_a_table_made_again_elsewhere_is_another_one() -> None:
    """Dropped and made again by another process, the name leads to the new table after the bound."""
    async with _lakes("again") as (writer, lake, clock):
        old = await lake.graph.table(NAME)
        await writer.drop_table(NAME)
        await writer.create_table(NAME, pa.schema({"other": pa.string()}))
        await clock.advance(2.1)
        new = await lake.graph.table(NAME)
        assert new.id != old.id
        assert list(new.field_ids) == ["other"]
        with pytest.raises(NotFoundError):
            await lake.graph.resolve(old.id)


async def test_a_rename_elsewhere_is_followed_by_id() -> None:
    """By its id a table is found under its new name once the name is looked at again."""
    async with _lakes("moved") as (writer, lake, clock):
        node = await lake.graph.table(NAME)
        await writer.rename_table(NAME, "sales.bills")
        await clock.advance(61)
        moved = await lake.graph.resolve(node.id)
        assert isinstance(moved, TableNode)
        assert (moved.display, moved.id) == ("sales.bills", node.id)


async def test_an_id_that_was_never_met_is_found_by_its_uuid() -> None:
    """Another process's id, and that of a renamed table, lead to the table; an unknown one to an error."""
    async with _lakes("located", tables=3) as (writer, lake, _clock):
        table = await writer.table("sales.t001")
        await writer.rename_table("sales.t001", "sales.elsewhere")
        number = ResourceId(DEFAULT_ACCOUNT, NodeKind.TABLE, table.uuid)
        node = await lake.graph.resolve(number)
        assert isinstance(node, TableNode)
        assert node.display == "sales.elsewhere"
        with pytest.raises(NotFoundError, match="nothing has the id"):
            await lake.graph.resolve(number._replace(uuid=node.catalog.uuid))


async def test_opening_reads_the_pointer_of_the_name_once_live() -> None:
    """``lake.table`` costs one GET whatever the graph knows, and sees a change of the name at once."""
    async with _lakes("open") as (writer, lake, _clock):
        await lake.graph.table(NAME)
        with measure() as cost:
            opened = await lake.table(NAME)
        assert cost.by_kind() == {"get": 1}
        await writer.rename_table(NAME, "sales.bills")
        with pytest.raises(NotFoundError, match=r"called 'sales\.bills' now"):
            await lake.table(NAME)
        assert (await lake.table("sales.bills")).core is opened.core
        assert not await lake.table_exists(NAME)
        assert await lake.table_exists("sales.bills")


async def test_a_table_is_one_object_in_a_process() -> None:
    """The graph's pointer, ``lake.table`` and an opened id share one open table, and so one known head."""
    async with _lakes("one") as (_, lake, _clock):
        node = await lake.graph.table(NAME)
        pointer = await lake.graph.pointer(node.id)
        opened = await lake.table(NAME)
        assert pointer.handle.table is opened.core
        assert (await lake.graph.open(node.id)) is opened.core


async def test_names_with_unicode_resolve() -> None:
    """Names of tables in any script are found, listed and shown as they are."""
    async with _lakes("unicode") as (writer, lake, _clock):
        await writer.create_table("sales.表-1", _SCHEMA)
        assert (await lake.graph.table("sales.表-1")).path == ("sales", "表-1")
        page = await lake.graph.resolve_tables(prefix="sales")
        assert [item.path[-1] for item in page.items] == ["orders", "表-1"]


@pytest.mark.parametrize("name", ["orders", "sales", ("sales", "a.b"), "sales.a/b", ("a", "b/c")])
async def test_what_can_be_no_table_is_refused(name: str | tuple[str, ...]) -> None:
    """A name that no table of a warehouse can have is an InvalidInputError."""
    async with _lakes(f"bad-{len(name)}-{len(str(name))}") as (_, lake, _clock):
        with pytest.raises(InvalidInputError):
            await lake.graph.table(name)


async def test_listing_loads_no_table() -> None:
    """Names of a database come with one LIST, however many tables it has; views say what they are."""
    async with _lakes("listing", tables=30) as (writer, lake, _clock):
        await writer.create_view("sales.v", {"duckdb": "select 1 as x"})
        with measure() as cost:
            page = await lake._state.sources.get("").page(("sales",), limit=1_000)
        assert len(page.entries) == 31
        # One look at the database, one LIST, and the pointer of the view, whose size is no table's.
        assert cost.by_kind() == {"get": 2, "list": 1}
        kinds = {entry.path[-1]: entry.kind for entry in page.entries}
        assert kinds["v"] is NodeKind.VIEW
        assert kinds["orders"] is NodeKind.TABLE


async def test_views_of_the_warehouse_are_nodes() -> None:
    """A view has its SQL, its dialect and its own id; a new version of it is seen at once here."""
    async with _lakes("views") as (lake, _, _clock):
        await lake.create_view("sales.v", {"duckdb": "select id from sales.orders"})
        view = await lake.graph.view("sales.v")
        assert (view.sql, view.dialect) == ("select id from sales.orders", "duckdb")
        await lake.create_view("sales.v", {"duckdb": "select 1 as x"}, or_replace=True)
        changed = await lake.graph.view("sales.v")
        assert (changed.sql, changed.id) == ("select 1 as x", view.id)
        assert [item.name for item in (await lake.graph.resolve_views(prefix="sales")).items] == ["sales.v"]
        with pytest.raises(NotFoundError):
            await lake.graph.table("sales.v")
