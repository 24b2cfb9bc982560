"""Moments as callers give them: a time, a number of milliseconds, a text."""

from __future__ import annotations

import datetime as dt

from lakehouse.errors import InvalidInputError

__all__ = ["time_ms_of"]


def time_ms_of(when: dt.datetime | int | str) -> int:
    """Converts a moment into milliseconds since 1970; text is ISO 8601, in UTC if it has no zone."""
    if isinstance(when, bool) or not isinstance(when, dt.datetime | int | str):
        raise InvalidInputError(f"a timestamp is a datetime, ISO text or milliseconds, not {when!r}")
    if isinstance(when, int):
        return when
    if isinstance(when, str):
        try:
            when = dt.datetime.fromisoformat(when)
        except ValueError as error:
            raise InvalidInputError(
                f"{when!r} is not a timestamp: write it as '2026-01-31 12:00:00' or with a zone"
            ) from error
    moment = when if when.tzinfo is not None else when.replace(tzinfo=dt.UTC)
    return int(moment.timestamp() * 1000)
