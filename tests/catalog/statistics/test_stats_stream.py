"""Statistics for planners: answers of the pinned snapshot, in order, within budgets, table by table."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.catalog.pins import Queries, Query
from lakehouse.catalog.statistics.stats_stream import target_stats
from lakehouse.catalog.statistics.values import StatsKind, StatsOutcome, StatsTarget, TargetStats
from lakehouse.errors import InvalidInputError
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import memory_store
from tests.kit.iceberg_plans import DAY, delete_file, manifest, on_disk, three_days
from tests.kit.open_nodes import queries_of

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string()})
ROWS, BYTES = StatsTarget(kind=StatsKind.ROWS), StatsTarget(kind=StatsKind.BYTES)
EVERY = [
    ROWS,
    BYTES,
    *(StatsTarget(kind=kind, column="id") for kind in (StatsKind.NULLS, StatsKind.BOUNDS, StatsKind.NDV)),
]


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    """Rows with a city of every third."""
    return [{"id": one, "city": f"c{one % 5}" if one % 3 else None} for one in range(begin, end)]


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[tuple[Table, Queries, Lake]]:
    """A lake with a table of a hundred rows, and queries over it."""
    async with Lake(memory_store()) as lake:
        await lake.create_database("db")
        table = await lake.create_table("db.orders", SCHEMA, primary_key="id")
        await table.append(rows(0, 100))
        yield table, queries_of(lake), lake


async def asked(
    query: Query, *targets: StatsTarget, name: str = "db.orders", **how: Any
) -> list[TargetStats]:
    """The answers to some targets of one table."""
    return [one async for one in target_stats(query, [(name, targets)], **how)]


async def test_metadata_tell_rows_bytes_nulls_and_bounds() -> None:
    """Of one run all of it is exact; distinct values nobody has counted are missing."""
    async with world() as (table, queries, _), queries.begin() as query:
        city = StatsTarget(kind=StatsKind.NULLS, column="city")
        found = await asked(query, *EVERY, city)
        snapshot = await table.current_snapshot()
        assert [one.outcome for one in found] == [StatsOutcome.HIT] * 4 + [
            StatsOutcome.MISSING,
            StatsOutcome.HIT,
        ]
        assert [one.count for one in found[:3]] == [100, found[1].count, 0]
        assert (found[3].low, found[3].high) == (0, 99)
        assert found[5].count == 34
        assert all(one.is_exact for one in found if one.outcome is StatsOutcome.HIT)
        assert {one.snapshot for one in found} == {snapshot}


async def test_distinct_values_are_hits_until_rows_change() -> None:
    """Counted in the pinned rows they are hits, and stale with the snapshot's id when rows came since."""
    async with world() as (table, queries, _):
        analyzed = (await table.analyze()).analyzed
        ndv = StatsTarget(kind=StatsKind.NDV, column="city")
        async with queries.begin() as query:
            (found,) = await asked(query, ndv)
            assert (found.outcome, found.count, found.is_exact) == (StatsOutcome.HIT, 5, True)
        await table.create_tag("t")
        async with queries.begin() as query:
            (found,) = await asked(query, ndv)
            assert found.outcome is StatsOutcome.HIT
        await table.append(rows(100, 110))
        async with queries.begin() as query:
            (found,) = await asked(query, ndv)
            assert (found.outcome, found.of_snapshot, found.count) == (StatsOutcome.STALE, analyzed, 5)
            (found,) = await asked(query, ndv, stale_ok=False)
            assert (found.outcome, found.count) == (StatsOutcome.MISSING, None)


async def test_distinct_values_of_a_sample_say_so() -> None:
    """They are of all rows, estimated, never more than there are, and marked as sampled."""
    async with world() as (_, queries, lake):
        table = await lake.create_table("db.parts", SCHEMA, primary_key="id", bucket=4)
        await table.append(rows(0, 2_000))
        assert (await table.analyze(sample=0.3)).share < 1
        async with queries.begin() as query:
            ndv = StatsTarget(kind=StatsKind.NDV, column="id")
            (found,) = await asked(query, ndv, name="db.parts")
            assert (found.outcome, found.is_sampled, found.is_exact) == (StatsOutcome.HIT, True, False)
            assert found.count is not None
            assert 1_500 < found.count <= 2_000


async def test_answers_are_of_the_pinned_snapshot() -> None:
    """Whatever is committed and counted meanwhile, a query is told of the state that it reads."""
    async with world() as (table, queries, _), queries.begin() as query:
        await query.pin("db.orders")
        await table.append(rows(200, 300))
        await table.analyze()
        counted, ndv = await asked(query, ROWS, StatsTarget(kind=StatsKind.NDV, column="id"))
        assert counted.count == 100
        assert (ndv.outcome, ndv.count) == (StatsOutcome.STALE, 200)


async def test_rows_that_newer_ones_replace_make_an_upper_bound() -> None:
    """Where runs overlap, metadata cannot tell how many rows are seen, and the answer says so."""
    async with world() as (table, queries, _):
        await table.append(rows(50, 150))
        async with queries.begin() as query:
            (found,) = await asked(query, ROWS)
            assert (found.count, found.is_exact) == (200, False)


async def test_answers_come_by_priority() -> None:
    """The most important target of all tables comes first, and equal ones in the order of the request."""
    async with world() as (_, queries, lake), queries.begin() as query:
        await (await lake.create_table("db.items", SCHEMA)).append(rows(0, 7))
        first = StatsTarget(kind=StatsKind.ROWS, priority=5)
        requests = [("db.orders", [ROWS, BYTES]), ("db.items", [BYTES, first])]
        found = [one async for one in target_stats(query, requests)]
        assert [(one.table, one.target.kind, one.target.priority) for one in found] == [
            ("db.items", StatsKind.ROWS, 5),
            ("db.orders", StatsKind.ROWS, 0),
            ("db.orders", StatsKind.BYTES, 0),
            ("db.items", StatsKind.BYTES, 0),
        ]


async def test_what_the_time_does_not_suffice_for_is_omitted() -> None:
    """A table that answers in time is answered, one that hangs is omitted, and nobody waits for it longer."""
    async with world() as (_, queries, _), queries.begin() as query:
        given, never = await query.pinned_table("db.orders"), asyncio.Event()

        class Slow:
            """A query of which one table hangs."""

            async def pinned_table(self, name: object, /) -> Any:
                """Returns the table, or never does."""
                if name == "db.hangs":
                    await never.wait()
                return given

        requests = [("db.hangs", [ROWS]), ("db.orders", [StatsTarget(kind=StatsKind.ROWS, priority=1)])]
        found = [one async for one in target_stats(Slow(), requests, budget_s=0.5)]
        assert [(one.table, one.outcome) for one in found] == [
            ("db.orders", StatsOutcome.HIT),
            ("db.hangs", StatsOutcome.OMITTED),
        ]
        assert found[1].problem == "the time was over"


async def test_what_the_bytes_do_not_suffice_for_is_omitted() -> None:
    """Answers go out in order until their bytes are over; a smaller one behind a large one still goes."""
    async with world() as (_, queries, lake), queries.begin() as query:
        table = await lake.create_table("db.texts", SCHEMA)
        await table.append([{"id": 1, "city": "x" * 1_000}])
        bounds = StatsTarget(kind=StatsKind.BOUNDS, column="city")
        found = await asked(query, ROWS, bounds, BYTES, name="db.texts", max_bytes=130)
        assert [one.outcome for one in found] == [StatsOutcome.HIT, StatsOutcome.OMITTED, StatsOutcome.HIT]


async def test_one_table_that_cannot_be_read_is_its_problem_alone() -> None:
    """Its answers are missing and say why; those of the others are there."""
    async with world() as (_, queries, _), queries.begin() as query:
        requests = [("db.nope", [ROWS]), ("db.orders", [ROWS])]
        found = [one async for one in target_stats(query, requests)]
        assert [one.outcome for one in found] == [StatsOutcome.MISSING, StatsOutcome.HIT]
        assert found[0].problem
        assert "nope" in found[0].problem


async def test_lost_statistics_are_missing() -> None:
    """A statistics file that is gone is no error for planners."""
    async with world() as (table, queries, _):
        await table.analyze()
        ref = (await table.core.newest()).snapshot.statistics
        assert ref is not None
        await table.core.env.store.delete(f"{table.core.root}/{ref.path}")
        async with queries.begin() as query:
            (found,) = await asked(query, StatsTarget(kind=StatsKind.NDV, column="id"))
            assert found.outcome is StatsOutcome.MISSING


@pytest.mark.parametrize(
    "target",
    [StatsTarget(kind=StatsKind.ROWS, column="id"), StatsTarget(kind=StatsKind.NDV)],
    ids=["rows", "ndv"],
)
async def test_targets_that_make_no_sense_are_refused(target: StatsTarget) -> None:
    """Rows are of a table, and distinct values of a column."""
    async with world() as (_, queries, _), queries.begin() as query:
        with pytest.raises(InvalidInputError, match=r"db\.orders: the target"):
            await asked(query, target)


async def test_unknown_columns_are_missing() -> None:
    """A column that the pinned schema does not have has no statistics."""
    async with world() as (_, queries, _), queries.begin() as query:
        (found,) = await asked(query, StatsTarget(kind=StatsKind.NULLS, column="nope"))
        assert found.outcome is StatsOutcome.MISSING


async def test_queries_of_the_lake_stream_them() -> None:
    """A query of the lake is asked itself, and tells of what it has pinned."""
    async with world() as (_, _, lake), lake.query() as query:
        found = [one async for one in query.target_stats([("db.orders", [ROWS])])]
        assert [one.count for one in found] == [100]


# --- Iceberg --------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def iceberg(
    directory: Path, *more: Any, statistics: list[dict[str, Any]] | None = None
) -> AsyncIterator[Query]:
    """A query over an Iceberg table of thirty files."""
    root = directory / "web" / "events"
    on_disk(three_days(*more), root)
    if statistics is not None:
        for one in root.glob("metadata/*.metadata.json"):
            document = json.loads(one.read_text()) | {"statistics": statistics}
            one.write_text(json.dumps(document))
    async with Lake(memory_store()) as lake:
        await lake.attach_catalog("ice", {"type": "directory", "warehouse": f"file://{directory}"})
        async with queries_of(lake).begin() as query:
            yield query


def statistics_file(snapshot: int, *, ndv: str = "287") -> dict[str, Any]:
    """A statistics file as metadata tell of it."""
    return {
        "snapshot-id": snapshot,
        "statistics-path": "file:///x.puffin",
        "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 50,
        "blob-metadata": [
            {
                "type": "apache-datasketches-theta-v1",
                "snapshot-id": snapshot,
                "sequence-number": 1,
                "fields": [1],
                "properties": {"ndv": ndv},
            }
        ],
    }


async def test_manifests_of_iceberg_tell_rows_nulls_and_bounds(tmp_path: Path) -> None:
    """Bounds come from the columns of manifests, and distinct values from what metadata name."""
    async with iceberg(tmp_path, statistics=[statistics_file(1)]) as query:
        found = await asked(query, *EVERY, name="ice.web.events")
        assert [one.outcome for one in found] == [StatsOutcome.HIT] * 5
        assert [one.count for one in found] == [300, 30_000, 0, None, 287]
        assert (found[3].low, found[3].high) == (0, 299)
        assert found[0].is_exact


async def test_deletes_make_counts_of_iceberg_upper_bounds(tmp_path: Path) -> None:
    """Rows that delete files remove are not counted by metadata."""
    removes = manifest("d", [delete_file(DAY, "d1")], delete=True)
    async with iceberg(tmp_path, removes) as query:
        counted, ndv = await asked(query, ROWS, EVERY[-1], name="ice.web.events")
        assert (counted.count, counted.is_exact) == (300, False)
        assert ndv.outcome is StatsOutcome.MISSING


@pytest.mark.parametrize(
    "broken",
    [statistics_file(1, ndv="x"), {"snapshot-id": "a"}, {"blob-metadata": 7}],
    ids=["ndv", "id", "blobs"],
)
async def test_damaged_statistics_of_iceberg_are_passed_over(tmp_path: Path, broken: dict[str, Any]) -> None:
    """What metadata tell of statistics and nobody can make out keeps nobody from reading the table."""
    async with iceberg(tmp_path, statistics=[broken]) as query:
        counted, ndv = await asked(query, ROWS, EVERY[-1], name="ice.web.events")
        assert (counted.count, ndv.outcome) == (300, StatsOutcome.MISSING)


async def test_a_lost_file_of_iceberg_makes_answers_stale(tmp_path: Path) -> None:
    """The statistics of the pinned snapshot are gone: older ones answer as stale, and rows as ever."""
    gone = statistics_file(1) | {"blob-metadata": []}
    async with iceberg(tmp_path, statistics=[statistics_file(5, ndv="280"), gone]) as query:
        counted, ndv = await asked(query, ROWS, EVERY[-1], name="ice.web.events")
        assert (counted.outcome, counted.count) == (StatsOutcome.HIT, 300)
        assert (ndv.outcome, ndv.count, ndv.of_snapshot) == (StatsOutcome.STALE, 280, 5)
