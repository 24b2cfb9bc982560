"""Moments as callers give them become milliseconds since 1970."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.storage.tables.moments import time_ms_of

NOON_MS = 1_769_860_800_000
"""2026-01-31 12:00:00 UTC."""


@pytest.mark.parametrize(
    "when",
    [
        NOON_MS,
        "2026-01-31 12:00:00",
        "2026-01-31T12:00:00Z",
        "2026-01-31T13:00:00+01:00",
        dt.datetime(2026, 1, 31, 12),
        dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 31, 7, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
    ],
    ids=str,
)
def test_every_form_of_a_moment_is_the_same_moment(when: dt.datetime | int | str) -> None:
    """Numbers are milliseconds, texts and datetimes without a zone are in UTC, others in their zone."""
    assert time_ms_of(when) == NOON_MS


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's clock shows the time of a zone that is hours away from UTC."""
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_away")
def test_the_zone_of_the_machine_does_not_matter() -> None:
    """A moment without a zone is in UTC wherever it is given."""
    assert time_ms_of("2026-01-31 12:00:00") == time_ms_of(dt.datetime(2026, 1, 31, 12)) == NOON_MS


def test_a_day_is_its_beginning() -> None:
    """A text that names a day alone is the midnight at which it begins."""
    assert time_ms_of("2026-01-31") == NOON_MS - 12 * 3_600_000


def test_milliseconds_are_kept_and_finer_parts_left_out() -> None:
    """A moment between two milliseconds is the earlier one."""
    assert time_ms_of("2026-01-31 12:00:00.123456") == NOON_MS + 123


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "31.01.2026"])
def test_a_text_that_is_no_moment_is_refused(text: str) -> None:
    """The error shows the text and how a moment is written."""
    with pytest.raises(InvalidInputError, match="write it as '2026-01-31 12:00:00'") as refused:
        time_ms_of(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("wrong", [True, 1.5, None, dt.date(2026, 1, 31), b"2026-01-31"])
def test_what_is_no_moment_at_all_is_refused(wrong: object) -> None:
    """Truth values, fractions and days as such are errors that say what a moment is."""
    with pytest.raises(InvalidInputError, match="a timestamp is a datetime, ISO text or milliseconds"):
        time_ms_of(wrong)  # type: ignore[arg-type]
