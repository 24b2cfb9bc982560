"""Dependencies of views: trees, circles, what is missing, and the impact of a change."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import ViewNode
from lakehouse.errors import InvalidInputError, LakehouseError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.testing import RecordingStore
from tests.kit.worlds import StepIn, process, restored

SCHEMA = pa.schema({"id": pa.int64()})


async def made() -> tuple[ObjectStore, Lake]:
    """Two tables; bottom reads both, middle and side read bottom, top reads middle and side."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    for name in ("db.t", "db.u"):
        await lake.create_table(name, SCHEMA)
    await view(lake, "bottom", "db.t", "db.u")
    await view(lake, "middle", "db.bottom")
    await view(lake, "side", "db.bottom", "db.t")
    await view(lake, "top", "db.middle", "db.side")
    return store, lake


async def view(lake: Lake, name: str, *reads: str) -> None:
    """Makes a view, or replaces it."""
    await lake.create_view(f"db.{name}", {"spark": f"reads {reads}"}, depends_on=reads, or_replace=True)


async def test_a_tree_has_everything_a_view_reads() -> None:
    """Nested views lead to their tables; each relation is there once, the nearest first."""
    _, lake = await made()
    found = await lake.view_dependencies("db.top")
    assert list(found.relations) == ["db.top", "db.middle", "db.side", "db.bottom", "db.t", "db.u"]
    assert found.base_tables == ("db.t", "db.u")
    assert found.relations["db.t"].kind is NodeKind.TABLE
    assert (found.missing, found.cycles) == ((), ())
    assert str(found).splitlines() == [
        "db.top",
        "  db.middle",
        "    db.bottom",
        "      db.t",
        "      db.u",
        "  db.side",
        "    db.bottom  (see above)",
        "    db.t",
    ]


async def test_a_tree_reads_each_relation_once() -> None:
    """However many ways lead to a relation, its pointer is read at most twice, views' to be resolved."""
    store, _ = await made()
    recording = RecordingStore(store)
    await process(recording).view_dependencies("db.top")
    keys = [call.key for call in recording.calls]
    assert {keys.count(f"db/_tables/{name}") for name in ("t", "u")} == {1}
    assert len(keys) == 9


async def test_missing_base_relations_are_reported_and_not_fatal() -> None:
    """What is dropped, never was, or cannot be a name is listed with the reason; the others are there."""
    _, lake = await made()
    await lake.drop_table("db.u")
    await view(lake, "wide", "db.bottom", "nowhere.t", "db.we ird", "cat.ns.t")
    found = await lake.view_dependencies("db.wide")
    assert found.missing == ("nowhere.t", "db.we ird", "db.u")
    assert "was dropped" in str(found.relations["db.u"].problem)
    assert found.base_tables == ("cat.ns.t", "db.t")
    assert found.relations["cat.ns.t"].kind is None
    with pytest.raises(NotFoundError):
        await lake.view_dependencies("db.never")
    with pytest.raises(InvalidInputError, match="is a table"):
        await lake.view_dependencies("db.t")


@pytest.mark.parametrize("reads", ["db.top", "db.bottom"])
async def test_a_replace_that_would_make_a_circle_is_refused(reads: str) -> None:
    """A view that would read itself, directly or through others, stays as it was, and the way is named."""
    _, lake = await made()
    with pytest.raises(InvalidInputError, match=r"db.bottom reads .*db.bottom|db.bottom reads db.bottom"):
        await view(lake, "bottom", "db.t", reads)
    assert (await lake.view("db.bottom")).version == 1


async def test_a_view_made_after_those_that_read_it_makes_no_circle() -> None:
    """A missing relation that others name already is refused where it would close a circle."""
    _, lake = await made()
    await view(lake, "first", "db.later")
    with pytest.raises(InvalidInputError, match=r"db\.later reads db\.first reads db\.later"):
        await view(lake, "later", "db.first")
    await view(lake, "later", "db.top")
    assert "db.t" in (await lake.view_dependencies("db.first")).base_tables


async def test_a_circle_made_by_two_at_once_is_told_and_ends() -> None:
    """Two views replaced at one moment may read each other: trees and impact end, and the circle is named."""
    store, lake = await made()
    hooked = StepIn(store)

    async def other() -> None:
        await view(lake, "side", "db.middle")

    hooked.before(0, "db/_tables/middle", other, verb="put_if_match")
    await view(process(hooked), "middle", "db.side")
    found = await lake.view_dependencies("db.top")
    assert found.cycles == (("db.middle", "db.side"),)
    assert "(see above)" in str(found)
    assert (await lake.impact("db.side")).views == ("db.middle", "db.top")


async def test_impact_has_every_view_that_reads_a_relation() -> None:
    """Views that read it themselves and views that read it through others are apart, nearest first."""
    _, lake = await made()
    await lake.create_database("other")
    await lake.create_view("other.far", {"spark": "x"}, depends_on=["db.top"])
    found = await lake.impact("db.u")
    assert found.direct == ("db.bottom",)
    assert set(found.indirect[:2]) == {"db.middle", "db.side"}
    assert found.indirect[2:] == ("db.top", "other.far")
    assert (await lake.impact("db.t")).direct == ("db.bottom", "db.side")
    assert (await lake.impact("cat.ns.t")).views == ()


async def test_the_node_of_a_table_names_the_views_that_read_it() -> None:
    """Dependent views are ids that the graph resolves, nearest first; of a renamed view the id stays."""
    store, lake = await made()
    node = await lake.table_node("db.u")
    other = process(store)  # which has met none of them
    views = [await other.graph.resolve(number) for number in node.dependent_views]
    assert [one.display for one in views if isinstance(one, ViewNode)] == [
        *("db.bottom", "db.middle", "db.side", "db.top"),
    ]
    assert (await lake.graph.table("db.u")).dependent_views == ()
    await lake.rename_view("db.top", "db.summit")
    assert (await lake.table_node("db.u")).dependent_views == node.dependent_views


async def test_an_account_sees_no_views_of_databases_that_it_may_not_see() -> None:
    """Listings, impact and dependencies leave hidden databases out, and nobody makes views there."""
    _, root = await made()
    await root.create_database("secret")
    await root.create_view("secret.v", {"spark": "x"}, depends_on=["db.t"])
    await view(root, "wide", "secret.v")
    lake = root.for_account("ann", include=["db"])
    assert "secret.v" not in (await lake.impact("db.t")).views
    assert "secret.v" in (await root.impact("db.t")).views
    assert (await lake.view_dependencies("db.wide")).missing == ("secret.v",)
    with pytest.raises(NotFoundError):
        await lake.view("secret.v")
    for call in (lake.create_view("secret.w", {"spark": "x"}), lake.rename_view("db.wide", "secret.w")):
        with pytest.raises(LakehouseError):
            await call
    assert [name async for name in root.views("secret")] == ["secret.v"]
    assert (await lake.view("db.wide")).version == 1


async def test_impact_names_views_whose_dependencies_are_not_known() -> None:
    """A view that might read the relation, or is damaged, is no reader and not passed over either."""
    store, lake = await made()
    await lake.create_view("db.opaque", {"trino": "select 1"})
    await lake.create_view("db.dropped", {"trino": "select 1"})
    await lake.drop_view("db.dropped")
    await store.put("db/_tables/side", b"nothing")
    found = await lake.impact("db.t")
    assert found.unknown == ("db.opaque", "db.side")
    assert found.views == ("db.bottom", "db.middle", "db.top")


async def test_a_diamond_of_many_levels_is_quick() -> None:
    """A tree in which the number of ways doubles at each level is read and drawn once for each view."""
    _, lake = await made()
    await view(lake, "l0", "db.t")
    for level in range(1, 25):
        await view(lake, f"l{level}", f"db.l{level - 1}")
        await view(lake, f"r{level}", f"db.l{level - 1}", f"db.l{level}")
    await view(lake, "end", *(f"db.{side}{level}" for level in range(1, 25) for side in "lr"))
    found = await lake.view_dependencies("db.end")
    assert len(found.relations) == 51
    assert len(str(found).splitlines()) < 200
