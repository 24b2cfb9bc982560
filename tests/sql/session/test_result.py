"""Results: forms of their rows, and what they hold until they are read, closed or forgotten."""

from __future__ import annotations

import asyncio
import gc

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.lake import Lake
from tests.kit.sql_tables import sql_tables

_STREAMED = {"sql.result_buffer_bytes": 0}
_MANY = "SELECT range AS n FROM range(300000)"


def _held(lake: Lake) -> int:
    """Statements that hold a turn, and queries that hold pins."""
    return len(lake._state.sql_instance._statements) + len(lake._state.open_queries)


async def test_a_small_result_is_read_in_any_form_any_number_of_times() -> None:
    """Arrow, batches, dicts, pandas and polars of a result in memory, which holds nothing."""
    async with sql_tables() as tables:
        result = await tables.lake.sql("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL ORDER BY a")
        rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
        assert _held(tables.lake) == 0
        assert (await result.to_arrow()).to_pylist() == rows
        assert await result.to_pylist() == rows
        assert [row async for row in result] == rows
        assert sum([batch.num_rows async for batch in result.batches()]) == 2
        assert list((await result.to_pandas())["a"]) == [1, 2]
        assert (await result.to_polars())["b"].to_list() == ["x", None]
        assert result.schema.names == ["a", "b"]


async def test_a_result_without_rows_has_its_columns() -> None:
    """Names and types are known of an empty result."""
    async with sql_tables("empty") as tables:
        result = await tables.lake.sql("SELECT id, region FROM db.empty")
        assert (await result.to_arrow()).schema.names == ["id", "region"]


async def test_a_large_result_streams_once_and_then_holds_nothing() -> None:
    """What does not fit in the buffer is read once, in order, and its turn is given back at the end."""
    async with sql_tables(settings=_STREAMED) as tables:
        result = await tables.lake.sql(_MANY)
        assert _held(tables.lake) == 2
        total = 0
        async for batch in result.batches():
            assert batch.column(0)[0].as_py() == total
            total += batch.num_rows
        assert total == 300_000
        assert _held(tables.lake) == 0
        with pytest.raises(InvalidInputError, match="was read already"):
            await result.to_arrow()


async def test_leaving_a_result_early_ends_its_statement() -> None:
    """Closing, leaving the block, and breaking off an iteration give everything back."""
    async with sql_tables(settings=_STREAMED) as tables:
        result = await tables.lake.sql(_MANY)
        await result.aclose()
        assert _held(tables.lake) == 0
        async with await tables.lake.sql(_MANY):
            assert _held(tables.lake) == 2
        assert _held(tables.lake) == 0
        broken_off = await tables.lake.sql(_MANY)
        batches = broken_off.batches()
        await anext(batches)
        await batches.aclose()
        assert _held(tables.lake) == 0


async def test_a_forgotten_result_is_released() -> None:
    """A result that nobody refers to gives its turn and its pins back."""
    async with sql_tables(settings=_STREAMED) as tables:
        result = await tables.lake.sql(_MANY)
        assert _held(tables.lake) == 2
        del result
        gc.collect()
        async with asyncio.timeout(10):
            while _held(tables.lake):  # noqa: ASYNC110  nobody would set an event
                await asyncio.sleep(0)


async def test_a_lake_ends_results_that_are_open() -> None:
    """Leaving the lake ends a statement whose result streams; reading on is an error of ours."""
    async with sql_tables(settings=_STREAMED) as tables:
        result = await tables.lake.sql(_MANY)
    with pytest.raises(InvalidInputError):
        await result.to_arrow()


async def test_errors_while_rows_come_show_their_place_and_end_the_statement() -> None:
    """A conversion that fails on a late row is an error at the user's text."""
    async with sql_tables(settings=_STREAMED) as tables:
        text = "SELECT CASE WHEN range < 200000 THEN 1 ELSE CAST('x' || range AS INT) END FROM range(300000)"
        with pytest.raises(InvalidInputError, match="Could not convert") as caught:
            # DuckDB may work so far ahead that the call itself fails.
            await (await tables.lake.sql(text)).to_arrow()
        assert caught.value.context["column"] == 45
        assert _held(tables.lake) == 0


async def test_a_cancelled_call_leaves_nothing() -> None:
    """Cancelling a statement under way ends it, with its query and its turn."""
    async with sql_tables("keyed") as tables:
        slow = "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE a.range + b.range < 0"
        task = asyncio.create_task(tables.lake.sql(slow))
        async with asyncio.timeout(10):
            while not tables.lake._state.sql_instance._statements:  # noqa: ASYNC110  nobody would
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert _held(tables.lake) == 0
        assert await (await tables.lake.sql("SELECT count(*) AS n FROM db.keyed")).to_pylist() == [{"n": 87}]


async def test_a_limit_leaves_nothing() -> None:
    """A scan that a LIMIT ends early is closed with its statement."""
    async with sql_tables("keyed", "blocks") as tables:
        result = await tables.lake.sql("SELECT k.id FROM db.keyed k, db.blocks LIMIT 3")
        assert (await result.to_arrow()).num_rows == 3
        assert _held(tables.lake) == 0
