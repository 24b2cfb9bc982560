"""Pairs of data files and delete files: a join by codes, checked against every pair looked at by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.iceberg.planning.matching import NO_CODE, Pairs, joined, partition_codes, path_codes

CODES = st.lists(st.integers(NO_CODE, 3), max_size=12)


def pairs_of(pairs: Pairs) -> list[tuple[int, int]]:
    """Returns pairs as tuples."""
    return list(zip(pairs.files.tolist(), pairs.deletes.tolist(), strict=True))


@given(CODES, CODES)
def test_equal_codes_are_paired(files: list[int], deletes: list[int]) -> None:
    """Every file is paired with every delete of its code, in order; what has no code has no pair."""
    found = joined(np.array(files, np.int64), np.array(deletes, np.int64))
    expected = [
        (at, other)
        for at, code in enumerate(files)
        for other, of_delete in enumerate(deletes)
        if code == of_delete != NO_CODE
    ]
    assert pairs_of(found) == expected


def test_pairs_of_several_joins_are_in_order() -> None:
    """Pairs that are put together come by file, and by delete within one."""
    first = Pairs(np.array([0, 2]), np.array([5, 1]))
    other = Pairs(np.array([2, 0]), np.array([0, 3]))
    assert pairs_of(Pairs.of([first, other])) == [(0, 3), (0, 5), (2, 0), (2, 1)]
    assert pairs_of(Pairs.of(())) == []


def test_paths_meet_where_they_are_equal() -> None:
    """A path has the code of the delete files that name it, and none when nobody does."""
    files, deletes = path_codes(pa.array(["a", "b", "c"]), pa.array(["c", None, "a", "c"]))
    assert pairs_of(joined(files, deletes)) == [(0, 2), (2, 0), (2, 3)]


VALUES = st.lists(st.tuples(st.none() | st.integers(0, 2), st.none() | st.sampled_from("ab")), max_size=8)


@given(VALUES, VALUES)
def test_partitions_meet_where_all_values_are_equal(
    files: list[tuple[int | None, str | None]], deletes: list[tuple[int | None, str | None]]
) -> None:
    """Two partitions have one code if all their values are equal, nulls included."""

    def columns(rows: list[tuple[int | None, str | None]]) -> list[pa.Array]:
        return [
            pa.array([row[0] for row in rows], pa.int32()),
            pa.array([row[1] for row in rows], pa.string()),
        ]

    codes = partition_codes(columns(files), columns(deletes), len(files), len(deletes))
    expected = [
        (at, other) for at, one in enumerate(files) for other, two in enumerate(deletes) if one == two
    ]
    assert pairs_of(joined(*codes)) == expected


def test_partitions_meet_across_a_promotion() -> None:
    """A value that was written as an int equals the same value written as a long."""
    narrow, wide = pa.array([1, 2], pa.int32()), pa.array([2, 1 << 40], pa.int64())
    assert pairs_of(joined(*partition_codes([narrow], [wide], 2, 2))) == [(1, 0)]
    assert pairs_of(joined(*partition_codes([wide], [narrow], 2, 2))) == [(0, 1)]


def test_without_fields_there_is_one_partition() -> None:
    """Files of a spec without fields are all of one partition."""
    assert pairs_of(joined(*partition_codes([], [], 1, 2))) == [(0, 0), (0, 1)]
