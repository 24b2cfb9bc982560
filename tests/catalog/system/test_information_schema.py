"""Rows of information_schema: computed from listings, with one warning for each thing that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.catalog.nodes import RelationNode
from lakehouse.catalog.system import RelationFilter, SystemScan
from lakehouse.catalog.system.relations import RELATIONS
from lakehouse.errors import CorruptionError, NotFoundError, UnavailableError
from tests.kit.system_listings import MemoryListing, table_node, view_node

_ORDERS = table_node(
    ("sales", "orders"),
    [("id!", "long"), ("price", "decimal(9,2)"), ("tags", {"type": "list", "element": "string"})],
    primary_key=("id",),
    not_null=("id", "price"),
)
_TOP = view_node(("sales", "top"), sql="SELECT id FROM orders", columns=("id",), owner="ana")
_HITS = table_node(("web", "eu", "hits"), format="iceberg")
_NODES: dict[Any, RelationNode] = {
    ("", ("sales", "orders")): _ORDERS,
    ("", ("sales", "top")): _TOP,
    ("ice", ("web", "eu", "hits")): _HITS,
}


async def _rows(relation: str, listing: MemoryListing, **where: str) -> list[tuple[Any, ...]]:
    """Rows about what users made."""
    scan = SystemScan(relation, listing, where=RelationFilter(**where))
    table = await scan.to_arrow()
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [row for row in rows if "information_schema" not in row]


async def test_tables_come_from_names_only() -> None:
    """Listing tables and schemata loads none of them, however many there are (doris#65988)."""
    nodes = {("", ("big", f"t{number:04}")): table_node(("big", f"t{number:04}")) for number in range(5000)}
    listing = MemoryListing(nodes)
    scan = SystemScan("tables", listing)
    batches = [batch.num_rows async for batch in scan]
    assert (sum(batches), max(batches)) == (5000 + len(RELATIONS), 4096)
    await SystemScan("schemata", listing).to_arrow()
    assert listing.loaded == []
    assert listing.listed == [("", ("big",))]


async def test_tables_of_all_catalogs_are_listed() -> None:
    """Tables and views of the warehouse and of attached catalogs are there, namespaces joined by dots."""
    assert await _rows("tables", MemoryListing(_NODES)) == [
        ("", "sales", "orders", "BASE TABLE"),
        ("", "sales", "top", "VIEW"),
        ("ice", "web.eu", "hits", "BASE TABLE"),
    ]


async def test_schemata_list_empty_namespaces_too() -> None:
    """A namespace without tables is a row."""
    rows = await _rows("schemata", MemoryListing(_NODES, empty=[("", ("empty",))]))
    assert rows == [("", "empty"), ("", "sales"), ("ice", "web.eu")]


async def test_information_schema_describes_itself() -> None:
    """The relations of information_schema are in it, with all their columns, as everybody expects."""
    listing = MemoryListing({})
    for relation in RELATIONS:
        table = await SystemScan("columns", listing, where=RelationFilter(table=relation)).to_arrow()
        assert table["column_name"].to_pylist() == SystemScan(relation, listing).schema.names
    tables = await SystemScan("tables", listing).to_arrow()
    assert tables["table_name"].to_pylist() == sorted(RELATIONS)
    assert {*tables["table_type"].to_pylist()} == {"SYSTEM VIEW"}


async def test_columns_have_types_and_nullability() -> None:
    """Columns of tables come with position, type and whether they may be null; a view's with their names."""
    assert await _rows("columns", MemoryListing(_NODES), catalog="") == [
        ("", "sales", "orders", "id", 1, None, "NO", "long", None, None),
        ("", "sales", "orders", "price", 2, None, "NO", "decimal(9,2)", 9, 2),
        ("", "sales", "orders", "tags", 3, None, "YES", "list<string>", None, None),
        ("", "sales", "top", "id", 1, None, "YES", None, None, None),
    ]


async def test_views_have_their_definition() -> None:
    """Views come with SQL, dialect and owner; tables are no views."""
    assert await _rows("views", MemoryListing(_NODES)) == [
        ("", "sales", "top", "SELECT id FROM orders", "duckdb", "NO", "ana")
    ]


async def test_constraints_are_primary_keys_and_not_null() -> None:
    """Keys and columns that are not null are constraints, by the same names in all relations."""
    listing, key = MemoryListing(_NODES), ("", "sales", "orders_pkey")
    checks = [("", "sales", f"orders_{column}_not_null") for column in ("id", "price")]
    table = ("", "sales", "orders")
    assert await _rows("table_constraints", listing) == [
        (*key, *table, "PRIMARY KEY", "YES"),
        *((*check, *table, "CHECK", "YES") for check in checks),
    ]
    assert await _rows("key_column_usage", listing) == [(*key, *table, "id", 1)]
    assert await _rows("constraint_column_usage", listing) == [
        (*table, "id", *key), (*table, "id", *checks[0]), (*table, "price", *checks[1])
    ]  # fmt: skip
    assert await _rows("check_constraints", listing) == [
        (*checks[0], '"id" IS NOT NULL'), (*checks[1], '"price" IS NOT NULL')
    ]  # fmt: skip


async def test_a_broken_table_is_a_warning_and_costs_its_own_rows() -> None:
    """Of thousands of tables one that cannot be read is named; the others are there."""
    nodes = {("", ("big", f"t{number:03}")): table_node(("big", f"t{number:03}")) for number in range(500)}
    error = CorruptionError("the metadata are damaged", key="k")
    listing = MemoryListing(nodes, failures={("", ("big", "t250")): error})
    scan = SystemScan("columns", listing, where=RelationFilter(schema="big"))
    assert (await scan.to_arrow()).num_rows == 499
    (warning,) = scan.warnings
    assert (warning.path, warning.kind) == (("big", "t250"), "corruption")
    assert str(warning) == "big.t250: the metadata are damaged"


async def test_a_table_that_was_dropped_since_it_was_listed_is_left_out() -> None:
    """A name whose table is gone has no rows, and is nothing to warn of."""
    gone = NotFoundError("there is no table", missing="table")
    listing = MemoryListing(_NODES, failures={("", ("sales", "orders")): gone})
    scan = SystemScan("columns", listing, where=RelationFilter(schema="sales"))
    assert (await scan.to_arrow())["table_name"].to_pylist() == ["top"]
    assert scan.warnings == []


async def test_a_catalog_that_is_away_is_a_warning() -> None:
    """A catalog that cannot be listed, and a listing that ends in the middle, cost what they lack."""
    failures = {
        ("down", ()): UnavailableError("no answer"),
        ("ice", ("web", "eu")): NotFoundError("the namespace is gone"),
    }
    listing = MemoryListing(_NODES, failures=failures)
    scan = SystemScan("tables", listing, where=RelationFilter())
    names = (await scan.to_arrow())["table_name"].to_pylist()
    assert {"orders", "top", "hits"} <= {*names}
    assert [str(each) for each in scan.warnings] == ["down: no answer", "ice.web.eu: the namespace is gone"]


async def test_a_filter_loads_nothing_else() -> None:
    """What a filter leaves out is neither listed nor loaded."""
    elsewhere = ("web", "us", "hits")
    listing = MemoryListing({**_NODES, ("ice", elsewhere): table_node(elsewhere)})
    assert len(await _rows("columns", listing, catalog="ice", schema="web.eu", table="hits")) == 1
    assert listing.loaded == [("ice", ("web", "eu", "hits"))]
    assert listing.listed == [("ice", ("web", "eu"))]


async def test_leaving_early_stops_the_work() -> None:
    """Whoever leaves the iteration after a batch leaves most tables unread."""
    nodes = {("", ("big", f"t{number:05}")): table_node(("big", f"t{number:05}")) for number in range(9000)}
    listing = MemoryListing(nodes)
    batches = aiter(SystemScan("columns", listing))
    await anext(batches)
    await batches.aclose()  # type: ignore[attr-defined]
    assert len(listing.loaded) < 4200


def test_an_unknown_relation_is_told() -> None:
    """A relation that is not there is an error that suggests one."""
    with pytest.raises(NotFoundError, match="did you mean 'tables'"):
        SystemScan("table", MemoryListing({}))
