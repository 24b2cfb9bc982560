"""Logging: fields reach the record, floods are held back, nobody's handlers are touched."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from lakehouse.log import BURST, WINDOW_S, Logger, get_logger


class Recorder(logging.Handler):
    """Keeps records in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Appends the record."""
        self.records.append(record)

    @property
    def texts(self) -> list[str]:
        """What a plain formatter would print."""
        return [record.getMessage() for record in self.records]


class Time:
    """A steady clock that moves when told."""

    now = 100.0

    def __call__(self) -> float:
        """The time it was moved to."""
        return self.now


@pytest.fixture
def recorder() -> Recorder:
    """Everything the logger under test emits."""
    return Recorder()


@pytest.fixture
def time() -> Time:
    """The logger's clock."""
    return Time()


@pytest.fixture
def log(recorder: Recorder, time: Time) -> Logger:
    """A logger of its own, so that tests do not meet."""
    logger = logging.Logger("lakehouse.test", level=logging.INFO)
    logger.addHandler(recorder)
    return Logger(logger, steady=time)


def test_fields_are_on_the_record(log: Logger, recorder: Recorder) -> None:
    """Programs read the fields from the record, unchanged."""
    log.warning("request failed", key="a/b", attempt=2)
    assert recorder.records[0].__dict__["lakehouse"] == {"key": "a/b", "attempt": 2}


def test_fields_are_in_the_text(log: Logger, recorder: Recorder) -> None:
    """People read the fields behind the message."""
    log.warning("request failed", key="a/b", attempt=2)
    assert recorder.texts == ["request failed key=a/b attempt=2"]


def test_a_field_cannot_break_the_line(log: Logger, recorder: Recorder) -> None:
    """Values with blanks or control characters are quoted; empty ones show."""
    log.warning("odd", key="a\nERROR forged", name="two words", empty="")
    assert recorder.texts == ["odd key='a\\nERROR forged' name='two words' empty=''"]


def test_a_percent_sign_is_text(log: Logger, recorder: Recorder) -> None:
    """Neither message nor value is taken for a format."""
    log.warning("100%s", key="%d")
    assert recorder.texts == ["100%s key=%d"]


def test_a_field_may_have_any_name(log: Logger, recorder: Recorder) -> None:
    """Fields do not clash with parameters or with attributes of a record."""
    log.warning("m", message="x", self="y", name="z", args=1)
    assert recorder.records[0].__dict__["lakehouse"] == {"message": "x", "self": "y", "name": "z", "args": 1}


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_levels(log: Logger, recorder: Recorder, level: str) -> None:
    """Each method emits at its own level."""
    getattr(log, level)("m")
    assert recorder.records[0].levelname == level.upper()


def test_a_level_that_is_off_costs_nothing(log: Logger, recorder: Recorder) -> None:
    """What is not emitted is neither formatted nor counted."""

    class Unprintable:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    log.debug("m", value=Unprintable())
    assert recorder.records == []


def test_the_record_points_at_the_caller(log: Logger, recorder: Recorder) -> None:
    """File and function of the record are those of the line that logs."""
    log.warning("m")
    assert recorder.records[0].funcName == "test_the_record_points_at_the_caller"


def test_a_flood_is_held_back(log: Logger, recorder: Recorder) -> None:
    """10,000 equal messages write only the first few lines, whatever their fields."""
    for attempt in range(10_000):
        log.warning("request failed", attempt=attempt)
    assert recorder.texts == [f"request failed attempt={n}" for n in range(BURST)]


def test_the_next_window_says_what_was_held_back(log: Logger, recorder: Recorder, time: Time) -> None:
    """The first message of a new window carries the number of those held back, once."""
    for _ in range(BURST + 7):
        log.warning("m")
    time.now += WINDOW_S
    log.warning("m")
    log.warning("m")
    assert recorder.texts[BURST:] == ["m suppressed=7", "m"]


def test_a_window_ends_not_before_its_time(log: Logger, recorder: Recorder, time: Time) -> None:
    """Just before the window ends the message is still held back."""
    for _ in range(BURST):
        log.warning("m")
    time.now += WINDOW_S - 0.001
    log.warning("m")
    assert len(recorder.records) == BURST


def test_messages_are_held_back_one_by_one(log: Logger, recorder: Recorder) -> None:
    """Another message, or the same at another level, is not held back."""
    for _ in range(BURST + 1):
        log.warning("m")
    log.warning("other")
    log.error("m")
    assert [record.levelname for record in recorder.records[BURST:]] == ["WARNING", "ERROR"]


def test_memory_is_bounded(log: Logger) -> None:
    """A caller that puts changing text into the message does not grow the logger for ever."""
    for number in range(5_000):
        log.warning(f"message {number}")
    assert len(log._seen) <= 1_000


def test_loggers_are_named_after_the_sub_package() -> None:
    """All modules of a sub-package share one logger."""
    assert get_logger("lakehouse.io.backends.s3") is get_logger("lakehouse.io.retry")
    assert get_logger("lakehouse.io.retry")._logger is logging.getLogger("lakehouse.io")
    assert get_logger("lakehouse.lake")._logger.name == "lakehouse.lake"


def test_no_handler_is_installed() -> None:
    """Importing and using loggers leaves handlers and levels to the application."""
    program = """
import logging
from lakehouse.log import get_logger
get_logger("lakehouse.io.x").info("m")
for logger in (logging.getLogger(), logging.getLogger("lakehouse"), logging.getLogger("lakehouse.io")):
    assert not logger.handlers, logger.handlers
    assert logger.level == (logging.WARNING if logger.name == "root" else logging.NOTSET)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
