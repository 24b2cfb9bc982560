"""Pin sets: one state of each table in a query, decided by the first touch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lakehouse.catalog.nodes import TableNode
from lakehouse.catalog.pins import PinKind, PinSet, SnapshotPin, snapshot_pin
from lakehouse.errors import InvalidInputError, NotFoundError, UnavailableError
from tests.kit.pinned_nodes import NodesInMemory


@pytest.fixture
def graph() -> NodesInMemory:
    """Tables of several snapshots, an empty one, and views over them."""
    graph = NodesInMemory()
    graph.table("db.orders", (0, 100), (7, 200), (9, 300))
    graph.table("db.items", (4, 150), (5, 250))
    graph.table("db.empty")
    graph.view("db.sold", "db.orders", "db.items")
    graph.view("db.report", "db.sold", "db.orders")
    return graph


@pytest.mark.parametrize(
    ("asked", "kind", "wanted"),
    [
        ({"snapshot": 7, "as_of": 100, "as_of_default": 300}, PinKind.SNAPSHOT_ID, 7),
        ({"as_of": 100, "as_of_default": 300}, PinKind.AS_OF, 0),
        ({"as_of_default": 250}, PinKind.AS_OF, 7),
        ({}, PinKind.CURRENT, 9),
    ],
)
async def test_the_id_wins_then_the_moment_then_the_default(
    graph: NodesInMemory, asked: dict[str, Any], kind: PinKind, wanted: int
) -> None:
    """The id decides, then the moment, then the default, then what is newest."""
    pin = await snapshot_pin(graph, "db.orders", **asked)
    assert (pin.kind, pin.snapshot) == (kind, wanted)


async def test_snapshot_zero_is_a_real_snapshot_id(graph: NodesInMemory) -> None:
    """An explicit snapshot 0 is read as that one, not as the newest."""
    pin = await snapshot_pin(graph, "db.orders", snapshot=0)
    assert pin.snapshot == 0
    pins = PinSet(graph)
    await pins.pin("db.orders", snapshot=0)
    with pytest.raises(InvalidInputError, match="snapshot 0"):
        await pins.pin("db.orders", snapshot=7)


async def test_an_as_of_resolves_to_the_predecessor(graph: NodesInMemory) -> None:
    """A moment between two snapshots means the older one, by its id."""
    pin = await snapshot_pin(graph, "db.orders", as_of=299)
    assert (pin.snapshot, pin.as_of_ms, pin.schema_id) == (7, 299, 1)


async def test_an_as_of_is_resolved_once(graph: NodesInMemory) -> None:
    """A moment that was resolved stays that snapshot, whatever is committed, and costs nothing again."""
    pins = PinSet(graph)
    first = await pins.pin("db.orders", as_of=1000)
    graph.commit("db.orders", 11, 500)
    graph.asked.clear()
    assert await pins.pin("db.orders", as_of=1000) is first
    assert graph.asked == []


async def test_a_table_without_snapshots_is_pinned_as_empty(graph: NodesInMemory) -> None:
    """A table without snapshots has a pin without an id; rows that come later are not seen."""
    pins = PinSet(graph)
    assert (await pins.pin("db.empty")).snapshot is None
    graph.commit("db.empty", 1, 10)
    assert (await pins.pin("db.empty")).snapshot is None


@pytest.mark.parametrize("wanted", [{"as_of": 50}, {}])
async def test_an_empty_table_as_of_a_moment_is_empty(graph: NodesInMemory, wanted: dict[str, Any]) -> None:
    """A table that has no snapshot now had none at any moment."""
    assert (await snapshot_pin(graph, "db.empty", **wanted)).snapshot is None
    with pytest.raises(NotFoundError):
        await snapshot_pin(graph, "db.empty", snapshot=1)


async def test_first_touch_wins_and_current_asked_later_reuses_the_pin(graph: NodesInMemory) -> None:
    """Whoever asks for no snapshot gets the one that the query has."""
    pins = PinSet(graph)
    first = await pins.pin("db.orders", snapshot=7)
    assert await pins.pin("db.orders") is first
    assert pins.pins == (first,)


async def test_a_pinned_snapshot_survives_the_current_pointer_advancing(graph: NodesInMemory) -> None:
    """A commit of somebody else moves no pin, and nothing is asked again."""
    pins = PinSet(graph)
    first = await pins.pin("db.orders")
    graph.commit("db.orders", 11, 500)
    graph.asked.clear()
    assert await pins.pin("db.orders") is first
    assert first.snapshot == 9
    assert graph.asked == []


async def test_conflicting_explicit_snapshots_for_same_table_fail(graph: NodesInMemory) -> None:
    """Two ids for one table in a query are an error that names both."""
    pins = PinSet(graph)
    await pins.pin("db.orders", snapshot=7)
    with pytest.raises(InvalidInputError, match=r"db\.orders at snapshot 7, .* for snapshot 9") as caught:
        await pins.pin("db.orders", snapshot=9)
    assert caught.value.kind == "pin-conflict"


async def test_an_as_of_that_resolves_elsewhere_conflicts(graph: NodesInMemory) -> None:
    """A moment that means another snapshot than the pinned one is an error that names both."""
    pins = PinSet(graph)
    await pins.pin("db.orders")
    with pytest.raises(InvalidInputError, match=r"at snapshot 9, .* for snapshot 7 \(as of 1970-01-01"):
        await pins.pin("db.orders", as_of=250)


async def test_asof_and_explicit_resolving_to_same_snapshot_are_compatible(graph: NodesInMemory) -> None:
    """A moment and an id that mean one snapshot agree, whichever comes first."""
    pins = PinSet(graph)
    first = await pins.pin("db.orders", as_of=250)
    assert await pins.pin("db.orders", snapshot=7) is first
    other = PinSet(graph)
    second = await other.pin("db.orders", snapshot=7)
    assert await other.pin("db.orders", as_of=250) is second


async def test_same_snapshot_different_table_version_stays_compatible(graph: NodesInMemory) -> None:
    """A newer version of the table does not make the pinned snapshot another one."""
    pins = PinSet(graph)
    first = await pins.pin("db.orders", snapshot=7)
    graph.commit("db.orders", 11, 500, version="v9")
    assert await pins.pin("db.orders", as_of=250) is first


def _pin(graph: NodesInMemory, **more: object) -> SnapshotPin:
    node = graph.nodes["db.orders"]
    values = {"kind": PinKind.SNAPSHOT_ID, "snapshot": 7, "version": "v", "schema_id": 0} | more
    return SnapshotPin(table=node.id, name=node.display, **values)  # type: ignore[arg-type]


def test_an_uncaptured_version_cannot_prove_a_conflict(graph: NodesInMemory) -> None:
    """Two pins of one snapshot differ only if both say what made it, and say different things."""
    known, unknown = _pin(graph, token="a"), _pin(graph)
    assert known.is_same_read(unknown)
    assert unknown.is_same_read(known)
    assert not known.is_same_read(_pin(graph, token="b"))
    assert not known.is_same_read(_pin(graph, token="a", snapshot=9))


async def test_view_with_asof_override_applies_to_base_pins(graph: NodesInMemory) -> None:
    """A moment that a view is asked for goes for every table that it reads."""
    pins = await PinSet(graph).pin_all("db.sold", as_of=200)
    assert [(pin.name, pin.snapshot) for pin in pins] == [("db.orders", 7), ("db.items", 4)]


async def test_view_with_snapshot_override_is_invalid(graph: NodesInMemory) -> None:
    """A view has no snapshots: an id for it is an error that says what to ask for."""
    with pytest.raises(InvalidInputError, match=r"view and has no snapshot 7: .*as_of="):
        await PinSet(graph).pin_all("db.sold", snapshot=7)
    with pytest.raises(InvalidInputError, match="only tables have snapshots"):
        await snapshot_pin(graph, "db.sold")


async def test_nested_view_pins_table_once(graph: NodesInMemory) -> None:
    """A table that views read by several ways has one pin, and is looked up once."""
    pins = PinSet(graph)
    found = await pins.pin_all("db.report", as_of=200)
    assert [pin.name for pin in found] == ["db.orders", "db.items"]
    assert pins.pins == found
    assert graph.asked.count("db.orders@200") == 1


async def test_several_tables_are_pinned_to_one_instant(graph: NodesInMemory) -> None:
    """The query's moment goes for each table that nothing else is asked for."""
    pins = PinSet(graph, as_of=200)
    assert [(await pins.pin(name)).snapshot for name in ("db.orders", "db.items")] == [7, 4]
    assert pins.as_of_ms == 200


async def test_the_default_moment_gives_way_to_a_pin(graph: NodesInMemory) -> None:
    """The query's moment is nobody's wish for a table that is pinned already."""
    pins = PinSet(graph, as_of=200)
    first = await pins.pin("db.orders", snapshot=9)
    assert await pins.pin("db.orders") is first


async def test_a_view_that_reads_itself_is_refused(graph: NodesInMemory) -> None:
    """A circle of views is an error with the way around."""
    graph.view("db.a", "db.b")
    graph.view("db.b", "db.a")
    with pytest.raises(InvalidInputError, match=r"db\.a reads itself: db\.a → db\.b → db\.a"):
        await PinSet(graph).pin_all("db.a")


async def test_a_missing_table_of_a_view_is_told_with_the_view(graph: NodesInMemory) -> None:
    """An error about a base table names the view that reads it."""
    graph.view("db.broken", "db.gone")
    with pytest.raises(NotFoundError) as caught:
        await PinSet(graph).pin_all("db.broken")
    assert "the view db.broken reads db.gone" in caught.value.__notes__


async def test_a_name_stays_the_table_that_the_query_met(graph: NodesInMemory) -> None:
    """A table that is dropped and made again while a query runs is not read in place of the first."""
    pins = PinSet(graph)
    first = await pins.pin("db.orders")
    graph.table("db.orders", (1, 900))
    assert await pins.pin("db.orders") is first


async def test_touches_at_once_make_one_pin(graph: NodesInMemory) -> None:
    """Tasks that touch a table together share one pin, which is held once."""
    held: list[SnapshotPin] = []

    async def hold(_: TableNode, pin: SnapshotPin) -> None:
        await asyncio.sleep(0)
        held.append(pin)

    pins = PinSet(graph, hold=hold)
    found = await asyncio.gather(*(pins.pin("db.orders") for _ in range(20)))
    assert len({id(pin) for pin in found}) == 1
    assert held == [found[0]]


async def test_a_pin_that_cannot_be_held_is_not_made(graph: NodesInMemory) -> None:
    """Nobody gets a pin before it is held, and the next touch tries again."""
    wants = [UnavailableError("away")]

    async def hold(_: TableNode, __: SnapshotPin) -> None:
        if wants:
            raise wants.pop()

    pins = PinSet(graph, hold=hold)
    with pytest.raises(UnavailableError):
        await pins.pin("db.orders")
    assert pins.pins == ()
    assert (await pins.pin("db.orders")).snapshot == 9


@pytest.mark.parametrize("bad", ["7", True, 7.0])
async def test_a_snapshot_is_named_by_a_number(graph: NodesInMemory, bad: object) -> None:
    """Anything but a whole number is refused as the id of a snapshot."""
    with pytest.raises(InvalidInputError, match="whole number"):
        await PinSet(graph).pin("db.orders", snapshot=bad)  # type: ignore[arg-type]
