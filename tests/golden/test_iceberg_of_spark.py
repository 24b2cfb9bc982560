"""Iceberg tables that Spark wrote: metadata, rows and plans are what Spark says of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lakehouse import iceberg
from tests.kit.spark_answers import expected_of, files_of, ids_of, relative, rows_of, same_rows

HOME = Path(__file__).parents[1] / "data" / "iceberg"
NAMES = sorted(path.parent.name for path in HOME.glob("*/expected.json"))

# Partitions of the days, months, years and hours of UTC that a condition on times of +08:00 needs.
KEPT = {
    "day_zone": [
        {"2024-01-15", "2024-01-16", "2024-02-29", "2024-12-31"},
        {"2024-01-15"},
        {"2024-01-15"},
        {"2024-01-15", "2024-01-16"},
        # Midnight of +08:00 is in the day before.
        {"2024-01-15", "2024-01-16", "2024-02-29", "2024-12-31"},
        {"2024-12-31"},
        {"2024-02-29", "2024-12-31"},
        {"2024-01-15", "2024-01-16", "2024-02-29"},
        {"null"},
    ],
    "month_zone": [{"2023-12", "2024-01"}, {"2023-12", "2024-01", "2024-02"}, {"2024-12"}, {"null"}],
    "year_zone": [{"2023", "2024"}, {"2022"}, {"2024"}, {"null"}],
    "hour_zone": [{"2024-01-15-02"}, {"2024-01-15-03", "2024-01-15-15"}, {"2024-01-15-16"}, {"null"}],
}


@asynccontextmanager
async def opened(name: str) -> AsyncIterator[Any]:
    """A table, found where it is and not where it was made."""
    async with await iceberg.open((HOME / name).as_uri(), moved=True) as table:
        yield table


@pytest.mark.parametrize("name", NAMES)
async def test_rows_are_those_of_spark(name: str) -> None:
    """A scan gives Spark's columns and rows, whatever was deleted, evolved or upgraded."""
    async with opened(name) as table:
        same_rows(await table.scan().to_arrow(), expected_of(HOME / name)["current"])


@pytest.mark.parametrize("name", NAMES)
async def test_versions_are_those_of_spark(name: str) -> None:
    """Each snapshot, tag and branch reads as Spark reads it."""
    async with opened(name) as table:
        for answer in expected_of(HOME / name)["versions"]:
            version = {key: answer[key] for key in ("snapshot", "tag") if key in answer}
            version |= {"ref": answer["branch"]} if "branch" in answer else {}
            same_rows(await table.scan(**version).to_arrow(), answer)


@pytest.mark.parametrize("name", NAMES)
async def test_conditions_choose_the_rows_that_spark_chooses(name: str) -> None:
    """Rows under a condition are those that it is true of, and no file of theirs is left out of the plan."""
    expected = expected_of(HOME / name)
    async with opened(name) as table:
        for condition in expected["conditions"]:
            where, ids = condition["where"], condition["ids"]
            assert ids_of(await table.scan(where=where, columns=["id"]).to_arrow()) == ids, where
            plan = await table.plan(where=where)
            kept = {relative(path) for path in plan.files()["path"].to_pylist()}
            assert files_of(expected["current"], ids) <= kept, where


@pytest.mark.parametrize("name", KEPT)
async def test_times_of_a_zone_need_partitions_of_utc(name: str) -> None:
    """Timestamps of +08:00 are looked for in partitions of UTC, and in no other."""
    expected = expected_of(HOME / name)
    async with opened(name) as table:
        for condition, kept in zip(expected["conditions"], KEPT[name], strict=True):
            plan = await table.plan(where=condition["where"])
            paths = plan.files()["path"].to_pylist()
            assert {path.split("/")[-2].partition("=")[2] for path in paths} == kept, condition["where"]


@pytest.mark.parametrize("name", [name for name in NAMES if "lineage" in expected_of(HOME / name)])
async def test_lineage_is_that_of_spark(name: str) -> None:
    """Rows of version 3 have the row ids, and the commits that changed them last, that Spark reads."""
    async with opened(name) as table:
        scan = table.scan(columns=["id", "_row_id", "_last_updated_sequence_number"])
        assert rows_of(await scan.to_arrow()) == expected_of(HOME / name)["lineage"]


def test_lineage_is_known_of_some_tables() -> None:
    """Among the tables are some whose rows have lineage, and rows that an update moved to another file."""
    found = expected_of(HOME / "vectors")["lineage"]
    assert len({row_id for _, row_id, _ in found}) == len(found)
    assert len({sequence for _, _, sequence in found}) > 2
