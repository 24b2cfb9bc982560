"""What work costs: counted by verb, added up, and measured around a block."""

from __future__ import annotations

import asyncio
import json

import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import NotFoundError
from lakehouse.io import Cost, OperationCost, measure
from lakehouse.io.cost import BUCKETS_S, REQUEST_KINDS, active_costs, counting
from lakehouse.io.decorators import InstrumentedStore
from lakehouse.testing.stores import memory_store

RECORDS = st.lists(
    st.tuples(
        st.sampled_from(sorted(REQUEST_KINDS)),
        st.integers(0, 20).map(lambda seconds: seconds / 8),
        st.integers(0, 1_000),
        st.integers(0, 1_000),
        st.booleans(),
    ),
    max_size=30,
)


def _cost(records: list[tuple[str, float, int, int, bool]]) -> Cost:
    cost = Cost()
    for verb, seconds, read, written, failed in records:
        cost.record(verb, seconds, bytes_read=read, bytes_written=written, failed=failed)
    return cost


@given(records=RECORDS)
def test_totals_are_sums(records: list[tuple[str, float, int, int, bool]]) -> None:
    """Requests, errors, bytes and time of all verbs add up."""
    cost = _cost(records)
    assert cost.requests == len(records) == sum(cost.by_kind().values())
    assert cost.seconds == sum(record[1] for record in records)
    assert cost.bytes_read == sum(record[2] for record in records)
    assert cost.bytes_written == sum(record[3] for record in records)
    assert cost.errors == sum(record[4] for record in records)
    assert sum(sum(entry.buckets) for entry in cost.operations.values()) == len(records)


@given(left=RECORDS, right=RECORDS)
def test_costs_add_up(
    left: list[tuple[str, float, int, int, bool]], right: list[tuple[str, float, int, int, bool]]
) -> None:
    """The sum of two costs is the cost of both, and neither changes."""
    one, other = _cost(left), _cost(right)
    assert one + other == _cost(left + right)
    assert (one, other) == (_cost(left), _cost(right))


def test_verbs_are_counted_by_the_kind_that_is_billed() -> None:
    """Ranged and suffix reads are GETs, conditional puts are PUTs, a batch of deletes is one."""
    reads, writes = ("get", "get_range", "get_suffix", "head", "list_page"), ("put", "put_if_absent")
    cost = _cost([(verb, 0.0, 0, 0, False) for verb in (*reads, *writes, "delete_batch")])
    assert cost.by_kind() == {"get": 3, "head": 1, "put": 2, "list": 1, "delete": 1}


@pytest.mark.parametrize(("seconds", "bucket"), [(0.0, 0), (0.001, 0), (0.0011, 1), (10.0, 12), (10.1, 13)])
def test_a_bucket_holds_its_upper_bound(seconds: float, bucket: int) -> None:
    """A latency counts in the first bucket whose bound is not below it; the last has no bound."""
    cost = Cost()
    cost.record("get", seconds)
    assert cost.operations["get"].buckets.index(1) == bucket
    assert len(cost.operations["get"].buckets) == len(BUCKETS_S) + 1


def test_each_operation_has_its_own_buckets() -> None:
    """Two operations do not share a histogram."""
    assert OperationCost().buckets is not OperationCost().buckets


def test_a_cost_reads_as_a_line() -> None:
    """As text a cost says requests by kind and bytes; nothing is said to be nothing."""
    cost = _cost([("get", 0, 1_234, 0, False), ("put", 0, 0, 5, False), ("get_range", 0, 0, 0, True)])
    assert str(cost) == "2 get, 1 put; 1,234 B read, 5 B written"
    assert str(Cost()) == "no requests; 0 B read, 0 B written"


def test_a_cost_is_json() -> None:
    """The dictionary form goes through JSON as it is."""
    told = _cost([("get", 0.25, 10, 0, True)]).as_dict()
    assert json.loads(json.dumps(told)) == {
        "requests": {"get": 1},
        "errors": 1,
        "bytes_read": 10,
        "bytes_written": 0,
        "request_seconds": 0.25,
    }


# --- measure -------------------------------------------------------------------------


async def _store() -> InstrumentedStore:
    store = InstrumentedStore(memory_store())
    await store.inner.put("k", b"content")
    return store


async def test_a_block_measures_what_happens_in_it() -> None:
    """Requests inside the block count, those before and after do not."""
    store = await _store()
    await store.get("k")
    with measure() as cost:
        await store.get("k")
        await store.head("k")
    await store.get("k")
    assert cost.by_kind() == {"get": 1, "head": 1}
    assert cost.bytes_read == 7


async def test_blocks_nest() -> None:
    """What the inner block counts the outer counts as well."""
    store = await _store()
    with measure() as outer:
        await store.get("k")
        with measure() as inner:
            await store.head("k")
        await store.get("k")
    assert inner.by_kind() == {"head": 1}
    assert outer.by_kind() == {"get": 2, "head": 1}


async def test_a_block_measures_every_store() -> None:
    """Whichever store works inside the block is counted."""
    one, other = await _store(), await _store()
    with measure() as cost:
        await one.get("k")
        await other.get("k")
    assert cost.requests == 2


async def test_tasks_begun_in_the_block_count() -> None:
    """Tasks and threads started inside the block count, also when they go on behind its end."""
    store = await _store()
    with measure() as cost:
        late = asyncio.create_task(store.get("k"))
        async with asyncio.TaskGroup() as group:
            group.create_task(store.get("k"))
        assert await anyio.to_thread.run_sync(active_costs) == (cost,)
    await late
    assert cost.requests == 2


async def test_blocks_of_other_tasks_do_not_count() -> None:
    """Two tasks that measure at the same time each see their own."""
    store = await _store()

    async def work(times: int) -> int:
        with measure() as cost:
            for _ in range(times):
                await store.get("k")
                await asyncio.sleep(0)
        return cost.requests

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(times)) for times in (1, 4)]
    assert [task.result() for task in tasks] == [1, 4]


async def test_a_block_ends_with_an_error() -> None:
    """A block that ends with an error has counted, and counts no longer."""
    store = await _store()
    with pytest.raises(NotFoundError), measure() as cost:
        await store.get("missing")
    await store.get("k")
    assert cost.requests == 1
    assert active_costs() == ()


async def test_counting_adds_to_a_cost_that_is_there() -> None:
    """Several blocks may count into one cost."""
    store, cost = await _store(), Cost()
    for _ in range(2):
        with counting(cost):
            await store.get("k")
    assert cost.requests == 2
    assert active_costs() == ()
