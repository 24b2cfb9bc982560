"""The end of a log: which segments a commit covers, and which snapshot is said to cover them."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.metadata.snapshot import SegmentRange
from lakehouse.storage.wal.tail import Tail, covered, wal_after
from tests.kit.table_logs import HEAD, covering


def test_a_commit_covers_what_is_above_its_parent() -> None:
    """The new range begins behind the parent's and says how many bytes it has; no number comes twice."""
    tail = Tail(after=2, sizes=(10, 20, 30))
    for upto, wanted in ((2, (3, 5, 60)), (4, (5, 5, 30))):
        (found,) = covered(covering(upto), tail, at=None)
        assert (found.first, found.last, found.size) == wanted
        assert wal_after(covering(upto), tail).upto == 5  # type: ignore[union-attr]
    for upto in (5, 9):
        assert covered(covering(upto), tail, at=None) == ()
        assert wal_after(covering(upto), tail).upto == upto  # type: ignore[union-attr]


def test_segments_keep_the_snapshot_that_covered_them_first() -> None:
    """Ranges of the parent stay with the parent that listed them; the new one names the new snapshot."""
    older = SegmentRange(first=1, last=2, size=50)
    head = dataclasses.replace(covering(2), segments=(older,))
    new = SegmentRange(first=3, last=3, size=7, at=9)
    assert covered(head, Tail(after=2, sizes=(7,)), at=9) == (
        dataclasses.replace(older, at=head.id),
        new,
    )


def test_a_table_without_a_log_covers_nothing() -> None:
    """A commit to a table that has no log names no segment, and begins no log."""
    head = dataclasses.replace(HEAD, wal=None)
    for tail in (None, Tail(after=0, sizes=(10,))):
        assert covered(head, tail, at=None) == ()
        assert wal_after(head, tail) is None


def test_a_commit_that_did_not_read_the_log_covers_no_more_than_its_parent() -> None:
    """Without a tail the covered part of the log is the parent's."""
    head = covering(4)
    assert covered(head, None, at=None) == ()
    assert wal_after(head, None) == head.wal


def test_a_range_has_the_segments_above_a_number() -> None:
    """Numbers and bytes are those of the segments left, and a number before the tail counts as its end."""
    tail = Tail(after=2, sizes=(10, 20, 30))
    whole = SegmentRange(first=3, last=5, size=60)
    assert tail.above(0) == tail.above(2) == whole
    assert tail.above(4, at=7) == SegmentRange(first=5, last=5, size=30, at=7)
    assert tail.above(5) is None
    assert Tail(after=2).above(0) is None


@given(st.lists(st.integers(1, 99), max_size=6), st.integers(0, 9), st.integers(0, 9))
def test_a_shorter_tail_is_a_beginning(sizes: list[int], after: int, upto: int) -> None:
    """What is left of a tail below a number is what a listing would have shown that ended there."""
    tail = Tail(after=after, sizes=tuple(sizes))
    short = tail.down_to(upto)
    assert short.after == after
    assert short.upto == max(after, min(upto, tail.upto))
    assert tail.sizes[: len(short.sizes)] == short.sizes
