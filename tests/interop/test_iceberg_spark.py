"""Iceberg tables that Spark makes by Iceberg's own runtime: our rows are Spark's, our plans sound and tight.

Spark makes them once, which takes some minutes; they stay in ``.cache/iceberg-spark``.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lakehouse import iceberg
from tests.interop.iceberg.pyiceberg_plan import CannotPlan, planned
from tests.kit.spark_answers import expected_of, files_of, ids_of, python_value, relative, same_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.xdist_group("iceberg-spark")]


_EXCUSED = ("equality deletes", "infinite constant")
"""Why pyiceberg is not compared with."""


@asynccontextmanager
async def _opened(directory: Path) -> AsyncIterator[Any]:
    async with await iceberg.open(directory.as_uri()) as table:
        yield table


def _asked(
    expected: dict[str, Any],
) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[int], int | None]]:
    """Conditions that Spark was asked: answer, condition, ids of its rows, snapshot."""
    for answer in (expected["current"], *expected["versions"]):
        for condition, ids in zip(expected["conditions"], answer["ids"], strict=False):
            yield answer, condition, ids, answer.get("snapshot")


async def test_rows_are_those_of_spark(iceberg_directory: Path) -> None:
    """A scan without a condition gives Spark's columns and rows."""
    async with _opened(iceberg_directory) as table:
        same_rows(await table.scan().to_arrow(), expected_of(iceberg_directory)["current"])


async def test_versions_are_those_of_spark(iceberg_directory: Path) -> None:
    """Snapshots by id and by time, tags and branches read as Spark reads them."""
    async with _opened(iceberg_directory) as table:
        for answer in expected_of(iceberg_directory)["versions"]:
            for version in _named(answer):
                same_rows(await table.scan(**version).to_arrow(), answer)


def _named(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Ways to ask for a version."""
    if "tag" in answer:
        return [{"tag": answer["tag"]}, {"ref": answer["tag"]}]
    if "branch" in answer:
        return [{"ref": answer["branch"]}]
    when = dt.datetime.fromtimestamp(answer["current_ms"] // 1000, dt.UTC)
    when += dt.timedelta(milliseconds=answer["current_ms"] % 1000)
    return [{"snapshot": answer["snapshot"]}, {"timestamp": when}]


async def test_conditions_choose_the_rows_that_spark_chooses(iceberg_directory: Path) -> None:
    """A scan with a condition gives the rows of which Spark, without pruning, says that it is true."""
    expected, wrong = expected_of(iceberg_directory), []
    async with _opened(iceberg_directory) as table:
        for _, condition, ids, snapshot in _asked(expected):
            scan = table.scan(where=condition["where"], columns=["id"], snapshot=snapshot)
            found = ids_of(await scan.to_arrow())
            if found != ids:
                wrong.append((condition["where"], sorted(set(found) ^ set(ids))[:5], len(found), len(ids)))
    assert not wrong


async def test_plans_keep_every_file_of_a_matching_row(iceberg_directory: Path) -> None:
    """A data file that holds a matching row is in the plan, and nothing is that the version has not."""
    expected, wrong = expected_of(iceberg_directory), []
    async with _opened(iceberg_directory) as table:
        for answer, condition, ids, snapshot in _asked(expected):
            kept = await _kept(table, condition["where"], snapshot)
            lost = files_of(answer, ids) - kept
            if lost:
                wrong.append((condition["where"], snapshot, sorted(lost)))
    assert not wrong


async def test_plans_are_never_looser_than_those_of_pyiceberg(iceberg_directory: Path) -> None:
    """A data file that pyiceberg leaves out is left out, unless it holds a matching row after all."""
    expected, wrong, compared = expected_of(iceberg_directory), [], 0
    async with _opened(iceberg_directory) as table:
        for answer, condition, ids, snapshot in _asked(expected):
            try:
                paths = planned(str(iceberg_directory / expected["metadata"]), condition["tree"], snapshot)
            except CannotPlan as said:
                if not any(reason in str(said) for reason in _EXCUSED):
                    raise
                continue
            compared += 1
            kept = await _kept(table, condition["where"], snapshot)
            loose = kept - {relative(path) for path in paths} - files_of(answer, ids)
            if loose:
                wrong.append((condition["where"], snapshot, sorted(loose)))
    assert not wrong
    assert compared >= 4 or expected["point"]["deletes"] == "equality"


async def test_runtime_filters_are_as_sound_and_as_tight(iceberg_directory: Path) -> None:
    """A plan that is pruned later keeps files of matching rows, and none that pyiceberg would leave out."""
    expected, wrong, asked = expected_of(iceberg_directory), [], 0
    async with _opened(iceberg_directory) as table:
        for answer, condition, ids, snapshot in _asked(expected):
            runtime_filter = _filter_of(condition["tree"], condition["where"])
            if runtime_filter is None:
                continue
            asked += 1
            plan = (await table.plan(snapshot=snapshot)).prune([runtime_filter])
            kept = {relative(path) for path in plan.files()["path"].to_pylist()}
            needed = files_of(answer, ids)
            if not needed <= kept:
                wrong.append((str(runtime_filter), "lost", sorted(needed - kept)))
            with contextlib.suppress(CannotPlan):
                paths = planned(str(iceberg_directory / expected["metadata"]), condition["tree"], snapshot)
                loose = kept - {relative(path) for path in paths} - needed
                wrong += [(str(runtime_filter), "loose", sorted(loose))] * bool(loose)
    assert not wrong
    assert asked >= 3


def _filter_of(tree: list[Any], where: str) -> iceberg.RuntimeFilter | None:
    """A condition as a runtime filter; None where it is on several columns."""
    op, *rest = tree
    if op in ("=", "in"):
        column, kind, *values = rest
        return iceberg.RuntimeFilter.in_(column, [python_value(kind, value) for value in values])
    if op == "starts":
        return iceberg.RuntimeFilter.prefix(rest[0], rest[2])
    if op == "and" and [part[0] for part in rest] == [">=", "<="]:
        (_, column, kind, low), (_, _, _, high) = rest
        return iceberg.RuntimeFilter.range(column, python_value(kind, low), python_value(kind, high))
    return None if op in ("and", "or") else iceberg.RuntimeFilter.predicate(where)


async def _kept(table: Any, where: str, snapshot: int | None) -> set[str]:
    plan = await table.plan(where=where, snapshot=snapshot)
    return {relative(path) for path in plan.files()["path"].to_pylist()}
