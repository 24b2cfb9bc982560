"""Functions that take the arguments of another."""

from __future__ import annotations

import inspect

from lakehouse.spark.jobs.enumeration import collect_index_metas, index_metas
from lakehouse.spark.reading.joins import join, plan_join
from lakehouse.spark.runtime.arguments import with_arguments_of


def _sum(first: int, *, second: int = 2) -> int:
    return first + second


@with_arguments_of(_sum)
def _sum_as_text(total: int) -> str:
    """Says a sum."""
    return str(total)


def test_the_result_of_one_is_what_the_other_gets() -> None:
    """The first is called with the arguments, the second with what it returns."""
    assert (_sum_as_text(1), _sum_as_text(1, second=5)) == ("3", "6")
    assert _sum_as_text.__doc__ == "Says a sum."


def test_it_shows_the_arguments_of_the_first() -> None:
    """Signatures are those of the first with the result of the second."""
    assert str(inspect.signature(_sum_as_text)) == "(first: 'int', *, second: 'int' = 2) -> 'str'"
    assert inspect.signature(join).parameters == inspect.signature(plan_join).parameters
    named = inspect.signature(collect_index_metas)
    assert named.parameters == inspect.signature(index_metas).parameters
    assert named.return_annotation == "IndexMetas"
