"""Reports of publications, and tables that nothing publishes."""

from __future__ import annotations

import pickle

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.storage.table import Table
from lakehouse.storage.tables.open_tables import Environment, shared_table
from lakehouse.storage.tables.publishing import PublishingLag, PublishReport
from tests.kit.published import ROWS
from tests.kit.worlds import NAME, process, restored


def test_no_lag_is_false_and_says_so() -> None:
    """A lag is true exactly where something is not published."""
    assert not PublishingLag()
    assert str(PublishingLag()) == "all is published"
    assert PublishingLag(segments=1, since=3)


def test_a_lag_says_how_much_and_why() -> None:
    """The sentence has files by reason, rows, segments, and since when."""
    lag = PublishingLag(files=3, rows=10, segments=2, since=7, age_s=61, reasons={"sstable": 1, "log": 2})
    assert str(lag) == (
        "not published: 3 files (2 log, 1 sstable), 10 rows, 2 segments of the log, "
        "since snapshot 7, 61 s old"
    )


def test_a_report_says_what_was_done_and_what_would_be() -> None:
    """A dry run, a publication and one with nothing to do read differently."""
    done = PublishReport(snapshot=5, changed=True, files=2, rows=9, added=1, removed=3, manifests=1)
    assert str(done).startswith(
        "snapshot 5 published: 2 files, 9 rows (1 files added, 3 removed, 1 manifests written)"
    )
    assert str(PublishReport(snapshot=5, dry_run=True)).startswith("snapshot 5 would publish")
    assert str(PublishReport(snapshot=5)).startswith("snapshot 5 is published already")


def test_a_report_is_plain_data_too() -> None:
    """The lag stands in the report as a table of its own."""
    plain = PublishReport(snapshot=5, lag=PublishingLag(files=1, since=2)).as_dict()
    assert plain["lag"]["since"] == 2
    assert plain["snapshot"] == 5


async def test_a_table_without_a_lake_says_how_it_is_published() -> None:
    """Storage knows no other format, so a table that no lake has opened refuses."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    core = (await lake.create_table(NAME, ROWS)).core
    env = Environment(core.env.store, core.env.settings, core.env.clock, core.env.caches)
    with pytest.raises(InvalidInputError, match="without a lake"):
        await Table(shared_table(env, core.name, core.pointer)).publish_iceberg()


async def test_a_table_is_published_where_it_was_unpickled() -> None:
    """What publishes travels with the table to other processes."""
    lake = process(await restored({}))
    await lake.create_database("db")
    table = await lake.create_table(NAME, ROWS)
    arrived: Table = pickle.loads(pickle.dumps(table))
    assert arrived.core.env.publish is table.core.env.publish is not None
