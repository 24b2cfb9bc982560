"""Queries over views in place of tables give what they give over the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.sql.text import QueryTree, Splices, renamed
from tests.kit.sql_texts import TPCH, tree_of


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    """Two databases with tables of one name."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("create schema sales; create schema hr; use sales")
        connection.execute(
            "create table sales.orders as from (values (1, {'id': 10}), (2, {'id': 20})) t(id, st)"
        )
        connection.execute("create table hr.orders as from (values (2, 'x'), (3, 'y')) t(id, name)")
        connection.execute("create table sales.days as from (values (1, 5), (2, 6)) t(orders, day)")
        yield connection


def _full(tree: QueryTree) -> list[tuple[str, ...]]:
    """Names of tables as a catalog with the default database ``sales`` knows them."""
    return [("memory", "sales", "orders")[: 3 - len(one.parts)] + one.parts for one in tree.tables]


def _views(tree: QueryTree) -> list[str]:
    return [f"__r{one}" for one in range(len(tree.tables))]


def _rewritten(tree: QueryTree) -> str:
    return Splices.of(tree.statement.raw, renamed(tree, _views(tree), _full(tree))).text


def _answer(
    connection: duckdb.DuckDBPyConnection, text: str, views: Sequence[tuple[str, str]] = ()
) -> object:
    cursor = connection.cursor()
    cursor.execute("use sales")
    for view, table in views:
        cursor.execute(f'create temp view "{view}" as from {table}')
    found = cursor.sql(text)
    return (found.columns, sorted(found.fetchall(), key=repr))


@pytest.mark.parametrize(
    "text",
    [
        "select * from orders",
        "select orders.id, sales.orders.st.id, memory.sales.orders.id as x from orders",
        "select o.id, o from sales.orders o where exists (from hr.orders where orders.id = o.id)",
        "select sales.orders.id, name from sales.orders, hr.orders where sales.orders.id < hr.orders.id",
        "select * from sales.orders, hr.orders",
        "select * exclude (st) from sales.orders where id in (select id from hr.orders)",
        "select id from sales.orders where id in (select orders.id from hr.orders)",
        "select (select sales.orders.id from hr.orders limit 1) as x from sales.orders",
        "select sales.orders.id from sales.orders where 1 in (select sales.orders.id from hr.orders h)",
        "with orders as (select 7 as id) select orders.id, d.day from orders, sales.days d",
        "with x as (from sales.orders) select x.id, days.orders from x join days on days.orders = x.id",
        "select orders from sales.orders",
        "select sales.orders from sales.orders",
        "select days.orders, DAYS.day from Days",
        "from (table orders) t join (table sales.days) u on u.orders = t.id",
        "select sum(orders.id) over (order by sales.orders.id) as x from orders order by sales.orders.id",
        "pivot sales.days on day in (5, 6) using sum(orders)",
        "select * from (pivot days as d on day in (5) using sum(orders)) p",
        "unpivot sales.days on orders, day into name n value v",
        "select x.id from sales.orders as x(id) tablesample 100%",
        "select s.id from orders s join lateral (select s.id + 1 as b) on b = 2",
        "select list_transform([1], lambda y: y + sales.orders.id) as x from sales.orders",
        "select 'é sales.orders.id', sales.orders.id /* sales.orders.id */ from sales.orders -- orders",
        "summarize sales.days",
        "select d.day from d : sales.days join o : orders on o.id = d.orders",
        "select orders.id from orders union all select orders.id from hr.orders",
    ],
)
def test_answers_stay_the_same(tables: duckdb.DuckDBPyConnection, text: str) -> None:
    """Rows and names of columns are those of the user's text over the tables themselves."""
    tree = tree_of(text)
    names = [".".join(one) for one in _full(tree)]
    views = list(zip(_views(tree), names, strict=True))
    assert _answer(tables, _rewritten(tree), views) == _answer(tables, text)


@pytest.mark.parametrize("number", sorted(TPCH))
def test_queries_of_tpch_stay_as_they_are_but_for_names(number: str) -> None:
    """Each name is replaced once, and the rest of the text is byte for byte the user's."""
    tree = tree_of(TPCH[number])
    text = _rewritten(tree)
    for view, table in zip(_views(tree), tree.tables, strict=True):
        alias = "" if table.alias else f' AS "{table.parts[0]}"'
        assert text.count(f'"{view}"{alias}') == 1
        text = text.replace(f'"{view}"{alias}', table.parts[0])
    assert text == tree.statement.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from t for version as of 3 x where a", 'from "__r0"  x where a'),
        ("from t@v", 'from "__r0" AS "t"'),
        ("from t at (version => 3)", 'from "__r0" AS "t" '),
        ("from t x AT (version => 3), u", 'from "__r0" x , "__r1" AS "u"'),
        ("select ? from t@v where a = ?", 'select ? from "__r0" AS "t" where a = ?'),
        ("select ? from t version as of ? where a = ?", 'select $1 from "__r0" AS "t"  where a = $3'),
    ],
)
def test_time_travel_is_cut_out(text: str, expected: str) -> None:
    """DuckDB sees no clause of time travel; parameters keep their numbers where one took a value."""
    assert _rewritten(tree_of(text)) == expected


def test_a_place_in_the_result_leads_to_the_users_name() -> None:
    """An error at our name for a table is one at the user's."""
    tree = tree_of("select nope from sales.orders, hr.orders")
    splices = Splices.of(tree.statement.raw, renamed(tree, _views(tree), _full(tree)))
    offset = splices.text.index('"__r1"')
    start, end = splices.origin(offset, 6)
    assert tree.statement.raw[start:end] == b"hr.orders"


@pytest.mark.parametrize(
    "text",
    [
        "select orders.id, (select sales.orders.id from hr.orders limit 1) from sales.orders",
        "with orders as (select 1 as id) select orders.id, sales.orders.id from sales.orders, orders",
    ],
)
def test_tables_that_cannot_be_told_apart_want_aliases(text: str) -> None:
    """A query whose columns might change their meaning is refused, and not run with another."""
    tree = tree_of(text)
    with pytest.raises(InvalidInputError, match="give each an alias"):
        _rewritten(tree)
