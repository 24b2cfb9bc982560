"""Arguments that calls on tables share, checked."""

from __future__ import annotations

import math
from typing import Any

from lakehouse.errors import InvalidInputError

__all__ = ["check_count", "check_seconds", "check_staleness"]


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


def check_staleness(value: Any, *, snapshot: int | None = None, fresh: bool = False) -> float | None:
    """Returns the seconds of ``max_staleness``, or None; raises an error where it has no meaning.

    Args:
        value: the argument.
        snapshot: the argument ``snapshot`` of the same call.
        fresh: whether the call reads with ``freshness="wal"``, and another process is the log's writer.
    """
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise InvalidInputError(
            "max_staleness is a number of seconds from 0, which looks for the newest snapshot; it is not "
            f"{value!r}"
        )
    if snapshot is not None:
        raise InvalidInputError(
            f"snapshot={snapshot} is the same for ever: leave out max_staleness, or the snapshot"
        )
    if fresh:
        raise InvalidInputError(
            "freshness='wal' reads every acknowledged row, and only the process of the table's streaming "
            "writer knows the newest without a look: leave out max_staleness, or read with "
            "freshness='snapshot'"
        )
    return float(value)
