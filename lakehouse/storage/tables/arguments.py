"""Arguments that calls on tables share, checked."""

from __future__ import annotations

from lakehouse.errors import InvalidInputError

__all__ = ["check_count", "check_seconds"]


def check_seconds(name: str, value: object) -> float | None:
    """Returns a number of seconds from 0, or None; raises an error that names the argument."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidInputError(f"{name} is a number of seconds from 0, not {value!r}")
    return float(value)


def check_count(name: str, value: object) -> int | None:
    """Returns a whole number from 1, or None; raises an error that names the argument."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{name} is a whole number from 1, not {value!r}")
    return value
