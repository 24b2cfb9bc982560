"""The graph: names, ids and nodes; how old answers may be, and what each costs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lakehouse.catalog.graph import NameRef
from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import TableNode
from lakehouse.errors import (
    CorruptionError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    UnavailableError,
)
from lakehouse.testing import MemoryCatalog
from tests.kit.graphs import SCHEMA, GraphWorld

NAME = "mem.sales.orders"


async def test_a_name_becomes_an_id_and_an_id_a_node() -> None:
    """A table is found by its name, then by its id, and its node says what the catalog knows of it."""
    world = GraphWorld()
    number = await world.graph.resolve_name(NAME)
    node = await world.graph.resolve(number)
    assert isinstance(node, TableNode)
    assert (node.id, node.kind, node.display) == (number, NodeKind.TABLE, NAME)
    assert (node.current_snapshot, node.summary.rows, node.primary_key) == (0, 3, ("id",))
    assert dict(node.field_ids) == {"id": 1, "amount": 2}


async def test_warm_resolves_ask_nothing() -> None:
    """Within the bound of pointers, names, ids, snapshots and schemas of tables cost no call at all."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    await world.graph.snapshot(node, number=0)
    await world.graph.facts_at(node, 0)
    world.catalog.clear()
    for _ in range(3):
        assert await world.graph.resolve(node.id) is node
        assert await world.graph.table(NAME) is node
        await world.graph.snapshot(node, number=0)
        await world.graph.facts_at(node, 0)
    assert world.catalog.counts() == {}


async def test_each_window_of_staleness_costs_one_look_at_the_pointer() -> None:
    """After the bound a table that did not change costs one pointer and no content, and stays one node."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    for _ in range(3):
        await world.clock.advance(2.1)
        world.catalog.clear()
        assert await world.graph.resolve(node.id) is node
        assert await world.graph.resolve(node.id) is node
        assert world.catalog.counts() == {"pointer": 1}


async def test_changes_of_others_are_seen_after_the_bound_and_not_before() -> None:
    """A commit elsewhere stays unseen while the pointer is fresh, and is seen by the first look after it."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    world.catalog.commit("sales.orders")
    await world.clock.advance(1.9)
    assert (await world.graph.table(NAME)).current_snapshot == 0
    await world.clock.advance(0.2)
    newer = await world.graph.resolve(node.id)
    assert isinstance(newer, TableNode)
    assert (newer.current_snapshot, newer.id) == (1, node.id)
    assert node.current_snapshot == 0, "a node never changes"


async def test_a_call_may_ask_for_less_staleness_than_the_layer() -> None:
    """``max_staleness=0`` looks at once, and what it finds serves the others too."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    world.catalog.commit("sales.orders")
    assert (await world.graph.table(NAME, max_staleness=0)).current_snapshot == 1
    world.catalog.clear()
    again = await world.graph.resolve(node.id)
    assert isinstance(again, TableNode)
    assert again.current_snapshot == 1
    assert world.catalog.counts() == {}


async def test_resolve_hydrates_from_a_fresh_pointer_not_a_stale_cached_one() -> None:
    """What a node says of its snapshot, schema and version belongs to the pointer that was read for it."""
    world = GraphWorld()
    first = await world.graph.table(NAME)
    world.catalog.change_schema("sales.orders", SCHEMA.append(SCHEMA.field("id").with_name("extra")))
    world.catalog.commit("sales.orders")
    await world.clock.advance(3)
    second = await world.graph.resolve(first.id)
    assert isinstance(second, TableNode)
    assert (second.schema_id, second.current_snapshot) == (1, 1)
    assert "extra" in second.field_ids
    assert "extra" not in first.field_ids


async def test_a_table_that_is_dropped_and_made_again_never_shows_old_content() -> None:
    """The name leads to the new table, and the old id to nothing."""
    world = GraphWorld()
    old = await world.graph.table(NAME)
    world.catalog.drop("sales.orders")
    world.catalog.add_table("sales.orders", SCHEMA.append(SCHEMA.field("id").with_name("extra")))
    await world.clock.advance(3)
    new = await world.graph.table(NAME)
    assert new.id != old.id
    assert "extra" in new.field_ids
    with pytest.raises(NotFoundError, match=r"stands for another table|nothing has the id"):
        await world.graph.resolve(old.id)


async def test_absence_is_never_cached() -> None:
    """A name that was not there is found as soon as it is."""
    world = GraphWorld()
    with pytest.raises(NotFoundError):
        await world.graph.resolve_name("mem.sales.new")
    world.catalog.add_table("sales.new", SCHEMA)
    assert (await world.graph.resolve_name("mem.sales.new")).kind is NodeKind.TABLE


async def test_a_loader_failure_is_not_cached() -> None:
    """A table that failed is asked again by the next call."""
    world = GraphWorld()
    world.catalog.break_relation("sales.orders")
    with pytest.raises(CorruptionError):
        await world.graph.table(NAME)
    world.catalog.mend()
    assert (await world.graph.table(NAME)).display == NAME


async def test_a_catalog_that_is_down_answers_within_the_bound_and_then_says_so() -> None:
    """Stale answers serve their bound, an error follows, and the catalog serves again when it is back."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    world.catalog.is_down = True
    await world.clock.advance(1.9)
    assert await world.graph.resolve(node.id) is node
    await world.clock.advance(0.2)
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await world.graph.resolve(node.id)
    world.catalog.mend()
    assert await world.graph.resolve(node.id) is node


async def test_concurrent_misses_collapse_to_one_load() -> None:
    """A hundred callers that miss one table at once cost one pointer and one content."""
    world = GraphWorld()
    held = world.catalog.hold("pointer")
    waiting = [asyncio.create_task(world.graph.table(NAME)) for _ in range(100)]
    await held.arrived()
    held.release()
    nodes = await asyncio.gather(*waiting)
    assert len({id(node) for node in nodes}) == 1
    assert world.catalog.counts() == {"pointer": 1, "table": 1}


async def test_a_cancelled_caller_leaves_the_load_to_those_who_wait() -> None:
    """Who gives up takes nobody's answer along."""
    world = GraphWorld()
    held = world.catalog.hold("pointer")
    gives_up, stays = (asyncio.create_task(world.graph.table(NAME)) for _ in range(2))
    await held.arrived()
    gives_up.cancel()
    await asyncio.sleep(0)
    held.release()
    assert (await stays).display == NAME
    with pytest.raises(asyncio.CancelledError):
        await gives_up
    assert world.catalog.counts()["pointer"] == 1


async def test_an_invalidation_during_a_load_keeps_the_old_value_out() -> None:
    """Who asks after an invalidation gets what is there then, though an older load ends later."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    await world.clock.advance(3)
    held = world.catalog.hold("pointer")
    late = asyncio.create_task(world.graph.table(NAME))
    await held.arrived()
    await world.graph.invalidate(node.id)
    world.catalog.commit("sales.orders")
    held.release()
    await late
    assert (await world.graph.table(NAME)).current_snapshot == 1


async def test_an_id_of_another_account_is_unknown() -> None:
    """Accounts see one table under ids of their own, share its content, and no id but their own."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    other = world.of_account("other")
    with pytest.raises(NotFoundError, match="nothing has the id"):
        await other.resolve(node.id)
    with pytest.raises(NotFoundError, match="nothing has the id"):
        await other.resolve(node.id._replace(account="other"))
    theirs = await other.table(NAME)
    assert (theirs.id.uuid, theirs.id.account) == (node.id.uuid, "other")
    assert world.catalog.counts()["table"] == 1
    assert other.sources.get("mem").counts() == {"pointer": 1}  # type: ignore[attr-defined]


async def test_a_reference_with_an_id_is_not_looked_for() -> None:
    """A name that carries an id costs no look at the name."""
    world = GraphWorld()
    number = await world.graph.resolve_name(NAME)
    world.catalog.clear()
    assert await world.graph.resolve_name(NameRef("never.was.there", number)) == number
    assert world.catalog.counts() == {}


async def test_a_name_that_fits_several_objects_is_refused_with_all_of_them() -> None:
    """What is meant is for the caller to say; the error lists what there is."""
    world = GraphWorld()
    warehouse = MemoryCatalog("", clock=world.clock)
    warehouse.add_table("mem.sales", SCHEMA)
    world.sources.attach(warehouse)
    with pytest.raises(InvalidInputError) as found:
        await world.graph.resolve_name("mem.sales")
    assert found.value.kind == "ambiguous_name"
    assert len(found.value.context["candidates"]) == 2
    namespace = await world.graph.resolve_name("mem.sales", NodeKind.NAMESPACE)
    table = await world.graph.resolve_name("mem.sales", NodeKind.TABLE)
    assert {str(namespace), str(table)} == set(found.value.context["candidates"])


@pytest.mark.parametrize("kind", [NodeKind.TABLE, NodeKind.VIEW])
async def test_a_table_is_no_view(kind: NodeKind) -> None:
    """A name that stands for the other kind is not found, and the error says what it is."""
    world = GraphWorld()
    names = {NodeKind.TABLE: "mem.sales.large", NodeKind.VIEW: NAME}
    with pytest.raises(NotFoundError, match=f"not a {kind.value}"):
        await world.graph.resolve_name(names[kind], kind)


async def test_views_have_their_sql() -> None:
    """The node of a view has its text and dialect, and a changed view another version."""
    world = GraphWorld()
    view = await world.graph.view("mem.sales.large")
    assert view.sql.startswith("select")
    world.catalog.change_view("sales.large", "select 1")
    await world.clock.advance(3)
    changed = await world.graph.view("mem.sales.large")
    assert (changed.sql, changed.id) == ("select 1", view.id)
    assert changed.version != view.version


async def test_containers_list_what_is_inside() -> None:
    """A catalog's node names its namespaces; each is found by name and by id."""
    world = GraphWorld()
    world.catalog.add_namespace("sales.eu.north")
    catalog = await world.graph.catalog("mem")
    assert (catalog.name, catalog.connector) == ("mem", "memory")
    sales = await world.graph.namespace("mem.sales")
    assert catalog.namespaces == (sales.id,)
    assert await world.graph.resolve(sales.id) == sales
    north = await world.graph.namespace("mem.sales.eu.north")
    assert await world.graph.resolve(north.id) == north
    assert await world.graph.resolve(catalog.id) == catalog


@pytest.mark.parametrize("name", ["mem.none", "none", "mem.sales.eu"])
async def test_a_namespace_that_is_not_there_is_an_error(name: str) -> None:
    """Resolving is strict."""
    with pytest.raises(NotFoundError):
        await GraphWorld().graph.namespace(name)


async def test_a_new_namespace_is_found_at_once() -> None:
    """A kept listing that lacks a namespace proves nothing: it is listed again."""
    world = GraphWorld()
    await world.graph.catalog("mem")
    world.catalog.add_namespace("fresh")
    assert (await world.graph.namespace("mem.fresh")).path == ("fresh",)


@pytest.mark.parametrize("parts", [("a.b", "c"), ("übung", "täble"), ('q"uote', "x.y.z"), ("日本", "表")])
async def test_names_with_dots_unicode_and_quotes_resolve(parts: tuple[str, str]) -> None:
    """A name is its parts, whatever stands in them; its text quotes them and is read back."""
    world = GraphWorld()
    world.catalog.add_table(parts, SCHEMA)
    node = await world.graph.table(("mem", *parts))
    assert node.path == parts
    assert await world.graph.table(node.display) is node


@pytest.mark.parametrize("ref", [7, None, (), ("a", 1), "", "a..b", '"a', 'a"b".c', "x" * 10_000, b"a.b"])
async def test_what_is_no_reference_is_refused(ref: object) -> None:
    """Anything that is no name is an InvalidInputError, not a crash."""
    with pytest.raises(InvalidInputError):
        await GraphWorld().graph.resolve_name(ref)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", ["default:table:x", 7, None])
async def test_what_is_no_id_is_refused(number: object) -> None:
    """Ids are values; their text has to be parsed first."""
    with pytest.raises(InvalidInputError, match=r"ResourceId\.parse"):
        await GraphWorld().graph.resolve(number)  # type: ignore[arg-type]


async def test_detaching_frees_every_entry() -> None:
    """Nothing of a catalog stays in any cache after it was detached."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    await world.graph.snapshot(node, number=0)
    await world.sources.detach("mem")
    world.graph.detached("mem")
    kept = [stat for stat in world.layers.budget.stats() if stat.entries]
    assert kept == []
    with pytest.raises(NotFoundError, match="no catalog 'mem' is attached"):
        await world.graph.table(NAME)


async def test_a_refresh_makes_changes_visible_at_once() -> None:
    """After a refresh of the account's pointers an external commit is seen, by name and by id."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    world.catalog.commit("sales.orders")
    world.layers.account().drop("mem", ("sales", "orders"))
    seen = await world.graph.resolve(node.id)
    assert isinstance(seen, TableNode)
    assert seen.current_snapshot == 1


async def test_a_content_that_is_gone_is_a_loud_error() -> None:
    """A pointer whose content was purged fails, and names what is missing."""
    world = GraphWorld()
    pointer = await world.graph.pointer(NAME)
    world.catalog.drop("sales.orders", purge=True)
    world.layers.drop_content([pointer.identity])
    with pytest.raises(LakehouseError):
        await world.graph.table(NAME)


async def test_pointers_hold_no_more_than_their_bytes() -> None:
    """A pointer's entry is weighed with its node, so that thousands of tables stay within the budget."""
    world = GraphWorld({"cache.max_bytes": 200_000})
    for number in range(300):
        world.catalog.add_table(f"many.t{number}", SCHEMA)
        await world.graph.table(f"mem.many.t{number}")
    assert world.layers.budget.weight <= 200_000


async def test_ids_are_stable_over_processes() -> None:
    """Two graphs give one table the same id, so that ids may be stored."""
    world = GraphWorld()
    other = GraphWorld()
    other.catalog = world.catalog.seen_with("")
    again = other.of_account("default", other.catalog)
    assert await again.resolve_name(NAME) == await world.graph.resolve_name(NAME)
    number = await world.graph.resolve_name(NAME)
    assert ResourceId.parse(str(number)) == number
    assert replace(await world.graph.table(NAME), hints={}).id == number


async def test_a_loader_that_hangs_is_given_up_at_the_deadline() -> None:
    """A catalog that never answers costs its callers the deadline, and no slot for ever (doris#64705)."""
    world = GraphWorld({"catalog.load_deadline_s": 0.05, "catalog.load_concurrency": 1})
    held = world.catalog.hold("pointer", "sales.orders")
    hangs = asyncio.create_task(world.graph.table(NAME))
    await held.arrived()
    with pytest.raises(UnavailableError) as late:
        await hangs
    assert late.value.kind == "timeout"
    assert (await world.graph.table("mem.sales.bills")).display == "mem.sales.bills"
    held.release()
    assert (await world.graph.table(NAME)).display == NAME


async def test_a_refresh_does_not_wait_for_a_slow_load() -> None:
    """Who refreshes while a load hangs is done at once, and the next look begins anew (doris#64705)."""
    world = GraphWorld()
    held = world.catalog.hold("pointer")
    slow = asyncio.create_task(world.graph.table(NAME))
    await held.arrived()
    world.layers.account().drop("mem")
    world.catalog.commit("sales.orders")
    fresh = asyncio.create_task(world.graph.table(NAME))
    await asyncio.sleep(0)
    held.release()
    assert (await fresh).current_snapshot == 1
    await slow
    assert (await world.graph.table(NAME)).current_snapshot == 1


async def test_a_losing_populate_does_not_extend_what_is_there() -> None:
    """A look that lost to a newer one neither overwrites it nor makes it live longer."""
    world = GraphWorld()
    node = await world.graph.table(NAME)
    await world.clock.advance(2.1)
    held = world.catalog.hold("pointer")
    loser = asyncio.create_task(world.graph.resolve(node.id))
    await held.arrived()
    world.catalog.commit("sales.orders")
    winner = asyncio.create_task(world.graph.resolve(node.id, max_staleness=0))
    await asyncio.sleep(0)
    held.release()
    await asyncio.gather(loser, winner)
    await world.clock.advance(1.9)
    kept = await world.graph.resolve(node.id)
    assert isinstance(kept, TableNode)
    assert kept.current_snapshot == 1
    world.catalog.clear()
    await world.clock.advance(0.2)
    await world.graph.resolve(node.id)
    assert world.catalog.counts() == {"pointer": 1}
