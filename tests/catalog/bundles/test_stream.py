"""Bundles: one stream of resolutions for a planner, pinned before they are sent."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from lakehouse.catalog.bundles import (
    BundleChunk,
    BundleEnd,
    BundleHeader,
    Candidate,
    FailureCode,
    RelationInfo,
    RelationRequest,
    RelationResolution,
    RelationStatus,
    Resolutions,
    UserObjectsRequest,
    user_objects,
)
from lakehouse.catalog.engines import EngineKey
from lakehouse.catalog.hints import EngineHintManager
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import EngineHint, Node, TableNode
from lakehouse.catalog.pins import Queries, Query
from lakehouse.config import CatalogSettings
from lakehouse.errors import (
    CorruptionError,
    InvalidInputError,
    LakehouseError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.testing import ManualClock, memory_store
from tests.kit.pinned_nodes import NodesInMemory


@pytest.fixture
def graph() -> NodesInMemory:
    """Two tables and two views over them."""
    graph = NodesInMemory()
    graph.table("db.orders", (1, 100), (2, 200), columns=("id", "amount", "at"))
    graph.table("db.items", (5, 100))
    graph.view("db.sold", "db.orders", "db.items")
    graph.view("db.report", "db.sold")
    return graph


@contextlib.asynccontextmanager
async def _query(graph: NodesInMemory, **how: Any) -> AsyncIterator[Query]:
    clock = ManualClock()
    queries = Queries(graph, memory_store(), clock=clock, now_ms=clock.now_ms, settings=CatalogSettings())
    async with queries.begin(**how) as query:
        yield query


async def _chunks(
    graph: NodesInMemory, relations: Iterable[Any], *, chunk_max: int = 25, hints: Any = None, **asked: Any
) -> list[BundleChunk]:
    request = UserObjectsRequest.of(relations, **asked)
    async with _query(graph) as query:
        return [chunk async for chunk in user_objects(query, request, hints=hints, chunk_max=chunk_max)]


def _items(chunks: Iterable[BundleChunk]) -> list[RelationResolution]:
    return [item for chunk in chunks if isinstance(chunk.part, Resolutions) for item in chunk.part.items]


def _names(items: Iterable[RelationResolution]) -> list[str]:
    return [item.relation.name for item in items if item.relation is not None]


async def _one(graph: NodesInMemory, relation: Any, **asked: Any) -> RelationInfo:
    (item, *_) = _items(await _chunks(graph, [relation], **asked))
    assert item.relation is not None, item.failure
    return item.relation


# --- order and chunks ---------------------------------------------------------------------


async def test_a_stream_has_a_header_resolutions_and_an_end(graph: NodesInMemory) -> None:
    """Chunks are numbered without gaps, of one query, and end with counts."""
    chunks = await _chunks(graph, ["db.orders", "db.none", "db.items"])
    assert [type(chunk.part) for chunk in chunks] == [BundleHeader, Resolutions, BundleEnd]
    assert [chunk.number for chunk in chunks] == [0, 1, 2]
    assert len({chunk.query for chunk in chunks}) == 1
    assert chunks[-1].part == BundleEnd(
        relations=3, found=2, not_found=1, errors=0, pushed=0, identity_only=0
    )


async def test_error_and_not_found_ordering_unchanged(graph: NodesInMemory) -> None:
    """Resolutions are in the order of the request, whatever became of each."""
    graph.table("db.broken", (1, 1))
    graph.broken["db.broken"] = CorruptionError("damaged", key="k")
    chunks = await _chunks(graph, ["db.none", "db.orders", "db.broken", "db.items"])
    assert [(item.index, item.status.value) for item in _items(chunks)] == [
        (0, "not_found"),
        (1, "found"),
        (2, "error"),
        (3, "found"),
    ]


async def test_chunks_hold_no_more_than_the_maximum() -> None:
    """Sixty relations come in chunks of at most 25, in order."""
    graph = NodesInMemory()
    names = [f"db.t{number:02}" for number in range(60)]
    for name in names:
        graph.table(name, (1, 1))
    chunks = await _chunks(graph, names)
    parts = [chunk.part for chunk in chunks if isinstance(chunk.part, Resolutions)]
    assert [len(part.items) for part in parts] == [25, 25, 10]
    assert _names(_items(chunks)) == names


async def test_an_empty_request_is_a_header_and_an_end(graph: NodesInMemory) -> None:
    """Nothing asked for is nothing resolved."""
    assert [type(chunk.part) for chunk in await _chunks(graph, [])] == [BundleHeader, BundleEnd]


async def test_every_chunk_is_json(graph: NodesInMemory) -> None:
    """What a chunk says goes through JSON and back."""
    for chunk in await _chunks(graph, ["db.report", "db.none", "db.orders"]):
        said = chunk.as_dict()
        assert json.loads(json.dumps(said)) == said


# --- pins ---------------------------------------------------------------------------------


async def test_pins_are_taken_before_a_chunk_leaves(graph: NodesInMemory) -> None:
    """When a relation arrives its snapshot is pinned, and base tables of a view too."""
    async with _query(graph) as query:
        async for chunk in user_objects(query, UserObjectsRequest.of(["db.sold"]), chunk_max=1):
            if isinstance(chunk.part, Resolutions):
                assert [pin.name for pin in query.pins] == ["db.orders", "db.items"]
        assert len(query.pins) == 2


async def test_a_bundle_shows_what_the_query_has_pinned(graph: NodesInMemory) -> None:
    """Columns and pin are those of the query's snapshot, not of the newest."""
    async with _query(graph) as query:
        await query.pin("db.orders")
        graph.columns("db.orders", "id")
        graph.commit("db.orders", 3, 300)
        (item,) = _items([chunk async for chunk in user_objects(query, UserObjectsRequest.of(["db.orders"]))])
        assert item.relation is not None
        assert item.relation.pin is not None
        assert item.relation.pin.snapshot == 2
        assert [column.name for column in item.relation.columns] == ["id", "amount", "at"]


async def test_same_table_with_different_snapshot_overrides_produces_distinct_items(
    graph: NodesInMemory,
) -> None:
    """Each mention of a table has an item of its own; one that conflicts with the first says so."""
    asked = [
        RelationRequest(candidates=(Candidate(ref="db.orders", snapshot=number),)) for number in (1, 1, 2)
    ]
    first, same, other = _items(await _chunks(graph, asked))
    assert first.relation is not None
    assert same.relation is not None
    assert first.relation.pin == same.relation.pin
    assert other.status is RelationStatus.ERROR
    assert other.failure is not None
    assert other.failure.details == {"kind": "pin-conflict"}
    assert "snapshot 1" in other.failure.message
    assert "snapshot 2" in other.failure.message


async def test_a_view_with_a_snapshot_is_an_error_of_its_own(graph: NodesInMemory) -> None:
    """An id for a view fails that item only; a moment goes for the tables below."""
    by_id = Candidate(ref="db.sold", snapshot=1)
    (item,) = _items(await _chunks(graph, [by_id]))
    assert item.status is RelationStatus.ERROR
    chunks = await _chunks(graph, [Candidate(ref="db.sold", as_of=150)])
    pins = {item.relation.name: item.relation.pin for item in _items(chunks) if item.relation}
    assert pins["db.sold"] is None
    orders = pins["db.orders"]
    assert orders is not None
    assert orders.snapshot == 1


# --- views --------------------------------------------------------------------------------


async def test_a_view_has_its_definition_and_pushes_its_tables(graph: NodesInMemory) -> None:
    """A view comes with SQL, dialect and columns, and the tables below it follow without an index."""
    items = _items(await _chunks(graph, ["db.report"]))
    assert [(item.index, item.relation.name) for item in items if item.relation] == [
        (0, "db.report"),
        (None, "db.orders"),
        (None, "db.items"),
    ]
    view = items[0].relation
    assert view is not None
    assert view.view is not None
    assert (view.kind, view.view.sql, view.view.dialect) == (NodeKind.VIEW, "SELECT 1", "duckdb")


async def test_shared_base_table_emitted_once(graph: NodesInMemory) -> None:
    """A table below two views, or asked for already, is not pushed again."""
    chunks = await _chunks(graph, ["db.orders", "db.sold", "db.report"])
    assert _names(_items(chunks)) == ["db.orders", "db.sold", "db.report", "db.items"]
    end = chunks[-1].part
    assert isinstance(end, BundleEnd)
    assert end.pushed == 1


async def test_base_table_injection_bounded_by_chunk_max() -> None:
    """A view of many tables fills later chunks; none is larger than the maximum, none is lost or doubled."""
    graph = NodesInMemory()
    names = [f"db.t{number:02}" for number in range(23)]
    for name in names:
        graph.table(name, (1, 1))
    graph.table("db.last", (1, 1))
    graph.view("db.wide", *names)
    chunks = await _chunks(graph, ["db.wide", "db.last"], chunk_max=5)
    parts = [chunk.part.items for chunk in chunks if isinstance(chunk.part, Resolutions)]
    assert max(map(len, parts)) == 5
    assert sorted(_names(_items(chunks))) == sorted([*names, "db.wide", "db.last"])
    assert [item.index for item in _items(chunks) if item.index is not None] == [0, 1]
    assert len(parts) == 5


async def test_carried_tables_do_not_starve_what_was_asked() -> None:
    """While tables are carried, each chunk still has at least one relation that was asked for."""
    graph = NodesInMemory()
    for view in range(3):
        tables = [f"db.v{view}t{number}" for number in range(9)]
        for name in tables:
            graph.table(name, (1, 1))
        graph.view(f"db.v{view}", *tables)
    chunks = await _chunks(graph, ["db.v0", "db.v1", "db.v2"], chunk_max=2)
    parts = [chunk.part.items for chunk in chunks if isinstance(chunk.part, Resolutions)]
    assert all(any(item.index is not None for item in part) for part in parts[:2])
    assert len(_items(chunks)) == 30


async def test_a_view_whose_table_is_gone_is_not_found(graph: NodesInMemory) -> None:
    """A view over nothing cannot be planned, and says what is missing."""
    graph.view("db.hollow", "db.gone")
    (item,) = _items(await _chunks(graph, ["db.hollow"]))
    assert item.status is RelationStatus.NOT_FOUND
    assert item.failure is not None
    assert "db.gone" in item.failure.message


# --- failures -----------------------------------------------------------------------------


async def test_graph_node_missing_emits_error_without_dropping_stream(graph: NodesInMemory) -> None:
    """An id that leads nowhere fails its item, and all others arrive."""
    gone = graph.nodes["db.items"].id
    del graph.nodes["db.items"]
    first, second = _items(await _chunks(graph, [gone, "db.orders"]))
    assert first.status is RelationStatus.NOT_FOUND
    assert second.status is RelationStatus.FOUND


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermissionDeniedError("no"), FailureCode.PERMISSION_DENIED),
        (CorruptionError("damaged"), FailureCode.INTERNAL_ERROR),
        (UnavailableError("away"), FailureCode.INTERNAL_ERROR),
    ],
    ids=str,
)
async def test_an_error_has_a_code_and_its_kind(
    graph: NodesInMemory, error: LakehouseError, code: FailureCode
) -> None:
    """What went wrong with a relation is told by a code, its kind and its message."""
    graph.broken["db.orders"] = error
    (item,) = _items(await _chunks(graph, ["db.orders"]))
    assert item.failure is not None
    assert (item.failure.code, item.failure.details["kind"]) == (code, error.kind)
    assert item.failure.attempted == ("db.orders",)


async def test_the_first_candidate_that_is_there_wins(graph: NodesInMemory) -> None:
    """Several names for one reference are tried in order; those that are missing are passed over."""
    found = RelationRequest(
        candidates=(Candidate(ref="a.orders"), Candidate(ref="db.orders"), Candidate(ref="db.items"))
    )
    missing = RelationRequest(candidates=(Candidate(ref="a.x"), Candidate(ref="b.x")))
    first, second = _items(await _chunks(graph, [found, missing]))
    assert _names([first]) == ["db.orders"]
    assert second.status is RelationStatus.NOT_FOUND
    assert second.failure is not None
    assert second.failure.attempted == ("a.x", "b.x")


async def test_a_candidate_that_fails_is_not_passed_over(graph: NodesInMemory) -> None:
    """An error is told: the next candidate might be another table than the one meant."""
    graph.broken["db.orders"] = UnavailableError("away")
    asked = RelationRequest(candidates=(Candidate(ref="db.orders"), Candidate(ref="db.items")))
    (item,) = _items(await _chunks(graph, [asked]))
    assert item.status is RelationStatus.ERROR


async def test_the_end_of_the_query_ends_the_stream(graph: NodesInMemory) -> None:
    """A stream of a query that has ended is an error, not a list of failures."""
    async with _query(graph) as query:
        stream = user_objects(query, UserObjectsRequest.of(["db.orders"]))
        await anext(stream)
    with pytest.raises(InvalidInputError, match="has ended"):
        await anext(stream)


# --- columns ------------------------------------------------------------------------------


async def test_only_the_columns_asked_for_are_given(graph: NodesInMemory) -> None:
    """Columns come in the order asked for, with their place, id and type."""
    asked = RelationRequest(candidates=(Candidate(ref="db.orders"),), columns=("at", "id"))
    info = await _one(graph, asked)
    assert [(one.name, one.ordinal, one.id, one.type, one.required) for one in info.columns] == [
        ("at", 3, 3, "long", False),
        ("id", 1, 1, "long", True),
    ]


async def test_a_column_that_is_missing_fails_alone(graph: NodesInMemory) -> None:
    """A column that never was, and one that the pinned snapshot lacks, are told apart."""
    graph.columns("db.orders", "id", "fresh")
    first = RelationRequest(
        candidates=(Candidate(ref="db.orders", snapshot=2),), columns=("id", "fresh", "never")
    )
    info = await _one(graph, first)
    assert [column.failure and column.failure.code for column in info.columns] == [
        None,
        FailureCode.SCHEMA_MISMATCH,
        FailureCode.NOT_FOUND,
    ]


async def test_columns_of_types_that_cannot_be_read_fail_alone(graph: NodesInMemory) -> None:
    """A type that is not read and one that is damaged fail their own columns."""
    node = graph.nodes["db.items"]
    assert isinstance(node, TableNode)
    fields = [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "shape", "required": False, "type": "geometry"},
        {"id": 3, "name": "money", "required": False, "type": "decimal(900,2)"},
        {"id": 4, "name": "tags", "required": False, "type": _LIST},
    ]
    text = json.dumps({"type": "struct", "fields": fields})
    graph.nodes["db.items"] = dataclasses.replace(node, schema_json=text)
    info = await _one(graph, "db.items")
    assert [column.failure and column.failure.code for column in info.columns] == [
        None,
        FailureCode.TYPE_NOT_SUPPORTED,
        FailureCode.LOGICAL_TYPE_INVALID,
        None,
    ]
    assert json.loads(info.columns[3].type or "") == _LIST
    assert info.token == ""


_LIST = {"type": "list", "element-id": 5, "element": "string", "element-required": False}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"fields": {}}', '{"fields": [1]}'])
async def test_a_damaged_schema_fails_its_table(graph: NodesInMemory, text: str) -> None:
    """A schema that is no schema fails one item, and no other."""
    node = graph.nodes["db.items"]
    assert isinstance(node, TableNode)
    graph.nodes["db.items"] = dataclasses.replace(node, schema_json=text)
    broken, sound = _items(await _chunks(graph, ["db.items", "db.orders"]))
    assert broken.status is RelationStatus.ERROR
    assert sound.status is RelationStatus.FOUND


# --- what is held already -----------------------------------------------------------------


async def test_known_version_gets_identity_only_response(graph: NodesInMemory) -> None:
    """Who holds the current token gets id, name, pin and token, and nothing else."""
    whole = await _one(graph, "db.orders")
    again = await _one(graph, "db.orders", known=[whole.token])
    assert again.is_identity_only
    assert (again.columns, again.token, again.pin) == ((), whole.token, whole.pin)


async def test_data_only_ingest_keeps_the_possession_token(graph: NodesInMemory) -> None:
    """A commit of rows moves the pin, and leaves what the planner holds."""
    whole = await _one(graph, "db.orders")
    graph.commit("db.orders", 3, 300)
    again = await _one(graph, "db.orders", known=[whole.token])
    assert again.is_identity_only
    assert again.pin is not None
    assert again.pin.snapshot == 3


async def test_snapshot_schema_change_moves_the_possession_token(graph: NodesInMemory) -> None:
    """Another schema is another token, and what is held under the old one is sent anew."""
    whole = await _one(graph, "db.orders")
    graph.columns("db.orders", "id", "amount")
    again = await _one(graph, "db.orders", known=[whole.token])
    assert not again.is_identity_only
    assert again.token != whole.token
    assert len(again.columns) == 2


async def test_an_older_snapshot_of_another_schema_has_another_token(graph: NodesInMemory) -> None:
    """The token is of the schema that is read, not of the newest."""
    before = await _one(graph, "db.orders")
    graph.columns("db.orders", "id", "amount")
    pinned = await _one(graph, Candidate(ref="db.orders", snapshot=2), known=[before.token])
    assert pinned.is_identity_only


async def test_identity_only_possession_is_scoped_to_the_requesting_engine(graph: NodesInMemory) -> None:
    """A token counts for the engine, version and epoch that it was given to."""
    whole = await _one(graph, "db.orders", engine_kind="postgres", engine_version="16.1", epoch="1")
    for other in (
        {"engine_kind": "duckdb", "engine_version": "16.1", "epoch": "1"},
        {"engine_kind": "postgres", "engine_version": "16.2", "epoch": "1"},
        {"engine_kind": "postgres", "engine_version": "16.1", "epoch": "2"},
    ):
        again = await _one(graph, "db.orders", known=[whole.token], **other)
        assert not again.is_identity_only


async def test_a_projected_relation_has_no_token(graph: NodesInMemory) -> None:
    """Some columns are not possession of all, and a token does not shorten an answer of some."""
    whole = await _one(graph, "db.orders")
    asked = RelationRequest(candidates=(Candidate(ref="db.orders"),), columns=("id",))
    some = await _one(graph, asked, known=[whole.token, ""])
    assert (some.token, some.is_identity_only) == ("", False)
    assert len(some.columns) == 1


async def test_a_view_that_changes_moves_its_token(graph: NodesInMemory) -> None:
    """A view is held as long as its text is the same."""
    whole = await _one(graph, "db.sold")
    assert (await _one(graph, "db.sold", known=[whole.token])).is_identity_only
    graph.view("db.sold", "db.orders")
    assert not (await _one(graph, "db.sold", known=[whole.token])).is_identity_only


async def test_a_table_that_is_made_again_has_another_token(graph: NodesInMemory) -> None:
    """Another incarnation under the name is not what the planner holds."""
    whole = await _one(graph, "db.orders")
    graph.table("db.orders", (1, 1), columns=("id", "amount", "at"))
    assert not (await _one(graph, "db.orders", known=[whole.token])).is_identity_only


# --- decoration ---------------------------------------------------------------------------


class _Provider:
    """Gives one hint, or fails."""

    def __init__(self, error: LakehouseError | None = None) -> None:
        self._error = error

    def supports(self, kind: NodeKind, payload_type: str) -> bool:
        """Knows one payload type."""
        return payload_type == "test.type+json"

    def is_available(self, engine: EngineKey) -> bool:
        """Serves all engines."""
        return True

    def fingerprint(self, node: Node, engine: EngineKey, payload_type: str) -> str:
        """Never changes."""
        return "1"

    async def compute(self, node: Node, engine: EngineKey, payload_type: str) -> EngineHint | None:
        """Gives the hint, or fails."""
        if self._error is not None:
            raise self._error
        return EngineHint(payload_type=payload_type, payload=b"{}")


async def test_hints_come_with_relations(graph: NodesInMemory) -> None:
    """A relation has the hints that the planner needs."""
    hints = EngineHintManager(providers=[_Provider()], discover=False)
    info = await _one(
        graph, "db.orders", hints=hints, engine_kind="postgres", payload_types=["test.type+json"]
    )
    assert [hint.payload for hint in info.hints] == [b"{}"]
    assert info.token


@pytest.mark.parametrize(
    ("error", "payload_type", "code"),
    [
        (UnavailableError("away"), "test.type+json", FailureCode.DECORATOR_UNAVAILABLE),
        (PermissionDeniedError("no"), "test.type+json", FailureCode.PERMISSION_DENIED),
        (InvalidInputError("bad"), "test.type+json", FailureCode.ENGINE_EXTENSION),
        (None, "test.other+json", FailureCode.PAYLOAD_REQUIRED_MISSING),
    ],
    ids=str,
)
async def test_a_relation_without_its_hints_is_incomplete(
    graph: NodesInMemory, error: LakehouseError | None, payload_type: str, code: FailureCode
) -> None:
    """Columns that cannot be decorated say why, the relation is found, and has no token."""
    hints = EngineHintManager(providers=[_Provider(error)], discover=False)
    info = await _one(graph, "db.orders", hints=hints, engine_kind="postgres", payload_types=[payload_type])
    assert {column.failure and column.failure.code for column in info.columns} == {code}
    assert info.token == ""


# --- cancellation and summary -------------------------------------------------------------


async def test_cancellation_stops_after_first_resolution_chunk() -> None:
    """A consumer that stops behind a chunk has the next relation never looked at."""
    graph = NodesInMemory()
    names = [f"db.t{number}" for number in range(10)]
    for name in names:
        graph.table(name, (1, 1))
    async with _query(graph) as query:
        stream = user_objects(query, UserObjectsRequest.of(names), chunk_max=3)
        assert isinstance((await anext(stream)).part, BundleHeader)
        assert graph.asked == []
        await anext(stream)
        await stream.aclose()
        assert set(graph.asked) == set(names[:3])
        assert len(query.pins) == 3


async def test_a_request_has_one_summary_event(
    graph: NodesInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    """Each request writes one event with its counts, however many there are, stopped ones too."""
    with caplog.at_level(logging.INFO, "lakehouse.catalog"):
        for _ in range(12):
            await _chunks(graph, ["db.orders", "db.none"])
        async with _query(graph) as query:
            stream = user_objects(query, UserObjectsRequest.of(["db.orders"]))
            await anext(stream)
            await stream.aclose()
    events = [
        record.lakehouse  # type: ignore[attr-defined]
        for record in caplog.records
        if record.getMessage().startswith("get_user_objects.summary")
    ]
    assert len(events) == 13
    facts = {name: events[0][name] for name in ("relations", "found", "not_found", "chunks", "complete")}
    assert facts == {"relations": 2, "found": 1, "not_found": 1, "chunks": 3, "complete": True}
    assert (events[-1]["complete"], events[-1]["begun"]) == (False, 0)


async def test_a_query_that_ends_soon_is_warned_of(graph: NodesInMemory) -> None:
    """The header says when the lifetime is nearly over."""
    async with _query(graph, lifetime_s=3) as query:
        header = (await anext(user_objects(query, UserObjectsRequest.of([])))).part
    assert isinstance(header, BundleHeader)
    assert "renew it" in header.warnings[0]


# --- requests -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"relations": "db.orders"},
        {"relations": [RelationRequest(candidates=())]},
        {"relations": [RelationRequest(candidates=(Candidate(ref="a.b"),), columns="id")]},  # type: ignore[arg-type]
        {"relations": [], "known": "token"},
        {"relations": [], "payload_types": ["nonsense"]},
        {"relations": [], "engine_kind": "no kind"},
    ],
    ids=str,
)
def test_a_request_is_checked(bad: dict[str, Any]) -> None:
    """What cannot be meant is refused before anything is resolved."""
    with pytest.raises(InvalidInputError):
        UserObjectsRequest.of(bad.pop("relations"), **bad)
