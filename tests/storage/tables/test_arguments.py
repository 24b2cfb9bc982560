"""Arguments that calls on tables share: which values pass, and what is said of others."""

from __future__ import annotations

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.storage.tables.arguments import check_count, check_seconds


@pytest.mark.parametrize(("given", "seconds"), [(0, 0.0), (1, 1.0), (0.5, 0.5), (3_600, 3_600.0)])
def test_seconds_are_numbers_from_zero(given: float, seconds: float) -> None:
    """Whole numbers and others are taken, and come as floating-point numbers."""
    found = check_seconds("grace_s", given)
    assert found == seconds
    assert isinstance(found, float)


@pytest.mark.parametrize("wrong", [-1, -0.1, float("nan"), True, False, "1", b"1", [1]])
def test_what_is_no_number_of_seconds_is_refused(wrong: object) -> None:
    """Negative numbers, NaN, truth values and texts are errors that name the argument and the value."""
    with pytest.raises(InvalidInputError) as refused:
        check_seconds("grace_s", wrong)
    assert str(refused.value) == f"grace_s is a number of seconds from 0, not {wrong!r}"


@pytest.mark.parametrize("count", [1, 2, 10**12])
def test_counts_are_whole_numbers_from_one(count: int) -> None:
    """A number of things passes as it is."""
    assert check_count("retain", count) == count


@pytest.mark.parametrize("wrong", [0, -1, 1.0, float("nan"), True, "1", [1]])
def test_what_is_no_count_is_refused(wrong: object) -> None:
    """Nothing, fractions, truth values and texts are errors that name the argument and the value."""
    with pytest.raises(InvalidInputError) as refused:
        check_count("retain", wrong)
    assert str(refused.value) == f"retain is a whole number from 1, not {wrong!r}"


def test_arguments_may_be_left_out() -> None:
    """None stays None, whatever the argument."""
    assert check_seconds("grace_s", None) is None
    assert check_count("retain", None) is None
