"""Merging of several conditions on one value into one: narrows ranges, cuts down lists of values.

Invariant: the result is fulfilled by exactly the values, null among them, that fulfil all (or any) of
the conditions. ``OneOf(values=())`` is fulfilled by none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lakehouse.format.fst import KeyRange
from lakehouse.format.index import AllOf, AnyOf, Condition, InRange, IsNotNull, IsNull, OneOf

__all__ = ["NO_VALUE", "all_conditions", "any_conditions", "in_range", "intersection"]

NO_VALUE = OneOf(values=())
"""Condition that no value fulfils."""


def all_conditions(conditions: Sequence[Condition]) -> Condition:
    """Returns a condition equal to all conditions together; one condition is returned as it is."""
    flat = list(_flat(conditions, AllOf))
    others: list[Condition] = [
        condition for condition in flat if not isinstance(condition, IsNull | IsNotNull | InRange | OneOf)
    ]
    if any(isinstance(condition, IsNull) for condition in flat):
        return IsNull() if all(map(_holds_for_null, flat)) else NO_VALUE
    keys: KeyRange | None = KeyRange()
    values: set[bytes] | None = None
    ranges = 0
    for condition in flat:
        if isinstance(condition, InRange):
            keys = keys and intersection(keys, condition.keys)
            ranges += 1
        elif isinstance(condition, OneOf):
            values = set(condition.values) if values is None else values & set(condition.values)
    if keys is None:
        return NO_VALUE
    if values is not None:
        left = tuple(sorted(value for value in values if in_range(value, keys)))
        others.insert(0, OneOf(values=left))
        if not left:
            return NO_VALUE
    elif ranges:
        others.insert(0, InRange(keys=keys))
    # Most conditions exclude a null by themselves; only where none of these does, IsNotNull is needed.
    if any(isinstance(condition, IsNotNull) for condition in flat) and all(map(_holds_for_null, others)):
        others.append(IsNotNull())
    return others[0] if len(others) == 1 else AllOf(conditions=tuple(others))


def any_conditions(conditions: Sequence[Condition]) -> Condition:
    """Returns a condition equal to any of the conditions; one condition is returned as it is."""
    flat = list(_flat(conditions, AnyOf))
    values = {value for condition in flat if isinstance(condition, OneOf) for value in condition.values}
    others: list[Condition] = [condition for condition in flat if not isinstance(condition, OneOf)]
    if values or not others:
        others.insert(0, OneOf(values=tuple(sorted(values))))
    return others[0] if len(others) == 1 else AnyOf(conditions=tuple(others))


def intersection(one: KeyRange, other: KeyRange) -> KeyRange | None:
    """Returns the range of the keys in both ranges; None when there can be none."""
    # In the order of pairs an open low is above a closed one, and an open high below a closed one.
    low, low_open = max((one.low, not one.low_closed), (other.low, not other.low_closed))
    highs = [(each.high, each.high_closed) for each in (one, other) if each.high is not None]
    if not highs:
        return KeyRange(low=low, low_closed=not low_open)
    high, high_closed = min(highs)
    if low > high or (low == high and (low_open or not high_closed)):
        return None
    return KeyRange(low=low, low_closed=not low_open, high=high, high_closed=high_closed)


def in_range(key: bytes, keys: KeyRange) -> bool:
    """Returns whether a key lies in a range."""
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
    for condition in conditions:
        if isinstance(condition, kind):
            yield from _flat(condition.conditions, kind)
        else:
            yield condition
