"""Logging: one logger per package, facts as fields, repeated messages held back.

The library never installs a handler. ``log = get_logger(__name__)`` gives a logger
named after the sub-package (``lakehouse.io``); each call takes a fixed message and
named fields, which arrive on the record as ``record.lakehouse`` (a dict) and, for
plain formatters, at the end of the text as ``name=value``::

    log.warning("request failed, trying again", key=key, attempt=2)

The same message from the same logger is emitted at most ``BURST`` times per
``WINDOW_S`` seconds; the next one let through carries ``suppressed=N``. A store that
fails 10,000 times must not write 10,000 lines.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

__all__ = ["BURST", "WINDOW_S", "Logger", "get_logger"]

BURST = 5
"""Maximum times that one message is emitted within a window."""
WINDOW_S = 60.0
"""Length of a window in seconds."""
_MESSAGES_MAX = 1_000
"""Maximum different messages whose counts are kept."""


class Logger:
    """Structured, rate-limited front of a standard logger."""

    __slots__ = ("_logger", "_seen", "_steady")

    def __init__(self, logger: logging.Logger, *, steady: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._steady = steady
        # No lock: one held across a fork would hang the child. Threads that race here may
        # let a message more or less through, which harms nobody.
        self._seen: dict[tuple[int, str], tuple[float, int, int]] = {}

    def debug(self, message: str, /, **fields: Any) -> None:
        """Emits detail for people who debug."""
        self._emit(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        """Emits what an operator may want to know."""
        self._emit(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        """Emits what an operator should look at."""
        self._emit(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        """Emits a failure that no caller receives, such as one of a background task."""
        self._emit(logging.ERROR, message, fields)

    def event(self, name: str, /, **fields: Any) -> None:
        """Emits one of many events that are all wanted, such as a summary of each request."""
        if self._logger.isEnabledFor(logging.INFO):
            self._log(logging.INFO, name, fields)

    def _emit(self, level: int, message: str, fields: dict[str, Any]) -> None:
        if not self._logger.isEnabledFor(level):
            return
        suppressed = self._admit(level, message)
        if suppressed is None:
            return
        if suppressed:
            fields["suppressed"] = suppressed
        self._log(level, message, fields, stacklevel=4)

    def _log(self, level: int, message: str, fields: dict[str, Any], *, stacklevel: int = 3) -> None:
        tail = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        # stacklevel: the caller of warning() or event(), not this module.
        self._logger.log(level, "%s%s", message, tail, extra={"lakehouse": fields}, stacklevel=stacklevel)

    def _admit(self, level: int, message: str) -> int | None:
        """Returns how many were held back before this message, or None when it is held back too."""
        key, now = (level, message), self._steady()
        started, emitted, held = self._seen.get(key, (now, 0, 0))
        if now - started >= WINDOW_S:
            started, emitted = now, 0
        if emitted >= BURST:
            self._seen[key] = (started, emitted, held + 1)
            return None
        if key not in self._seen and len(self._seen) >= _MESSAGES_MAX:
            self._seen.clear()  # only messages made of changing text get here; memory stays bounded
        self._seen[key] = (started, emitted + 1, 0)
        return held


def _shown(value: object) -> str:
    """Returns the value's text, quoted where it would break the line or run into the next field."""
    text = str(value)
    return text if text.isprintable() and " " not in text and text else repr(text)


_loggers: dict[str, Logger] = {}


def get_logger(module: str) -> Logger:
    """Returns the logger of the sub-package that ``module`` (pass ``__name__``) belongs to."""
    name = ".".join(module.split(".")[:2])
    return _loggers.setdefault(name, Logger(logging.getLogger(name)))
