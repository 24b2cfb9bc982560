"""Failures of DuckDB: what it says in JSON becomes a value with a place, and an error of ours.

DuckDB raises exceptions of its own where it plans, and an ``OSError`` of the same text where it streams; both
begin with the category, such as ``Binder Error:``. Its Python layer adds a few errors of Python's.

Invariant: nobody sees an exception of DuckDB, and no message names a virtual path or advises a ``SET``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.config import SqlSettings
from lakehouse.errors import (
    CorruptionError,
    InternalError,
    InvalidInputError,
    LakehouseError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.sql.engine.virtual_files import VirtualFiles

__all__ = ["SqlFailure", "SqlFailureError", "failure_of", "said_by_duckdb"]

_CATEGORY = re.compile(r"([A-Za-z][A-Za-z ]*?) Error: (.*)", re.DOTALL)
_ADVICE = re.compile(
    r"\s+(?:Candidate bindings:|Did you mean |Possible solutions:|Database is launched |"
    r"This limit was set by |Use \"SET |LINE \d+:).*",
    re.DOTALL,
)
"""Beginnings of what DuckDB adds: near names, which a failure has apart, and settings that are locked."""
_OF_A_FUNCTION = re.compile(r"^Python exception occurred while executing the UDF: \w+: ")
_USERS = frozenset(
    {
        *(
            "parser",
            "syntax",
            "binder",
            "catalog",
            "conversion",
            "invalid input",
            "out of range",
            "constraint",
        ),
        *("not implemented", "dependency", "divide by zero", "mismatch type", "invalid type", "expression"),
        *("parameter not resolved", "parameter not allowed", "sequence", "settings", "missing extension"),
    }
)
"""Categories of what is wrong with a statement."""
_FATAL = frozenset({"fatal", "internal"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFailure:
    """An objection of DuckDB to a statement, and its place in the text that DuckDB was given."""

    category: str
    """DuckDB's word in lower case, such as ``binder``."""
    message: str
    offset: int | None = None
    """First byte of the place in the text; None = nowhere in particular."""
    length: int = 0
    """Bytes of the place."""
    candidates: tuple[str, ...] = ()
    """Near names, where a name is unknown."""

    @property
    def is_fatal(self) -> bool:
        """Whether the instance cannot be used any more."""
        return self.category in _FATAL

    def to_error(self, settings: SqlSettings, files: VirtualFiles) -> LakehouseError:
        """The error to raise, with this value as its context ``failure``."""
        key, message = files.named_in(self.message)
        context: dict[str, Any] = {"failure": replace(self, message=message)}
        if self.category == "out of memory":
            return UnavailableError(_memory_message(message, settings), kind="out-of-memory", **context)
        if self.category == "interrupt":
            if "execution time" in message:
                return UnavailableError("the statement took longer than it may", kind="timeout", **context)
            return UnavailableError("the statement was interrupted", kind="interrupted", **context)
        if self.category == "permission" or (self.category == "io" and "No files found" in message):
            return PermissionDeniedError(f"SQL reads nothing by its path here: {message}", **context)
        if key is not None:
            return CorruptionError(f"{key} cannot be read: {message}", key=key, **context)
        if self.category in _USERS:
            return InvalidInputError(message, **context)
        if self.category == "io":
            return UnavailableError(f"DuckDB cannot spill, or read what it spilled: {message}", **context)
        return InternalError(f"DuckDB failed ({self.category}): {message}", **context)


def _memory_message(message: str, settings: SqlSettings) -> str:
    if "offload" in message:
        return (
            f"the statement spills more to the disk than sql.spill_bytes ({settings.spill_bytes:,}) allows: "
            f"raise it, or read less. {message}"
        )
    return (
        f"the statement needs more memory than sql.memory_bytes ({settings.memory_bytes:,}) has left for it: "
        f"raise it, run fewer statements at once, or read less. {message}"
    )


def failure_of(error: BaseException) -> SqlFailure | None:
    """Returns the objection of DuckDB that an error was raised for; None for other errors."""
    failure = error.context.get("failure") if isinstance(error, LakehouseError) else None
    return failure if isinstance(failure, SqlFailure) else None


class SqlFailureError(Exception):
    """Carries a failure to the end of its thread, where it becomes an error of ours."""

    def __init__(self, failure: SqlFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@contextmanager
def said_by_duckdb(moved: int = 0) -> Iterator[None]:
    """Makes one exception of all that DuckDB, its Python layer and pyarrow raise in the block.

    Args:
        moved: bytes that were put before the text of which the failure is to tell the place.
    """
    try:
        yield
    except (LakehouseError, SqlFailureError):
        raise
    except Exception as caught:  # noqa: BLE001  DuckDB's Python layer raises errors without a common root
        failure = _read(caught)
    else:
        return
    if failure.offset is not None and moved:
        failure = replace(failure, offset=max(failure.offset - moved, 0))
    raise SqlFailureError(failure)


def _read(error: Exception) -> SqlFailure:
    text = str(error)
    match = _CATEGORY.match(text)
    category, rest = (match[1], match[2]) if match else ("", text)
    said = _read_json(rest)
    if not category and not said:
        category = "invalid input" if isinstance(error, TypeError | ValueError) else type(error).__name__
    offset, length = _place(str(said.get("location", "")))
    message = str(said.get("exception_message", rest))
    return SqlFailure(
        # Some errors are nothing but the JSON.
        category=(category or str(said.get("exception_type", ""))).lower(),
        message=_OF_A_FUNCTION.sub("", _ADVICE.sub("", message)).strip(),
        offset=offset,
        length=length,
        candidates=tuple(name for name in str(said.get("candidates", "")).split(",") if name),
    )


def _read_json(text: str) -> dict[str, Any]:
    """Facts of an error that DuckDB tells as JSON; none of one that it tells as text."""
    try:
        said = json.loads(text) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _place(location: str) -> tuple[int | None, int]:
    match = re.fullmatch(r"\[(\d+),(\d+)\]", location)
    return (int(match[1]), int(match[2])) if match else (None, 0)
