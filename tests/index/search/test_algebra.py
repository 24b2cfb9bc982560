"""Conditions on one value, put together: fulfilled by what fulfils all of them, or any."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.fst.read import KeyRange
from lakehouse.format.index.inverted_search import (
    AllOf,
    AnyOf,
    Condition,
    InRange,
    IsNotNull,
    IsNull,
    MatchesRegex,
    OneOf,
)
from lakehouse.index.search.algebra import NO_VALUE, all_conditions, any_conditions

VALUES = [None, *(text.encode() for text in ("", "a", "ab", "b", "ba", "c"))]
keys = st.sampled_from([value for value in VALUES if value is not None])
leaves: st.SearchStrategy[Condition] = st.one_of(
    st.lists(keys, max_size=3).map(lambda found: OneOf(values=tuple(found))),
    st.builds(
        KeyRange, low=keys, low_closed=st.booleans(), high=st.none() | keys, high_closed=st.booleans()
    ).map(lambda found: InRange(keys=found)),
    st.sampled_from([MatchesRegex(pattern="a"), MatchesRegex(pattern="b", whole=True)]),
    st.just(IsNull()),
    st.just(IsNotNull()),
)
conditions: st.SearchStrategy[Condition] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from([AllOf(conditions=tuple(parts)), AnyOf(conditions=tuple(parts))])
    ),
    max_leaves=5,
)


def fulfils(value: bytes | None, condition: Condition) -> bool:
    """Whether a value fulfils a condition, by the words of its class."""
    match condition:
        case AllOf(conditions=parts):
            return all(fulfils(value, part) for part in parts)
        case AnyOf(conditions=parts):
            return any(fulfils(value, part) for part in parts)
        case IsNull():
            return value is None
        case _ if value is None:
            return False
        case OneOf(values=values):
            return value in values
        case MatchesRegex(pattern=pattern, whole=whole):
            find = re.fullmatch if whole else re.search
            return find(pattern, value.decode()) is not None
        case InRange(keys=found):
            above = value > found.low or (found.low_closed and value == found.low)
            high = found.high
            return above and (high is None or value < high or (found.high_closed and value == high))
    return True


@given(st.lists(conditions, min_size=1, max_size=4))
def test_conditions_together(parts: list[Condition]) -> None:
    """What is put together is fulfilled by exactly the values that fulfil every part, or some part."""
    every, some = all_conditions(parts), any_conditions(parts)
    for value in VALUES:
        assert fulfils(value, every) == all(fulfils(value, part) for part in parts), value
        assert fulfils(value, some) == any(fulfils(value, part) for part in parts), value


def test_ranges_become_one() -> None:
    """Two bounds make one range, values are cut down to it, and what cannot be is known to be so."""
    low, high = KeyRange(low=b"b", low_closed=False), KeyRange(high=b"d")
    both = all_conditions([InRange(keys=low), InRange(keys=high), IsNotNull()])
    assert both == InRange(keys=KeyRange(low=b"b", low_closed=False, high=b"d"))
    assert all_conditions([OneOf(values=(b"c", b"a", b"b")), both]) == OneOf(values=(b"c",))
    assert all_conditions([OneOf(values=(b"a",)), both]) == NO_VALUE
    assert all_conditions([InRange(keys=low), InRange(keys=KeyRange(high=b"b"))]) == NO_VALUE
    assert all_conditions([IsNull(), IsNotNull()]) == NO_VALUE
