"""The system side of the graph: names, ids and rows of what nobody made, and hints for engines."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.catalog.graph import ResolutionPage
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import NamespaceNode, SystemViewNode
from lakehouse.catalog.system import BuiltinNode
from lakehouse.catalog.system.relations import RELATIONS
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.format.metadata import DatabaseMarker, encode_database
from lakehouse.io import measure
from lakehouse.lake import Lake
from lakehouse.storage.metadata import TableName
from lakehouse.storage.metadata.paths import database_key
from lakehouse.storage.tables.views import rename_view
from tests.kit.hint_providers import Provider

_SCHEMA = pa.schema({"id": pa.int64(), "price": pa.decimal128(9, 2)})


@contextlib.asynccontextmanager
async def _lake(name: str) -> AsyncIterator[Lake]:
    """A lake with some tables and a view."""
    async with lakehouse.connect(f"memory://system-side/{name}") as lake:
        await lake.create_database("own")
        for number in range(5):
            await lake.create_table(f"own.t{number}", _SCHEMA, primary_key="id")
        await lake.create_view("own.v", {"duckdb": "select id from own.t0"}, columns=["id"])
        yield lake


@pytest.mark.parametrize("name", ["information_schema.tables", "INFORMATION_SCHEMA.Tables"])
async def test_system_names_are_resolved_first(name: str) -> None:
    """A relation of information_schema is found by its name in any case, and by its id, at no request."""
    async with _lake(name) as lake:
        with measure() as cost:
            number = await lake.graph.resolve_name(name)
            node = await lake.graph.resolve(number)
            assert await lake.graph.relation(name) is node
        assert isinstance(node, SystemViewNode)
        assert node.display == "information_schema.tables"
        assert cost.requests == 0


async def test_the_systems_namespace_is_a_node() -> None:
    """information_schema is a namespace, by name and by id."""
    async with _lake("namespace") as lake:
        node = await lake.graph.namespace("information_schema")
        assert isinstance(node, NamespaceNode)
        assert await lake.graph.resolve_name("information_schema", NodeKind.NAMESPACE) == node.id
        assert await lake.graph.resolve(node.id) == node


async def test_a_relation_that_is_not_there_is_told() -> None:
    """A name in information_schema that nothing has is an error with a suggestion."""
    async with _lake("missing") as lake:
        for call in (lake.graph.resolve_name, lake.graph.relation):
            with pytest.raises(NotFoundError, match="did you mean 'columns'"):
                await call("information_schema.column")
        with pytest.raises(NotFoundError, match="did you mean 'views'"):
            lake.graph.system_rows("information_schema.view")
        with pytest.raises(InvalidInputError, match=r"such as 'information_schema\.tables'"):
            lake.graph.system_rows("own.t0")


async def test_builtins_are_resolved_by_id() -> None:
    """A builtin's id is resolved in whatever process and account, as those of tables are not."""
    async with _lake("builtins") as lake:
        objects = await lake.graph.system_objects("Postgres", "16.2")
        (node, *_) = objects.named("function", "date_bin")
        found = await lake.graph.resolve(node.id)
        assert isinstance(found, BuiltinNode)
        assert found.signature == node.signature
        with pytest.raises(NotFoundError):
            await lake.graph.resolve(node.id._replace(kind=NodeKind.SYSTEM_VIEW))


async def test_system_objects_refuse_a_missing_kind() -> None:
    """Builtins are those of an engine, so its kind has to be given."""
    async with _lake("kind") as lake:
        with pytest.raises(InvalidInputError, match="name its kind"):
            await lake.graph.system_objects("")


async def test_information_schema_shows_the_lake() -> None:
    """Tables, views and columns of the lake are rows, with the system's own in front."""
    async with _lake("rows") as lake:
        tables = await lake.graph.system_rows("information_schema.tables").to_arrow()
        rows = [row for row in tables.to_pylist() if row["table_schema"] == "own"]
        assert [(row["table_name"], row["table_type"]) for row in rows] == [
            *((f"t{number}", "BASE TABLE") for number in range(5)), ("v", "VIEW")
        ]  # fmt: skip
        columns = await lake.graph.system_rows(
            "information_schema.columns", schema="own", table="t3"
        ).to_arrow()
        assert columns.select(["column_name", "data_type", "is_nullable"]).to_pylist() == [
            {"column_name": "id", "data_type": "long", "is_nullable": "NO"},
            {"column_name": "price", "data_type": "decimal(9, 2)", "is_nullable": "YES"},
        ]
        views = await lake.graph.system_rows("information_schema.views").to_arrow()
        assert views["view_definition"].to_pylist() == ["select id from own.t0"]


async def test_listing_tables_reads_no_table() -> None:
    """Rows of information_schema.tables cost what listings cost, and nothing when these are kept."""
    async with _lake("cost") as lake, lakehouse.connect("memory://system-side/cost") as other:
        with measure() as cold:
            rows = await other.graph.system_rows("information_schema.tables", schema="own").to_arrow()
        with measure() as warm:
            assert await other.graph.system_rows("information_schema.tables", schema="own").to_arrow() == rows
        assert rows.num_rows == 6
        read = await other.graph.system_rows("information_schema.columns", schema="own").to_arrow()
        assert read.num_rows == 11
        assert warm.requests == 0
        # The listing, the database's marker and a pointer for each name; no snapshot and no schema.
        assert cold.requests <= 2 + 2 + 6
        assert lake is not other


async def test_hints_of_a_table_follow_its_content() -> None:
    """A hint is computed once for a state of a table, and again when its id is invalidated."""
    async with _lake("hints") as lake:
        provider = Provider()
        lake.graph.engines.hints.register(provider)
        ask = {"engine_kind": "postgres", "engine_version": "16", "payload_type": "test.type+json"}
        for _ in range(3):
            hint = await lake.graph.hint("own.t0", **ask)
            assert hint is not None
        assert len(provider.asked) == 1
        await (await lake.table("own.t0")).append([{"id": 1, "price": None}])
        await lake.graph.hint("own.t0", **ask)
        assert len(provider.asked) == 2
        await lake.graph.invalidate(await lake.graph.resolve_name("own.t0"))
        await lake.graph.hint("own.t0", **ask)
        assert len(provider.asked) == 3


async def test_hints_of_builtins_come_from_their_files() -> None:
    """A file that is laid over the package's publishes hints through the graph."""
    async with _lake("rules") as lake:
        lake.graph.engines.builtins.add(
            'format = 1\nengine = "duckdb"\n[[functions]]\nname = "abs"\n'
            'signatures = ["(BIGINT) -> BIGINT"]\n'
            '[[functions.rules]]\npayload_type = "test.cost+json"\npayload = { cost = 1 }\n',
            name="mine.toml",
        )
        nodes = (await lake.graph.system_objects("duckdb", "2.0")).named("function", "abs")
        hints = [
            await lake.graph.hint(node.id, engine_kind="duckdb", payload_type="test.cost+json")
            for node in nodes
        ]
        assert [hint.payload for hint in hints if hint is not None] == [b'{"cost":1}']


async def _listed(
    resolve: Callable[..., Awaitable[ResolutionPage]], limit: int, begins: str = ""
) -> tuple[list[str], int | None]:
    """Names of all pages of information_schema, and the total that the last one told."""
    names, token = list[str](), None
    while True:
        page = await resolve(
            prefix="information_schema", begins=begins, limit=limit, page_token=token, count=True
        )
        assert [item.index for item in page.items] == [*range(len(page.items))]
        names += [item.path[-1] for item in page.items]
        token = page.next_token
        if token is None:
            return names, page.total


@pytest.mark.parametrize("kind", ["tables", "views"])
async def test_listing_information_schema_pages_through_it(kind: str) -> None:
    """The system's relations are listed as tables and as views, in pages, by prefix and with their number."""
    async with _lake(f"pages-{kind}") as lake:
        resolve = getattr(lake.graph, f"resolve_{kind}")
        assert await _listed(resolve, 3) == (sorted(RELATIONS), len(RELATIONS))
        assert await _listed(resolve, 3, begins="table") == (["table_constraints", "tables"], 2)
        assert await _listed(resolve, 3, begins="none") == ([], 0)
        page = await resolve(prefix="INFORMATION_SCHEMA")
        assert {item.kind for item in page.items} == {NodeKind.SYSTEM_VIEW}


@pytest.mark.parametrize("kind", ["table", "view"])
async def test_system_and_user_rows_of_one_namespace_are_merged_without_loss(kind: str) -> None:
    """A database of that name that an earlier release made is listed behind the system's relations."""
    async with _lake(f"merged-{kind}") as lake:
        key = database_key("information_schema")
        await lake.store.put_if_absent(
            key,
            encode_database(DatabaseMarker(name="information_schema", comment=None, token="t")),
            token="t",
        )
        names, env = lake._state.names, lake._state.env
        for name in ("u1", "u2", "u3"):
            old, new = TableName("own", name), TableName("information_schema", name)
            if kind == "view":
                await lake.create_view(str(old), {"duckdb": "select 1"}, columns=["x"])
                await rename_view(env, names, old, new)
            else:
                await lake.create_table(str(old), pa.schema({"id": pa.int64()}))
                await names.move(old, new, await names.resolve(old), time_ms=1)
        expected = [*sorted(RELATIONS), "u1", "u2", "u3"]
        for limit in (1, 2, len(RELATIONS), len(RELATIONS) + 1, 100):
            resolve = getattr(lake.graph, f"resolve_{kind}s")
            assert await _listed(resolve, limit) == (expected, len(expected))


async def test_a_list_of_names_finds_system_relations_among_tables_and_views() -> None:
    """A relation of information_schema is read as either; a user's view is no table."""
    async with _lake("kinds") as lake:
        names = ["information_schema.tables", "own.v", "own.t0"]
        views = await lake.graph.resolve_views(names)
        assert [item.status.value for item in views.items] == ["found", "found", "not_found"]
        tables = await lake.graph.resolve_tables(names)
        assert [item.status.value for item in tables.items] == ["found", "not_found", "found"]
        with pytest.raises(NotFoundError, match="is a system_view, not a table"):
            await lake.graph.table("information_schema.tables")


async def test_accounts_share_builtins_and_no_hints() -> None:
    """What was laid over the package's builtins is there for every account; hints are each account's own."""
    async with _lake("accounts") as lake:
        provider = Provider()
        lake.graph.engines.hints.register(provider)
        lake.graph.engines.builtins.add('format = 1\nengine = "toy"\n[[functions]]\nname = "f"\n', name="toy")
        seen = lake.for_account("somebody").graph
        assert len((await seen.system_objects("toy")).builtins) == 1
        for graph in (lake.graph, seen, seen):
            hint = await graph.hint("own.t0", engine_kind="postgres", payload_type="test.type+json")
            assert hint is not None
        assert [node.id.account for node in provider.asked] == ["default", "somebody"]
