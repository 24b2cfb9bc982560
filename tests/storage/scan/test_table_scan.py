"""Reads of a table: one snapshot in whatever form, and arguments that are refused before anything is read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.expr import col, lit, to_sql
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.kernels.value_bloom import ValueBloom
from lakehouse.storage.scan.table_scan import is_fresh, to_expr
from lakehouse.storage.table import Table
from tests.kit.scanned import filled
from tests.kit.streaming import some
from tests.kit.table_operations import SCHEMA
from tests.kit.worlds import NAME, process, restored


@pytest.mark.parametrize(("word", "fresh"), [("snapshot", False), ("wal", True)])
def test_freshness_is_one_of_two_words(word: str, fresh: bool) -> None:
    """Only ``wal`` reads the log."""
    assert is_fresh(word) == fresh


@pytest.mark.parametrize("word", ["WAL", "", None, True])
def test_another_freshness_is_refused(word: Any) -> None:
    """A word that is neither of the two is an error that says both."""
    with pytest.raises(InvalidInputError, match="freshness is 'snapshot' or 'wal'"):
        is_fresh(word)


def test_a_condition_is_sql_or_an_expression() -> None:
    """Text is parsed, an expression stays as it is, and none is none."""
    condition = col("v") > 10
    parsed = to_expr("v > 10")
    assert to_expr(condition) is condition
    assert parsed is not None
    assert to_sql(parsed) == to_sql(condition)
    assert to_expr(None) is None


@pytest.mark.parametrize("where", [True, 7, ["v > 10"]])
def test_another_condition_is_refused(where: Any) -> None:
    """A condition that is neither text nor an expression is an error that shows what one looks like."""
    with pytest.raises(InvalidInputError, match="a condition is SQL text"):
        to_expr(where)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"columns": "id"}, "columns is a list of names, not the text 'id'"),
        ({"columns": []}, r"leave it out for all, or count\(\) the rows"),
        ({"limit": -1}, "limit is a number of rows from 0, not -1"),
        ({"limit": True}, "not True"),
        ({"limit": 1.5}, "not 1.5"),
        ({"freshness": "log"}, "freshness is"),
        ({"where": 7}, "a condition is"),
    ],
)
async def test_bad_arguments_are_refused_at_once(how: dict[str, Any], said: str) -> None:
    """A scan that makes no sense is refused when it is made, not when it is read."""
    table = await filled()
    with pytest.raises(InvalidInputError, match=said):
        table.scan(**how)


async def test_one_scan_reads_one_snapshot() -> None:
    """A scan gives the rows of the snapshot that it first read, whatever is committed since."""
    table = await filled()
    scan = table.scan()
    assert await scan.count() == 3
    await table.append(some((4, "c", 40)))
    assert len(await scan.to_pylist()) == 3
    assert await table.scan().count() == 4


async def test_aggregates_count_and_compare() -> None:
    """Counts, least and greatest values of a group leave nulls out; a count without a column does not."""
    wanted = {"rows": "count", "given": ("count", "v"), "low": ("min", "v"), "high": ("max", "v")}
    found = await (await filled()).scan(col("id") > 1).aggregate(wanted, group_by="part")
    assert found.to_pylist() == [{"part": "b", "rows": 2, "given": 1, "low": 30, "high": 30}]


async def test_aggregates_are_about_all_rows() -> None:
    """An aggregate of a limited scan is refused."""
    with pytest.raises(InvalidInputError, match="leave out the limit"):
        await (await filled()).scan(limit=2).aggregate({"rows": "count"})


async def test_a_condition_that_is_the_same_for_all_rows() -> None:
    """A condition without columns lets all rows pass, or none."""
    table = await filled()
    assert await table.scan(lit(1) == 1).count() == 3
    assert await table.scan("1 = 2").count() == 0


async def by_parts_and_buckets() -> Table:
    """A table of 400 rows in four parts of the alphabet, each part in eight buckets."""
    lake = process(await restored({}))
    await lake.create_database("db")
    keyed: dict[str, Any] = {"primary_key": ["id"], "partition_by": ["part"], "bucket": 8}
    table = await lake.create_table(NAME, SCHEMA, **keyed)
    await table.append(some(*[(number, "abcd"[number // 100], number % 7) for number in range(400)]))
    return table


FILTERS: list[tuple[RuntimeFilter, str, set[int]]] = [
    (RuntimeFilter.in_("id", [7, 123, 9_999]), "bucket", {7, 123}),
    (RuntimeFilter.in_("id", pa.array([7.0, 123.5])), "bucket", {7}),
    (RuntimeFilter.in_("part", ["b"]), "partition", set(range(100, 200))),
    (RuntimeFilter.prefix("part", "b"), "partition", set(range(100, 200))),
    (RuntimeFilter.range("id", 390), "key range", set(range(390, 400))),
    (RuntimeFilter.predicate("id > 390 AND id < 393"), "key range", {391, 392}),
    (RuntimeFilter.in_("id", pa.array(range(398, 20_000))), "key range", {398, 399}),
]


@pytest.mark.parametrize(("wanted", "reason", "ids"), FILTERS, ids=[str(one[0]) for one in FILTERS])
async def test_runtime_filters_leave_out_files_and_rows(
    wanted: RuntimeFilter, reason: str, ids: set[int]
) -> None:
    """A runtime filter leaves out partitions, buckets and files, and rows of the others."""
    scan = (await by_parts_and_buckets()).scan(columns=["id"], runtime_filters=[wanted])
    assert {row["id"] for row in await scan.to_pylist()} == ids
    assert scan.report.files_pruned[reason] > 0


async def test_runtime_filters_and_conditions_hold_together() -> None:
    """Rows meet the condition and every filter, and so do counts; a Bloom filter is asked for each row."""
    table = await by_parts_and_buckets()
    bloom = RuntimeFilter.bloom("id", ValueBloom.of(pa.array([5, 105, 205]), false_positive_rate=1e-6))
    scan = table.scan(col("part") != "a", runtime_filters=[bloom, RuntimeFilter.range("id", None, 150)])
    assert [row["id"] for row in await scan.to_pylist()] == [105]
    found = await table.scan(runtime_filters=[bloom]).aggregate({"rows": "count"})
    assert found.to_pylist() == [{"rows": 3}]


async def test_runtime_filters_see_nulls() -> None:
    """Rows without a value are left out, but where nulls are wanted."""
    table = await filled()
    for null_aware, ids in ((False, [3]), (True, [2, 3])):
        wanted = RuntimeFilter.in_("v", [30, None], null_aware=null_aware)
        assert [row["id"] for row in await table.scan(runtime_filters=[wanted]).to_pylist()] == ids


async def test_runtime_filters_that_make_no_sense_are_refused() -> None:
    """What is no filter is refused at once, and what does not fit the columns when they are known."""
    table = await filled()
    with pytest.raises(InvalidInputError, match="a runtime filter is made by"):
        table.scan(runtime_filters=["id > 3"])  # type: ignore[list-item]
    for wanted in (RuntimeFilter.in_("id", ["a"]), RuntimeFilter.range("w", 3)):
        with pytest.raises(InvalidInputError):
            await table.scan(runtime_filters=[wanted]).to_arrow()
