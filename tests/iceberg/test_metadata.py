"""Time travel over the metadata of a table."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.errors import CorruptionError, NotFoundError
from lakehouse.iceberg.metadata import IcebergSnapshot
from lakehouse.iceberg.metadata_json import decode_metadata
from tests.kit.iceberg_metadata import FIRST, SECOND, document, encoded


def _table(**changes: Any) -> Any:
    return decode_metadata(encoded(document(**changes)), "t/metadata/v1.metadata.json")


def test_a_snapshot_is_found_by_its_id() -> None:
    """An id is an id; one that is not there is an error that lists those that are."""
    assert _table().snapshot_by_id(FIRST).id == FIRST
    with pytest.raises(NotFoundError, match=f"no snapshot 5.*there are {FIRST}, {SECOND}"):
        _table().snapshot_by_id(5)


@pytest.mark.parametrize(
    ("moment", "found"),
    [(1515100955770, FIRST), (1555100955769, FIRST), (1555100955770, SECOND), (1999999999999, SECOND)],
)
def test_a_moment_has_the_snapshot_that_was_current_then(moment: int, found: int) -> None:
    """From the millisecond of its commit a snapshot is the current one, until the next one's."""
    assert _table().snapshot_at(moment).id == found


def test_a_rollback_is_history_too() -> None:
    """What counts is the log and not when a snapshot was made: a table may go back to an older one."""
    log = [
        {"snapshot-id": number, "timestamp-ms": at} for number, at in ((FIRST, 1), (SECOND, 2), (FIRST, 3))
    ]
    table = _table(snapshot_log=log)
    assert [table.snapshot_at(at).id for at in (1, 2, 3)] == [FIRST, SECOND, FIRST]


def test_before_the_log_nothing_was_current() -> None:
    """A moment before the first entry is an error that says where the log begins."""
    with pytest.raises(NotFoundError, match=r"the log of snapshots begins at 2018-01-04T21:22:35\.770"):
        _table().snapshot_at(1515100955769)
    with pytest.raises(NotFoundError, match="the log of snapshots has none"):
        _table(snapshot_log=[]).snapshot_at(1)


def test_an_expired_snapshot_of_the_log_is_not_found() -> None:
    """The log may outlive its snapshots."""
    table = _table(snapshot_log=[{"snapshot-id": 9, "timestamp-ms": 1}])
    with pytest.raises(NotFoundError, match="no snapshot 9, it may have expired"):
        table.snapshot_at(1)


def test_branches_and_tags_are_found_by_name() -> None:
    """A name has one snapshot; asked for as what it is not, or misspelt, it is not found."""
    table = _table()
    assert table.snapshot_of_ref("main").id == SECOND
    assert table.snapshot_of_ref("old", "tag").id == FIRST
    with pytest.raises(NotFoundError, match=r"no branch 'old' \('old' is a tag\); there are main"):
        table.snapshot_of_ref("old", "branch")
    with pytest.raises(NotFoundError, match="no branch or tag 'odl'; there are main, old; did you mean"):
        table.snapshot_of_ref("odl")


def test_main_of_an_empty_table_has_no_snapshot() -> None:
    """A table without commits is read as one without rows."""
    assert _table(current_snapshot_id=None, refs={}, snapshots=[]).snapshot_of_ref("main") is None


def test_a_snapshot_has_the_schema_of_its_time() -> None:
    """Where a snapshot does not tell, the current schema counts; one that is gone is corruption."""
    table = _table()
    assert table.schema_of(None).id == 1
    assert table.schema_of(table.snapshots[FIRST]).id == 1
    assert table.schema_of(IcebergSnapshot(id=1, timestamp_ms=1, schema_id=0)).id == 0
    with pytest.raises(CorruptionError, match="has schema 8, which the metadata lack"):
        table.schema_of(IcebergSnapshot(id=1, timestamp_ms=1, schema_id=8))
