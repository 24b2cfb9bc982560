"""Lookups in an FST of which some bytes are at hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError
from lakehouse.format.fst.fst import Fst, build_fst
from lakehouse.format.fst.partial import FstParts, MissingBytes

PAGE = 64
USERS = sorted(b"user-%08x" % number for number in random.Random(1).sample(range(1 << 32), 10_000))
LARGE = build_fst(USERS, random.Random(2).sample(range(1 << 20), len(USERS)))


def asked(data: bytes, keys: list[bytes], *, page: int = PAGE) -> tuple[list[int | None], int]:
    """The values of keys, fetched page by page as lookups ask for them; and how many pages that took."""
    parts = FstParts(len(data))
    held: set[int] = set()
    wanted = list(range(parts.footer[0] // page, (parts.footer[1] - 1) // page + 1))
    while True:
        assert not held.intersection(wanted), "what is at hand is not asked for again"
        for number in wanted:
            held.add(number)
            parts.add(number * page, data[number * page : (number + 1) * page])
        try:
            found, values = parts.get_many(keys)
        except MissingBytes as missing:
            wanted = sorted({place // page for place in missing.places})
        else:
            return [int(value) if hit else None for hit, value in zip(found, values, strict=True)], len(held)


@given(
    st.sets(st.binary(max_size=6), max_size=60).map(sorted),
    st.lists(st.binary(max_size=6), max_size=8),
    st.integers(1, 80),
)
def test_parts_give_the_answers_of_the_whole_map(keys: list[bytes], others: list[bytes], page: int) -> None:
    """Keys that are there and keys that are not are answered as by the whole map, however they are cut."""
    data = build_fst(keys, [number * 3 for number in range(len(keys))])
    asked_for = [*keys[:20], *others]
    whole = Fst.parse(data)
    assert asked(data, asked_for, page=page)[0] == [whole.get(key) for key in asked_for]


def test_a_lookup_reads_a_small_part() -> None:
    """One key of ten thousand takes a few percent of the map."""
    for number in (0, 4711, len(USERS) - 1):
        found, pages = asked(LARGE, [USERS[number]], page=1024)
        assert found == [Fst.parse(LARGE).get(USERS[number])]
        assert pages * 1024 * 12 < len(LARGE)


def test_several_keys_are_asked_together() -> None:
    """What lookups of several keys need next is named at once."""
    parts = FstParts(len(LARGE))
    start = parts.footer[0] - 300
    parts.add(start, LARGE[start:])
    with pytest.raises(MissingBytes) as caught:
        parts.get_many([USERS[3], USERS[-3], b"user-"])
    assert len(caught.value.places) == 2


def test_the_number_of_keys_is_in_the_footer() -> None:
    """The footer alone says how many keys there are."""
    parts = FstParts(len(LARGE))
    with pytest.raises(MissingBytes):
        _ = parts.key_count
    parts.add(parts.footer[0], LARGE[parts.footer[0] :])
    assert parts.key_count == len(USERS)


def test_a_root_in_the_wrong_place_is_damage() -> None:
    """A footer that names another root than the last node is refused."""
    start = len(LARGE) - 20
    damaged = LARGE[start : start + 8] + (99).to_bytes(8, "little") + LARGE[start + 16 :]
    parts = FstParts(len(LARGE))
    parts.add(start, damaged)
    with pytest.raises(CorruptionError, match="root"):
        parts.get_many([b"x"])


def test_too_few_bytes_are_damage() -> None:
    """What is smaller than the smallest map is refused."""
    with pytest.raises(CorruptionError, match="smallest"):
        FstParts(35)
