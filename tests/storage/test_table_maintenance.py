"""Maintenance as methods of a table: dry runs, repetitions, moments, and what costs are told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.storage.table import Table
from tests.kit.worlds import NAME, World, process, restored, saved, table_of

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.date32()})
DAYS = [dt.date(2026, 1, day) for day in range(1, 5)]
LATER = "2026-01-03"
Call = Callable[..., Awaitable[Any]]


async def made() -> Table:
    """A table of four days, in two commits."""
    lake = process(await restored({}))
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, primary_key=["id", "day"], partition_by="day")
    await table.append([{"id": number, "day": day} for number, day in enumerate(DAYS)])
    await table.upsert([{"id": 0, "day": DAYS[0]}])
    return table


async def damaged() -> Table:
    """The same without one of its data files."""
    table = await made()
    path = (await table.files())["path"].to_pylist()[0]
    await table.core.env.store.delete(f"{table.core.root}/{path}")
    return table


async def world_of(table: Table) -> World:
    """Every object of the table."""
    return await saved(table.core.env.store)


REWRITES: dict[str, tuple[Callable[[], Awaitable[Table]], Call]] = {
    "expire_snapshots": (made, lambda t, **how: t.expire_snapshots(retain=1, **how)),
    "remove_orphans": (made, lambda t, **how: t.remove_orphans(older_than="2020-01-01", **how)),
    "expire_partitions": (made, lambda t, **how: t.expire_partitions(LATER, **how)),
    "rescale": (made, lambda t, **how: t.rescale(2, **how)),
    "repair": (damaged, lambda t, **how: t.repair(**how)),
}


@pytest.mark.parametrize("name", REWRITES)
async def test_a_dry_run_changes_nothing_and_tells_its_cost(name: str) -> None:
    """Every method that deletes or rewrites can estimate its work first; the real call changes the table."""
    begin, call = REWRITES[name]
    table = await begin()
    before = await world_of(table)
    would = await call(table, dry_run=True)
    assert would.dry_run
    assert would.cost.requests > 0
    assert await world_of(table) == before
    done = await call(table)
    assert not done.dry_run
    assert await world_of(table) != before


@pytest.mark.parametrize("name", ["remove_orphans", "expire_partitions", "rescale", "repair"])
async def test_what_is_done_need_not_be_done_again(name: str) -> None:
    """A call that is repeated finds nothing to do and makes no snapshot."""
    begin, call = REWRITES[name]
    table = await begin()
    await call(table)
    first = await table.current_snapshot()
    again = await table_of(table.core.env.store)
    await call(again)
    assert await again.current_snapshot() == first


@pytest.mark.parametrize(
    "when",
    ["2100-01-01", "2100-01-01T01:00:00+01:00", dt.datetime(2100, 1, 1, tzinfo=dt.UTC), 4_102_444_800_000],
    ids=str,
)
async def test_a_moment_may_be_given_in_every_form(when: Any) -> None:
    """Texts, datetimes and milliseconds let the same snapshots expire."""
    table = await made()
    assert (await table.expire_snapshots(older_than=when, dry_run=True)).expired == 2
    assert (await table.expire_snapshots(older_than="2020-01-01", dry_run=True)).expired == 0


@pytest.mark.parametrize("name", ["expire_snapshots", "remove_orphans", "expire_partitions"])
async def test_what_is_no_moment_is_refused(name: str) -> None:
    """A text that is no moment is an error that shows it, and nothing is changed."""
    table = await made()
    before = await world_of(table)
    with pytest.raises(InvalidInputError, match="yesterday"):
        await getattr(table, name)(older_than="yesterday")
    assert await world_of(table) == before


async def test_a_verification_reports_and_repairs_nothing() -> None:
    """Damage is told and not raised, and the table is as it was; a repair leaves a sound newest snapshot."""
    table = await damaged()
    before = await world_of(table)
    report = await table.verify()
    assert [damage.problem.value for damage in report.damages] == ["missing"]
    assert not report.ok
    assert await world_of(table) == before
    done = await table.repair()
    assert done.snapshot is not None
    assert (await table.verify(deep=True, snapshot=await table.current_snapshot())).ok


async def test_a_sound_table_is_found_sound() -> None:
    """Read in full, a table that nothing has happened to has no damage, and its files are counted."""
    report = await (await made()).verify(deep=True)
    assert report.ok
    assert (report.deep, report.files) == (True, 5)


async def test_rows_stay_whatever_is_done_to_their_files() -> None:
    """Rescaling and expiry change no row of the newest state; expired partitions are those asked for."""
    table = await made()
    rows = sorted(row["id"] for row in await table.scan().to_pylist())
    await table.rescale(3)
    await table.expire_snapshots(retain=1, grace_s=0)
    await table.remove_orphans()
    assert sorted(row["id"] for row in await table.scan().to_pylist()) == rows
    await table.expire_partitions(LATER)
    assert sorted(row["day"] for row in await table.scan().to_pylist()) == DAYS[2:]
