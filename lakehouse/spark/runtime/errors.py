"""Errors of the engine on their way through Spark: described in full by workers, raised again in the driver.

A Python worker's exception reaches the driver as the text of a traceback within an exception of
Spark. Code that runs in workers does so under :func:`carried`, which adds a line that says what text
alone would lose: the kind and the named facts. Code in the driver that makes Spark work does so under
:func:`plain_errors`, which raises our error again, from Spark's.

Invariant: what is raised has the class, kind, message and facts that it had in the worker (facts that
JSON cannot hold as their ``repr``). An exception of Spark with no error of ours in it stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException

from lakehouse import errors
from lakehouse.errors import LakehouseError

__all__ = ["carried", "error_in", "plain_errors"]

_MARK = "lakehouse-error: "
_NOTE = re.compile(rf"^{_MARK}(\{{.*\}})\s*$", re.MULTILINE)
_LINE = re.compile(r"^lakehouse\.errors\.(\w+): ", re.MULTILINE)
_AFTERWARDS = re.compile(r"\n(?:\s*\n|\tat |\s*SQLSTATE|JVM stacktrace)")
"""Text that may follow a message in an exception of Spark."""
_TRACEBACK = "Traceback (most recent call last):"


@contextmanager
def carried() -> Iterator[None]:
    """Adds kind and facts to errors of the engine that pass, as text that Spark takes along; for workers.

    Example::

        def read(self, partition):
            with carried():
                yield from rows_of(partition)
    """
    try:
        yield
    except LakehouseError as error:
        # Blocks may be nested: the innermost has said it all.
        if not any(note.startswith(_MARK) for note in getattr(error, "__notes__", ())):
            error.add_note(_MARK + _note(error))
        raise


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raises an error of the engine as itself where Spark has wrapped it; for the driver.

    Example::

        with lakehouse.spark.plain_errors():
            spark.read.format("lakehouse").load("sales.order").show()
    """
    try:
        yield
    except Exception as wrapped:
        error = error_in(wrapped) if _is_sparks(wrapped) else None
        if error is not None:
            raise error from wrapped
        raise


def error_in(exception: BaseException) -> LakehouseError | None:
    """Returns the error of the engine that an exception of Spark, such as ``query.exception()``, was made of.

    None where there is none.
    """
    if isinstance(exception, LakehouseError):
        return exception
    text = str(exception)
    note = _NOTE.search(text)
    if note is not None:
        error = _from_note(text, note)
        if error is not None:
            return error
    return _from_text(text)


def _is_sparks(exception: Exception) -> bool:
    # What PySpark does not translate comes from py4j, which clients of Spark Connect need not have.
    return isinstance(exception, PySparkException) or type(exception).__module__.startswith("py4j.")


def _note(error: LakehouseError) -> str:
    """Returns the text of a note, on one line: what the text of the error itself does not hold."""
    return json.dumps(
        {
            "class": type(error).__name__,
            "kind": error.kind,
            # Where the message ends in the text: other notes may follow it.
            "chars": len(str(error)),
            "context": {name: _plain(value) for name, value in error.context.items()},
        }
    )


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)


def _from_note(text: str, note: re.Match[str]) -> LakehouseError | None:
    """Rebuilds the error that a note in a text describes; None where the two do not fit together."""
    try:
        fields: dict[str, Any] = json.loads(note[1])
        name, kind, chars, context = (fields[key] for key in ("class", "kind", "chars", "context"))
    except (ValueError, LookupError):
        return None
    head = f"lakehouse.errors.{name}: "
    # The last before the note: errors that led to this one stand above it in a traceback.
    at = text.rfind(head, 0, note.start())
    if at < 0:
        return None
    begin = at + len(head)
    return _error_of(name, text[begin : begin + chars], kind, context)


def _from_text(text: str) -> LakehouseError | None:
    """Finds the error that ended a traceback of code that was not under :func:`carried`."""
    lines = list(_LINE.finditer(text))
    if not lines:
        return None
    last = lines[-1]
    rest = text[last.end() :]
    if _TRACEBACK in rest:
        return None  # something else came of it
    end = _AFTERWARDS.search(rest)
    return _error_of(last[1], (rest if end is None else rest[: end.start()]).rstrip(), None, {})


def _error_of(name: str, message: str, kind: str | None, context: dict[str, Any]) -> LakehouseError:
    cls = getattr(errors, name, None)
    if not (isinstance(cls, type) and issubclass(cls, LakehouseError)):
        cls = LakehouseError  # of a newer release
    error = cls(message, **context)
    if kind is not None:
        error.kind = kind  # not checked: workers may have a newer release
    return error
