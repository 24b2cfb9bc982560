"""Values that are computed from several rows of a key: exact where there is room, errors where not."""

from __future__ import annotations

import random
from decimal import Context, Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.format.schema import Aggregate, ColumnRule
from lakehouse.storage.merge.computed_values import OutOfRange, computed, own_value
from lakehouse.storage.merge.key_groups import KeyGroups

LISTS, MAPS = pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())
BIG = 2**63 - 1


def grouped(kind: pa.DataType, groups: list[list[Any]]) -> tuple[pa.Array, KeyGroups]:
    """Returns the values of all groups as a column, and the groups."""
    sizes = [len(group) for group in groups]
    ends = np.cumsum(sizes)
    column = pa.array([value for group in groups for value in group], kind)
    return column, KeyGroups(rows=np.arange(len(column)), begins=ends - sizes)


def result(kind: pa.DataType, groups: list[list[Any]], aggregate: Aggregate, **how: Any) -> list[Any]:
    """Returns the value of each group, after a look at the type."""
    found = computed(*grouped(kind, groups), ColumnRule(aggregate=aggregate, **how))
    found.validate(full=True)
    assert found.type == kind
    values: list[Any] = found.to_pylist()
    return values


@pytest.mark.parametrize(
    ("kind", "aggregate", "groups", "values"),
    [
        (pa.int32(), Aggregate.SUM, [[1, None, 2], [None, None], [-5]], [3, None, -5]),
        (pa.int64(), Aggregate.COUNT, [[1, 0, 1], [0]], [2, 0]),
        (pa.int16(), Aggregate.PRODUCT, [[3, None, -4], [None], [0, 7]], [-12, None, 0]),
        (pa.float32(), Aggregate.SUM, [[0.5, 0.25], [None]], [0.75, None]),
        (pa.float64(), Aggregate.PRODUCT, [[1e300, 1e300], [2.0, None]], [float("inf"), 2.0]),
    ],
)
def test_numbers_are_added_and_multiplied(
    kind: pa.DataType, aggregate: Aggregate, groups: list[list[Any]], values: list[Any]
) -> None:
    """Nulls are passed over, and a group of nulls alone has no value."""
    assert result(kind, groups, aggregate) == values


def test_rows_are_taken_by_their_numbers() -> None:
    """Values are those of the rows that groups name, in whatever order these stand in the column."""
    groups = KeyGroups(rows=np.array([3, 0, 2]), begins=np.array([0, 2]))
    rule = ColumnRule(aggregate=Aggregate.LISTAGG)
    assert computed(pa.array(["a", "b", "c", "d"]), groups, rule).to_pylist() == ["d,a", "c"]


@pytest.mark.parametrize(
    ("aggregate", "values", "value"),
    [
        (Aggregate.SUM, [BIG, BIG, -BIG], BIG),
        (Aggregate.SUM, [-BIG, -1], -BIG - 1),
        (Aggregate.PRODUCT, [2**62, -2], -(2**63)),
        (Aggregate.PRODUCT, [2**40, 2**40, 0], 0),
    ],
)
def test_a_result_that_has_room_is_exact(aggregate: Aggregate, values: list[int], value: int) -> None:
    """Results at the border of 64 bits are right, also where a step on the way lies beyond it."""
    assert result(pa.int64(), [[1], values], aggregate) == [1, value]


@pytest.mark.parametrize(
    ("kind", "aggregate", "values", "value"),
    [
        (pa.int8(), Aggregate.SUM, [100, 28], 128),
        (pa.int32(), Aggregate.PRODUCT, [2**30, -3], -3 * 2**30),
        (pa.int64(), Aggregate.SUM, [BIG, 1], 2**63),
        (pa.int64(), Aggregate.SUM, [-BIG, -2], -(2**63) - 1),
        (pa.int64(), Aggregate.PRODUCT, [2**32, 2**31], 2**63),
        (pa.decimal128(3, 2), Aggregate.SUM, [Decimal("-9.99"), Decimal("-0.01")], "-10.00"),
        (
            pa.decimal128(38, 0),
            Aggregate.SUM,
            [Decimal(10**38 - 1), Decimal(1)],
            f"1{'0' * 38}",
        ),
    ],
)
def test_a_result_without_room_names_group_and_value(
    kind: pa.DataType, aggregate: Aggregate, values: list[Any], value: Any
) -> None:
    """A result that its column has no room for is an error with the group and the exact number."""
    one = values[:1]
    with pytest.raises(OutOfRange) as caught:
        result(kind, [one, one, values, one], aggregate)
    assert (caught.value.place, caught.value.value) == (2, value)


def test_decimals_are_added_exactly() -> None:
    """Sums of decimals of any size and sign carry over all their 128 bits."""
    chance = random.Random(1)
    exact = Context(prec=60)

    def value() -> Decimal | None:
        unscaled = chance.randint(-(10**36), 10**36)
        return None if unscaled % 9 == 0 else Decimal(unscaled).scaleb(-4, exact)

    groups = [[value() for _ in range(chance.randint(1, 9))] for _ in range(60)]
    given = [[value for value in group if value is not None] for group in groups]
    expected = [reduce(exact.add, values) if values else None for values in given]
    assert result(pa.decimal128(38, 4), groups, Aggregate.SUM) == expected


def test_texts_are_joined() -> None:
    """Texts of a group are joined in their order with the delimiter; null is no text, an empty one is."""
    groups = [["a", None, "b"], [None], ["", "c"], [""]]
    assert result(pa.string(), groups, Aggregate.LISTAGG, delimiter="; ") == ["a; b", None, "; c", ""]


@pytest.mark.parametrize(
    ("distinct", "values"),
    [(False, [[1, 2, 2, None, 1], None, []]), (True, [[1, 2, None], None, []])],
)
def test_lists_are_collected(distinct: bool, values: list[Any]) -> None:
    """Elements of a group's lists follow each other; a distinct one stands where it first came."""
    groups = [[[1, 2], None, [2, None, 1]], [None, None], [[], None]]
    assert result(LISTS, groups, Aggregate.COLLECT, distinct=distinct) == values


def test_repetitions_are_looked_for_within_a_group() -> None:
    """An element of one group is none of another's, however many different elements there are."""
    groups = [[[1, 2, 3]], [[3], [2, 3]], [[1], [1]]]
    assert result(LISTS, groups, Aggregate.COLLECT, distinct=True) == [[1, 2, 3], [3, 2], [1]]


def test_maps_are_merged() -> None:
    """Each key of a group's maps has its newest entry, in the place of that entry."""
    groups = [[[("a", 1), ("b", 2)], None, [("a", 3)]], [None], [[]], [[("b", 9)], [("b", None)]]]
    assert result(MAPS, groups, Aggregate.MERGE_MAP) == [
        [("b", 2), ("a", 3)],
        None,
        [],
        [("b", None)],
    ]


@pytest.mark.parametrize(
    ("kind", "rule", "values", "own"),
    [
        (pa.int64(), ColumnRule(aggregate=Aggregate.COUNT), [5, None], [1, 0]),
        (pa.int64(), ColumnRule(aggregate=Aggregate.SUM), [5, None], [5, None]),
        (LISTS, ColumnRule(aggregate=Aggregate.COLLECT), [[1, 1], None], [[1, 1], None]),
        (LISTS, ColumnRule(aggregate=Aggregate.COLLECT, distinct=True), [[1, 2, 1], None], [[1, 2], None]),
        (MAPS, ColumnRule(aggregate=Aggregate.MERGE_MAP), [[("a", 1), ("a", 2)], None], [[("a", 2)], None]),
    ],
)
def test_a_row_that_stands_alone(
    kind: pa.DataType, rule: ColumnRule, values: list[Any], own: list[Any]
) -> None:
    """An incoming value becomes what the merge of its row alone comes to."""
    found = own_value(pa.chunked_array([pa.array(values, kind)]), rule)
    assert (found.type, found.to_pylist()) == (kind, own)


@pytest.mark.parametrize(
    ("kind", "rule", "values"),
    [
        (pa.int64(), ColumnRule(aggregate=Aggregate.SUM), [1, None, -7, 2**40]),
        (pa.int64(), ColumnRule(aggregate=Aggregate.PRODUCT), [3, -2, None, 5]),
        (pa.string(), ColumnRule(aggregate=Aggregate.LISTAGG), ["a", None, "b", "c"]),
        (LISTS, ColumnRule(aggregate=Aggregate.COLLECT, distinct=True), [[1, 2], [2, 3], None, [3, 1, 4]]),
        (MAPS, ColumnRule(aggregate=Aggregate.MERGE_MAP), [[("a", 1)], [("b", 2)], [("a", 3)], [("c", 4)]]),
    ],
)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_neighbours_may_be_merged_first(
    kind: pa.DataType, rule: ColumnRule, values: list[Any], cut: int
) -> None:
    """A value of results of neighbouring rows is the value of the rows themselves."""
    (whole,) = computed(*grouped(kind, [values]), rule).to_pylist()
    halves = computed(*grouped(kind, [values[:cut], values[cut:]]), rule).to_pylist()
    assert computed(*grouped(kind, [halves]), rule).to_pylist() == [whole]
