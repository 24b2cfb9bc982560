"""Many names at once: each with its own fate, in pages that lose and repeat nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.catalog.graph import NameRef, Resolution, ResolutionStatus, bulk
from lakehouse.catalog.graph.page_tokens import page_token
from lakehouse.errors import CorruptionError, InvalidInputError, NotFoundError, UnavailableError
from tests.kit.graphs import SCHEMA, GraphWorld

FOUND, NOT_FOUND, ERROR = ResolutionStatus.FOUND, ResolutionStatus.NOT_FOUND, ResolutionStatus.ERROR


def _many(count: int) -> GraphWorld:
    world = GraphWorld()
    for number in range(count):
        world.catalog.add_table(f"many.t{number:04}", SCHEMA)
    world.catalog.clear()
    return world


async def _pages(world: GraphWorld, limit: int) -> list[Resolution]:
    items, token = list[Resolution](), None
    while True:
        page = await world.graph.resolve_tables(prefix="mem.many", limit=limit, page_token=token)
        items += page.items
        token = page.next_token
        if token is None:
            return items


async def test_a_list_keeps_its_order_and_each_name_its_fate() -> None:
    """Found, missing, broken and unclear names stand side by side in the order asked for."""
    world = GraphWorld()
    world.catalog.break_relation("sales.bills")
    orders = await world.graph.resolve_name("mem.sales.orders")
    page = await world.graph.resolve_tables(
        ["mem.sales.none", "mem.sales.bills", "mem.sales.orders", "a..b", orders, NameRef("x.y.z", orders)]
    )
    assert [item.status for item in page.items] == [NOT_FOUND, ERROR, FOUND, ERROR, FOUND, FOUND]
    assert [item.index for item in page.items] == list(range(6))
    assert isinstance(page.items[1].error, CorruptionError)
    assert page.items[2].name == "mem.sales.orders"
    assert {page.items[at].id for at in (2, 4, 5)} == {orders}
    assert (page.next_token, page.total) == (None, 6)


async def test_a_list_of_thousands_with_one_broken_table_costs_one_error() -> None:
    """One table that fails takes no other with it."""
    world = _many(2_000)
    world.catalog.break_relation("many.t0777")
    names = [f"mem.many.t{number:04}" for number in range(2_000)]
    page = await world.graph.resolve_tables(names)
    broken = [item.name for item in page.items if item.status is not FOUND]
    assert broken == ["mem.many.t0777"]


async def test_a_list_is_cut_into_pages() -> None:
    """Pages of a list follow one another, and a token of another list is refused."""
    world = _many(5)
    names = [f"mem.many.t{number:04}" for number in range(5)]
    first = await world.graph.resolve_tables(names, limit=2)
    second = await world.graph.resolve_tables(names, limit=2, page_token=first.next_token)
    assert [item.index for item in (*first.items, *second.items)] == [0, 1, 2, 3]
    with pytest.raises(InvalidInputError, match="page token"):
        await world.graph.resolve_tables(names[:4], limit=2, page_token=first.next_token)


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 1000])
async def test_pages_of_a_namespace_come_in_name_order(limit: int) -> None:
    """Whatever the size of a page, every table is there once and in order, with its id."""
    world = _many(10)
    items = await _pages(world, limit)
    assert [item.name for item in items] == [f"mem.many.t{number:04}" for number in range(10)]
    assert len({item.id for item in items}) == 10


async def test_listing_names_loads_no_table() -> None:
    """Pages with ids cost a pointer for each name and no content."""
    world = _many(20)
    await _pages(world, 5)
    assert world.catalog.counts() == {"page": 4, "pointer": 20}
    world.catalog.clear()
    await _pages(world, 5)
    assert world.catalog.counts() == {}


async def test_views_and_tables_are_listed_apart() -> None:
    """A listing of one kind shows nothing of the other, and counts what it shows."""
    world = GraphWorld()
    tables = await world.graph.resolve_tables(prefix="mem.sales", count=True)
    views = await world.graph.resolve_views(prefix="mem.sales", count=True)
    assert [item.path[-1] for item in tables.items] == ["bills", "orders"]
    assert [item.path[-1] for item in views.items] == ["large"]
    assert (tables.total, views.total) == (2, 1)
    begun = await world.graph.resolve_tables(prefix="mem.sales", begins="or")
    assert [item.path[-1] for item in begun.items] == ["orders"]


async def test_a_name_that_went_since_it_was_listed_is_left_out() -> None:
    """A kept listing proves no existence: what its pointer does not find is not shown."""
    world = _many(3)
    await _pages(world, 10)
    world.catalog.drop("many.t0001")
    await world.clock.advance(3)
    assert [item.path[-1] for item in await _pages(world, 10)] == ["t0000", "t0002"]


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.integers(0, 30), max_size=20),
    st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=8),
    st.integers(1, 6),
)
async def test_pages_survive_inserts_and_drops(
    there: set[int], changes: list[tuple[bool, int]], limit: int
) -> None:
    """A table that was there all the time is listed once, whatever comes and goes between two pages."""
    world = GraphWorld()
    world.catalog.add_namespace("many")
    for number in there:
        world.catalog.add_table(f"many.t{number:02}", SCHEMA)
    now, always, token, seen = set(there), set(there), None, list[str]()
    while True:
        page = await world.graph.resolve_tables(prefix="mem.many", limit=limit, page_token=token)
        seen += [item.path[-1] for item in page.items]
        token = page.next_token
        if token is None:
            break
        if changes:
            is_made, number = changes.pop()
            name = f"many.t{number:02}"
            if is_made and number not in now:
                world.catalog.add_table(name, SCHEMA)
                now.add(number)
            elif not is_made and number in now:
                world.catalog.drop(name)
                now.discard(number)
                always.discard(number)
            await world.clock.advance(100)
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen)
    assert {f"t{number:02}" for number in always} <= set(seen)


@pytest.mark.parametrize("token", ["", "x", "ä", "AAAA", "A" * 100, "=" * 5, "A" * 20_000, 7])
async def test_malformed_tokens_are_refused(token: str) -> None:
    """A token that no listing gave out is an InvalidInputError, never a listing of something else."""
    world = _many(3)
    with pytest.raises(InvalidInputError, match="page token"):
        await world.graph.resolve_tables(prefix="mem.many", limit=1, page_token=token)


async def test_tokens_of_other_listings_accounts_and_kinds_are_refused() -> None:
    """A token goes on with the listing that gave it out and with no other."""
    world = _many(3)
    world.catalog.add_table("more.t", SCHEMA)
    token = (await world.graph.resolve_tables(prefix="mem.many", limit=1)).next_token
    other = world.of_account("other")
    for graph, prefix, begins in (
        (world.graph, "mem.more", ""),
        (world.graph, "mem.many", "t"),
        (other, "mem.many", ""),
    ):
        with pytest.raises(InvalidInputError, match="page token"):
            await graph.resolve_tables(prefix=prefix, begins=begins, page_token=token)
    with pytest.raises(InvalidInputError, match="page token"):
        await world.graph.resolve_views(prefix="mem.many", page_token=token)


async def test_a_listing_that_breaks_off_keeps_the_pages_before() -> None:
    """Pages given out stay good; the one that fails is an error, and its token works later."""
    world = _many(6)
    world.catalog.cut_listing("many", after="t0002")
    page = await world.graph.resolve_tables(prefix="mem.many", limit=3)
    assert len(page.items) == 3
    with pytest.raises(UnavailableError):
        await world.graph.resolve_tables(prefix="mem.many", limit=3, page_token=page.next_token)
    world.catalog.mend()
    rest = await world.graph.resolve_tables(prefix="mem.many", limit=3, page_token=page.next_token)
    assert [item.path[-1] for item in rest.items] == ["t0003", "t0004", "t0005"]


async def test_what_is_asked_for_has_to_be_clear() -> None:
    """A list and a prefix together, neither, or a limit out of bounds are refused."""
    world = _many(1)
    for arguments in ({}, {"names": ["a.b"], "prefix": "mem.many"}):
        with pytest.raises(InvalidInputError, match="one of them only"):
            await world.graph.resolve_tables(**arguments)  # type: ignore[arg-type]
    for limit in (0, -1, 10_001):
        with pytest.raises(InvalidInputError, match="limit"):
            await world.graph.resolve_tables(prefix="mem.many", limit=limit)
    with pytest.raises(InvalidInputError, match="names is a list"):
        await world.graph.resolve_tables("mem.many.t0000")
    with pytest.raises(NotFoundError):
        await world.graph.resolve_tables(prefix="mem.none")


@pytest.mark.parametrize("after", ["", "s", "x=1", "7", "-1", "٣", "9" * 5000, "\udc80"])
async def test_a_made_up_token_is_another_place_or_refused(after: str) -> None:
    """Who makes up a token, digest and all, is refused or gets names that he may list anyway."""
    world, names = _many(3), ["mem.many.t0000", "mem.many.t0001"]
    listing = page_token(("prefix", "default", "table", "mem", "many", "", ""), after)
    with pytest.raises(InvalidInputError, match="page token"):
        await world.graph.resolve_tables(prefix="mem.many", page_token=listing)
    place = page_token(("list", "default", "table", bulk._digest(names)), after)
    with pytest.raises(InvalidInputError, match="page token"):
        await world.graph.resolve_tables(names, page_token=place)
