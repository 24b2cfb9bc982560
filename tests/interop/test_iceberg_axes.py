"""The Iceberg tables that Spark is asked for: every legal pair of what tables may be like meets in one."""

from __future__ import annotations

import itertools

from tests.interop.iceberg.axes import AXES, TRANSFORMS, legal, pairs_of, points, possible_pairs
from tests.interop.iceberg.recipes import recipe
from tests.interop.iceberg.values import POOLS, conditions, sql


def test_every_possible_pair_meets_in_a_table() -> None:
    """No two values of two axes that can stand together are never seen together."""
    met = {pair for point in points() for pair in pairs_of(point)}
    assert possible_pairs() - met == set()


def test_pairs_are_left_out_by_rule_alone() -> None:
    """A pair is impossible when its values forbid each other, or what one needs the other forbids."""
    every = {
        frozenset(((one, first), (other, second)))
        for one, other in itertools.combinations(AXES, 2)
        for first, second in itertools.product(AXES[one], AXES[other])
    }
    left_out = {tuple(sorted(value for _, value in pair)) for pair in every - possible_pairs()}
    transforms = {
        tuple(sorted((transform, kind)))
        for transform, kinds in TRANSFORMS.items()
        for kind in set(AXES["type"]) - set(kinds)
    }
    fixed = set(AXES["type"]) - {"int", "float", "decimal"}
    promoted = {
        tuple(sorted(("source promoted", value))) for value in (*fixed, "year", "month", "day", "hour")
    }
    unpartitioned = {("none", spec) for spec in ("removed", "replaced", "source promoted", "source renamed")}
    versions = {("1", deletes) for deletes in ("by file", "by partition", "equality", "vectors")}
    versions |= {("2", "vectors"), ("3", "by file"), ("3", "by partition")}
    assert left_out == transforms | promoted | unpartitioned | versions


def test_there_are_at_least_ninety_legal_tables() -> None:
    """Each table has a value of each axis, and all of them can stand together."""
    assert len(points()) >= 90
    assert all(tuple(point) == tuple(AXES) and legal(point) for point in points())


def test_each_table_is_asked_four_conditions_or_more() -> None:
    """Conditions name columns that the table has in the end, in the words of both readers."""
    for number, point in enumerate(points()):
        made = recipe(point)
        asked = conditions(number, point["type"], made.key, made.name)
        assert len(asked) >= 4
        for condition in asked:
            for text in (sql(condition, spark=True), sql(condition, spark=False)):
                assert made.key in text or str(made.name) in text


def test_values_are_in_order() -> None:
    """Ranges take their lower end from the front of a pool."""
    assert POOLS["date"] == tuple(sorted(POOLS["date"]))
    assert POOLS["timestamp"] == tuple(sorted(POOLS["timestamp"]))
    assert [float(text) for text in POOLS["double"][:-1]] == sorted(map(float, POOLS["double"][:-1]))
    for kind in ("int", "long"):
        assert [int(text) for text in POOLS[kind]] == sorted(map(int, POOLS[kind]))
