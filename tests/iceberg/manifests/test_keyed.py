"""Maps of entries, turned into columns of fields."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.iceberg.manifests import UNKNOWN
from lakehouse.iceberg.manifests.keyed import KeyedBytes, KeyedCounts

_KEYS = st.integers(0, 5) | st.sampled_from([1 << 31, (1 << 62) + 1])


def _items(maps: list[list[tuple[int, object]]]) -> tuple[np.ndarray, list[object], np.ndarray]:
    lengths = np.array([len(one) for one in maps], np.int64)
    flat = [item for one in maps for item in one]
    return np.array([key for key, _ in flat], np.int64), [value for _, value in flat], lengths


def _same_keys(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[list[tuple[int, object]]]]:
    """Maps of many entries that have the same keys in the same order, as most manifests have them."""

    def maps(keys: list[int]) -> st.SearchStrategy[list[list[tuple[int, object]]]]:
        one = st.tuples(*[st.tuples(st.just(key), values) for key in keys]).map(list)
        return st.lists(one, min_size=1, max_size=6)

    return st.lists(_KEYS, min_size=1, max_size=4).flatmap(maps)


def _any_maps(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[list[tuple[int, object]]]]:
    return st.lists(st.lists(st.tuples(_KEYS, values), max_size=4), min_size=1, max_size=6) | _same_keys(
        values
    )


@given(_any_maps(st.integers(-2, 3) | st.sampled_from([200, 1 << 40])), st.data())
def test_counts_come_back(maps: list[list[tuple[int, object]]], data: st.DataObject) -> None:
    """Counts of a field are those of each map, unknown where there is none or where it is below zero."""
    keys, values, lengths = _items(maps)
    records = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=len(maps), max_size=len(maps))), np.int64
    )
    keyed = KeyedCounts.of(keys, np.array(values, np.int64), lengths, records)
    for key in {*keys.tolist(), 77}:
        expected = [max(UNKNOWN, int(dict(one).get(key, UNKNOWN))) for one in maps]  # type: ignore[call-overload]
        assert keyed.field(key, records).tolist() == expected


@given(_any_maps(st.binary(max_size=3) | st.just(b"same")))
def test_bounds_come_back(maps: list[list[tuple[int, object]]]) -> None:
    """Bounds of a field are the bytes of each map, in whatever order its keys are."""
    keys, values, lengths = _items(maps)
    sizes = np.array([len(value) for value in values], np.int64)  # type: ignore[arg-type]
    data = np.frombuffer(b"".join(values), np.uint8)  # type: ignore[arg-type]
    keyed = KeyedBytes.of(keys, data, np.cumsum(sizes) - sizes, sizes, lengths)
    assert keyed.field(77) is None
    for key in keys.tolist():
        raw = keyed.field(key)
        assert raw is not None
        rows = range(len(maps)) if raw.rows is None else raw.rows.tolist()
        found = {
            row: raw.data[start : start + length].tobytes()
            for row, start, length in zip(rows, *raw.spans(), strict=True)
        }
        assert found == {row: dict(one)[key] for row, one in enumerate(maps) if key in dict(one)}
        assert raw.width == -1 or {len(value) for value in found.values()} == {raw.width}


def test_counts_that_say_nothing_new_take_no_room() -> None:
    """A count that all files have, or that is their number of rows, is not stored for each."""
    count = 10_000
    records = np.arange(count) + 5
    keys, lengths = np.tile([1, 2, 3], count), np.full(count, 3)
    values = np.stack([np.zeros(count, np.int64), records, np.arange(count) % 100]).T.reshape(-1)
    keyed = KeyedCounts.of(keys, values, lengths, records)
    assert keyed.values.nbytes == count
    assert keyed.nbytes < count + 500
    assert keyed.field(2, records).tolist() == records.tolist()


def test_many_fields_of_few_entries_take_little_room() -> None:
    """Maps with keys of their own each take room for their items, not for every pair of entry and key."""
    count = 20_000
    keys = np.arange(count * 5, dtype=np.int64)
    lengths = np.full(count, 5)
    keyed = KeyedCounts.of(keys, keys % 7, lengths, np.ones(count, np.int64))
    assert keyed.nbytes < 50 * len(keys)
    assert keyed.field(7, np.ones(count, np.int64)).tolist()[:3] == [UNKNOWN, 0, UNKNOWN]
