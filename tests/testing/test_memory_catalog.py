"""Tests of the catalog in memory: what it answers, how it fails on purpose, what it counts."""

from __future__ import annotations

import asyncio
import json

import pyarrow as pa
import pytest

from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.sources import CatalogSource
from lakehouse.errors import CorruptionError, NotFoundError, UnavailableError
from lakehouse.testing import ManualClock, MemoryCatalog, memory_graph

pytestmark = pytest.mark.anyio
ID = pa.schema({"id": pa.int64(), "tags": pa.list_(pa.string())})
ORDERS = ("sales", "orders")


def _catalog() -> MemoryCatalog:
    catalog = MemoryCatalog(clock=ManualClock())
    catalog.add_table("sales.orders", ID, primary_key=["id"])
    return catalog


async def test_it_is_a_source() -> None:
    """The catalog answers all calls of the protocol, each counted by its verb."""
    catalog = _catalog()
    catalog.commit("sales.orders", rows=3)
    source: CatalogSource = catalog
    pointer = await source.pointer(ORDERS)
    facts = await source.table(pointer)
    assert (facts.primary_key, facts.current_snapshot, facts.summary.rows) == (("id",), 0, 3)
    assert [one.id for one in await source.snapshots(pointer)] == [0]
    assert (await source.schema(pointer, snapshot=0)).schema_json == facts.schema_json
    assert await source.locate(pointer.identity) == ORDERS
    assert catalog.counts() == {"locate": 1, "pointer": 1, "schema": 1, "snapshots": 1, "table": 1}


async def test_a_pointer_leads_to_the_state_it_was_read_in() -> None:
    """A commit moves the version of the next pointer, and changes nothing that older pointers lead to."""
    catalog = _catalog()
    before = await catalog.pointer(ORDERS)
    catalog.commit("sales.orders")
    after = await catalog.pointer(ORDERS)
    assert (before.identity, before.version != after.version) == (after.identity, True)
    assert (await catalog.table(before)).current_snapshot is None
    assert (await catalog.table(after)).current_snapshot == 0


async def test_columns_keep_their_ids() -> None:
    """A change of columns keeps the ids of those that stay, and never gives an id twice."""
    catalog = _catalog()
    first = (await catalog.table(await catalog.pointer(ORDERS))).field_ids
    catalog.change_schema("sales.orders", pa.schema({"id": pa.int64(), "tags": pa.string(), "x": pa.int32()}))
    facts = await catalog.table(await catalog.pointer(ORDERS))
    assert facts.field_ids["id"] == first["id"]
    assert len({*first.values(), *facts.field_ids.values()}) == 4
    assert json.loads(facts.schema_json)["schema-id"] == facts.schema_id == 1


async def test_another_incarnation_has_another_identity() -> None:
    """A table that is dropped and made again is another one; a renamed table is the same."""
    catalog = _catalog()
    old = await catalog.pointer(ORDERS)
    catalog.rename("sales.orders", "sales.old")
    assert (await catalog.pointer(("sales", "old"))).identity == old.identity
    catalog.drop("sales.old", purge=True)
    catalog.add_table("sales.orders", ID)
    assert (await catalog.pointer(ORDERS)).identity != old.identity
    with pytest.raises(CorruptionError, match="is gone"):
        await catalog.table(old)


async def test_pages_hold_tables_and_views_in_order() -> None:
    """Pages are in order of names, whole together, and end with the place where the next begins."""
    catalog = _catalog()
    catalog.add_view("sales.big", "select 1")
    catalog.add_table("sales.zoo", ID)
    first = await catalog.page(("sales",), limit=2)
    assert [(one.path[-1], one.kind) for one in first.entries] == [
        ("big", NodeKind.VIEW),
        ("orders", NodeKind.TABLE),
    ]
    rest = await catalog.page(("sales",), after=first.after, limit=2)
    assert ([one.path[-1] for one in rest.entries], rest.after) == (["zoo"], None)


async def test_faults_come_and_go() -> None:
    """Catalogs that are down, broken tables and listings that break off fail until they are mended."""
    catalog = _catalog()
    catalog.add_table("sales.zoo", ID)
    catalog.break_relation("sales.orders")
    with pytest.raises(CorruptionError, match=r"sales\.orders"):
        await catalog.pointer(ORDERS)
    assert (await catalog.pointer(("sales", "zoo"))).path == ("sales", "zoo")
    catalog.cut_listing("sales", after="orders")
    cut = await catalog.page(("sales",), limit=10)
    assert cut.after == "orders"
    with pytest.raises(UnavailableError, match="broke off"):
        await catalog.page(("sales",), after=cut.after, limit=10)
    catalog.is_down = True
    with pytest.raises(UnavailableError, match="cannot be reached"):
        await catalog.namespaces()
    catalog.mend()
    assert len((await catalog.page(("sales",), limit=10)).entries) == 2


async def test_held_calls_wait_for_their_release() -> None:
    """A held call waits until it is released, and answers with what is there then."""
    catalog = _catalog()
    held = catalog.hold("pointer", "sales.orders")
    waiting = asyncio.ensure_future(catalog.pointer(ORDERS))
    await held.arrived()
    catalog.drop("sales.orders")
    held.release()
    with pytest.raises(NotFoundError, match="no table"):
        await waiting
    assert held.waiting == 0


async def test_latency_passes_on_the_clock() -> None:
    """A call takes the seconds of its latency by the catalog's clock."""
    clock = ManualClock()
    catalog = MemoryCatalog(clock=clock, latency_s=0.5)
    call = asyncio.ensure_future(catalog.namespaces())
    await clock.advance(0.4)
    assert not call.done()
    await clock.advance(0.2)
    assert await call == []


async def test_sources_of_other_credentials_share_no_content_key() -> None:
    """Two sources of one catalog see the same tables; their content has different keys."""
    catalog = _catalog()
    other = catalog.seen_with("other")
    ours, theirs = await catalog.pointer(ORDERS), await other.pointer(ORDERS)
    assert (ours.identity, ours.version) == (theirs.identity, theirs.version)
    assert ours.content_key != theirs.content_key
    assert (catalog.counts(), other.counts()) == ({"pointer": 1}, {"pointer": 1})


async def test_a_graph_in_memory_stands_on_it() -> None:
    """A graph over catalogs in memory resolves their names; one beside it shares content and no pointer."""
    catalog = _catalog()
    graph = memory_graph(catalog, clock=ManualClock())
    node = await graph.table("mem.sales.orders")
    assert node.primary_key == ("id",)
    other = catalog.seen_with("")
    beside = memory_graph(other, account="zoo", beside=graph)
    assert (await beside.table("mem.sales.orders")).id.account == "zoo"
    assert other.counts() == {"pointer": 1}
