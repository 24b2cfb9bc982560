"""Memtables of a streaming writer: when they are closed, and how many may wait."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from lakehouse.format.metadata.wal_segment import SegmentHeader, WalBatch, WalSegment
from lakehouse.storage.write.memtable import Memtables


def segment(number: int) -> WalSegment:
    """A segment of one row."""
    header = SegmentHeader(
        table=uuid.UUID(int=1), number=number, epoch=1, token="0" * 32, time_ms=0, schema_id=0
    )
    return WalSegment(header=header, batches=(WalBatch(rows=pa.table({"id": [number]})),))


@pytest.mark.parametrize("waiting", [1, 3])
def test_no_more_memtables_wait_than_are_allowed_to(waiting: int) -> None:
    """At the bound the active memtable takes what comes, and is closed when the oldest was flushed."""
    memtables = Memtables(max_bytes=1 << 40, max_segments=1, max_waiting=waiting)
    for number in range(waiting):
        assert memtables.has_room
        assert memtables.add(segment(number), 0.0)
    assert not memtables.has_room
    assert not memtables.add(segment(waiting), 0.0)
    assert not memtables.add(segment(waiting + 1), 0.0)
    assert not memtables.close()
    assert memtables.waiting == waiting
    oldest = memtables.oldest()
    assert oldest is not None
    memtables.flushed(oldest)
    assert memtables.waiting == waiting
    assert [one.header.number for one in memtables.segments()] == list(range(1, waiting + 2))
    assert [len(one.segments) for one in memtables.all()] == [1] * (waiting - 1) + [2]


def test_a_memtable_of_newer_segments_stays_open() -> None:
    """A flush up to some segment closes no memtable that holds only newer ones."""
    memtables = Memtables(max_bytes=1 << 40, max_segments=10, max_waiting=3)
    memtables.add(segment(5), 0.0)
    assert not memtables.close(upto=4)
    assert memtables.close(upto=5)
