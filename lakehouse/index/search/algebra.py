"""Several conditions on one value as one: ranges narrowed, lists of values cut down.

Invariant: the result is fulfilled by exactly the values, null among them, that fulfil all (or any) of
the conditions. ``OneOf(values=())`` is fulfilled by none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lakehouse.format.fst import KeyRange
from lakehouse.format.index import AllOf, AnyOf, Condition, InRange, IsNotNull, IsNull, OneOf

__all__ = ["NO_VALUE", "all_conditions", "any_conditions", "in_range", "intersection"]

NO_VALUE = OneOf(values=())
"""Fulfilled by no value."""


def all_conditions(conditions: Sequence[Condition]) -> Condition:
    """Fulfilled by what fulfils every condition; of one, it is that one."""
    flat = list(_flat(conditions, AllOf))
    others: list[Condition] = [
        one for one in flat if not isinstance(one, IsNull | IsNotNull | InRange | OneOf)
    ]
    if any(isinstance(one, IsNull) for one in flat):
        return IsNull() if all(map(_holds_for_null, flat)) else NO_VALUE
    keys: KeyRange | None = KeyRange()
    values: set[bytes] | None = None
    ranges = 0
    for one in flat:
        if isinstance(one, InRange):
            keys = keys and intersection(keys, one.keys)
            ranges += 1
        elif isinstance(one, OneOf):
            values = set(one.values) if values is None else values & set(one.values)
    if keys is None:
        return NO_VALUE
    if values is not None:
        found = tuple(sorted(value for value in values if in_range(value, keys)))
        others.insert(0, OneOf(values=found))
        if not found:
            return NO_VALUE
    elif ranges:
        others.insert(0, InRange(keys=keys))
    # Most conditions refuse a null by themselves; where none of these does, it has to be said.
    if any(isinstance(one, IsNotNull) for one in flat) and all(map(_holds_for_null, others)):
        others.append(IsNotNull())
    return others[0] if len(others) == 1 else AllOf(conditions=tuple(others))


def any_conditions(conditions: Sequence[Condition]) -> Condition:
    """Fulfilled by what fulfils some condition; of one, it is that one."""
    flat = list(_flat(conditions, AnyOf))
    values = {value for one in flat if isinstance(one, OneOf) for value in one.values}
    others: list[Condition] = [one for one in flat if not isinstance(one, OneOf)]
    if values or not others:
        others.insert(0, OneOf(values=tuple(sorted(values))))
    return others[0] if len(others) == 1 else AnyOf(conditions=tuple(others))


def intersection(one: KeyRange, other: KeyRange) -> KeyRange | None:
    """The keys in both ranges; None when there can be none."""
    low, low_open = max((one.low, not one.low_closed), (other.low, not other.low_closed))
    highs = [(each.high, each.high_closed) for each in (one, other) if each.high is not None]
    if not highs:
        return KeyRange(low=low, low_closed=not low_open)
    high, high_closed = min(highs)
    if low > high or (low == high and (low_open or not high_closed)):
        return None
    return KeyRange(low=low, low_closed=not low_open, high=high, high_closed=high_closed)


def in_range(key: bytes, keys: KeyRange) -> bool:
    """Whether a key lies in a range."""
    if key < keys.low or (key == keys.low and not keys.low_closed):
        return False
    return keys.high is None or key < keys.high or (key == keys.high and keys.high_closed)


def _holds_for_null(condition: Condition) -> bool:
    if isinstance(condition, AnyOf):
        return any(map(_holds_for_null, condition.conditions))
    if isinstance(condition, AllOf):
        return all(map(_holds_for_null, condition.conditions))
    return isinstance(condition, IsNull)


def _flat(conditions: Iterable[Condition], kind: type[AllOf | AnyOf]) -> Iterator[Condition]:
    for one in conditions:
        if isinstance(one, kind):
            yield from _flat(one.conditions, kind)
        else:
            yield one
