"""Ranges of keys that work is cut by: every key in one, of about one size."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.storage.scan.work_ranges import cut_files, key_ranges


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=2), st.integers(1, 100)), max_size=60), st.integers(1, 400))
def test_ranges_follow_each_other(pieces: list[tuple[bytes, int]], share: int) -> None:
    """From no bound to no bound, ascending, each begins where the one before ends, none is empty."""
    ranges = key_ranges(pieces, share)
    assert ranges[0][0] is None
    assert ranges[-1][1] is None
    cuts = [high for _, high in ranges[:-1]]
    assert cuts == sorted(set(cuts)) == [low for low, _ in ranges[1:]]
    assert all(any(key >= low for key, _ in pieces) for low, _ in ranges[1:])


def test_ranges_are_of_about_one_size() -> None:
    """A thousand equal pieces in ten shares are ten ranges of a hundred."""
    pieces = [(bytes([number >> 8, number & 255]), 10) for number in range(1000)]
    sizes = [
        sum(size for key, size in pieces if (low or b"") <= key and (high is None or key < high))
        for low, high in key_ranges(pieces, 1000)
    ]
    assert len(sizes) == 10
    assert max(sizes) <= 1010
    assert min(sizes) >= 990


def test_a_file_that_was_not_opened_is_one_piece() -> None:
    """Files whose pieces are not known count with their first key and all their bytes."""
    entries = [FileEntry(path=key, size=20, rows=1, min_key=key.encode(), max_key=b"z") for key in "ap"]
    pieces = {"a": [(b"a", 10), (b"k", 10)]}
    assert cut_files(entries, 20, pieces) == [(None, b"p"), (b"p", None)]
    assert cut_files(entries[:1], 10, pieces) == [(None, b"k"), (b"k", None)]
    assert cut_files(entries[:1], 10, {}) == [(None, None)]
