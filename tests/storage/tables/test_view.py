"""Views: everything that one says is of its snapshot, and of the log where that was asked for."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from lakehouse.format.metadata import FileFormat
from lakehouse.storage.table import Table
from tests.kit.streaming import made, opened, some, vanish
from tests.kit.worlds import NAME, process, restored, table_of


async def written() -> Table:
    """A table of two files, between which its schema and its options changed."""
    table = await table_of(await made("append-only"))
    await table.append(some((1, "a", 1)))
    await table.add_column("c", "bigint")
    await table.set_option("delete_grace_s", 7_200)
    await table.append(some((2, "b", 2)))
    return table


async def test_an_older_view_says_what_was_true_then() -> None:
    """Schema, options and files are those of the snapshot, whatever was committed since."""
    core = (await written()).core
    older, newest = await core.view(snapshot=2), await core.newest()
    assert (older.snapshot.id, newest.snapshot.id) == (2, 5)
    assert older.schema.arrow().names == ["id", "part", "v"]
    assert newest.schema.arrow().names == ["id", "part", "v", "c"]
    assert (older.options.delete_grace_s, newest.options.delete_grace_s) == (3_600, 7_200)
    assert (len(await older.files()), len(await newest.files())) == (1, 2)


async def test_without_a_log_runs_are_files() -> None:
    """A table that never had a streaming writer has no other runs than its data files."""
    view = await (await written()).core.newest()
    assert list(await view.entries()) == list(await view.files())
    assert view.first_segment is None


async def test_rows_of_the_log_are_runs_where_they_are_asked_for() -> None:
    """The newest snapshot alone does not have them; with the log above it they stand behind the files."""
    store = await made("append-only")
    await (await table_of(store)).append(some((1, "a", 1)))
    writer = await opened(store)
    await (await writer.put(some((2, "a", 2))))
    await vanish(writer)
    core = (await table_of(store)).core
    committed, fresh = await core.newest(), await core.freshest()
    assert [entry.format for entry in await committed.entries()] == [FileFormat.PARQUET]
    assert [entry.format for entry in await fresh.entries()] == [FileFormat.PARQUET, FileFormat.WAL]
    assert list(await fresh.files()) == list(await committed.files())
    assert committed.first_segment is None
    assert fresh.fresh is not None
    assert fresh.first_segment == fresh.fresh.first


async def test_rows_that_a_commit_covered_are_runs_of_its_snapshot() -> None:
    """Segments that are covered and in no file belong to the state, without asking for the log."""
    store = await made("append-only")
    writer = await opened(store)
    await (await writer.put(some((2, "a", 2))))
    await vanish(writer)
    table = await table_of(store)
    await table.create_tag("covers")
    view = await table.core.newest()
    assert len(await view.files()) == 0
    assert [(entry.format, entry.rows) for entry in await view.entries()] == [(FileFormat.WAL, 1)]


async def test_the_age_of_rows_counts_from_the_time_of_the_snapshot() -> None:
    """Where rows are shown for some time only, a view hides those that were too old when it was made."""
    lake = process(await restored({}))
    await lake.create_database("db")
    at = pa.timestamp("ms", tz="UTC")
    options = {"record.ttl_s": 60, "record.time_field": "at"}
    schema = pa.schema({"id": pa.int64(), "at": at})
    table = await lake.create_table(NAME, schema, primary_key="id", options=options)
    view = await table.core.newest()
    made_at = dt.datetime.fromtimestamp(view.snapshot.time_ms / 1000, dt.UTC)
    ages = pa.array([made_at - dt.timedelta(seconds=age) for age in (59, 61)], at)
    assert view.shows is not None
    assert view.shows.shown(pa.table({"at": ages})).to_pylist() == [True, False]


async def test_rows_without_an_end_are_all_shown() -> None:
    """A table without a record TTL hides no row."""
    assert (await (await written()).core.newest()).shows is None
