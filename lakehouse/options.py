"""Declared options: their names, types, bounds and meanings, and how text is read as a value.

Settings, the options of tables and those of Spark sources are declared with :class:`Option`, so that the same
words mean true, the same units mean bytes and a refusal reads alike wherever an option is given.

Invariant: a value of which :meth:`Option.wanted` says nothing is of the option's type and within its bounds.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_type_hints

__all__ = ["Option", "declare", "declared"]

_TRUE = ("true", "1", "yes", "on")
_FALSE = ("false", "0", "no", "off")
# As many digits as an int64 and a double hold for sure: a text of millions of digits takes no time.
_WHOLE = re.compile(r"[0-9]{1,15}")
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_SIZE = re.compile(r"([0-9]{1,15})\s*(b|[kmg](?:i?b)?)?", re.IGNORECASE)
_UNITS = {"b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_CLASSES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "bytes": "a number of bytes, such as 128MB",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Declaration of one option."""

    name: str
    """As users write it."""
    field: str
    """Attribute that holds its value."""
    type: str
    """``int``, ``float``, ``bool`` or ``str``; an int whose field ends with ``bytes`` takes units as text."""
    default: object = None
    """Value when nothing sets it."""
    doc: str = ""
    """One sentence: what it means and in which unit."""
    low: float | None = None
    """Smallest value accepted."""
    high: float | None = None
    """Largest value accepted."""
    choices: tuple[str, ...] = ()
    """The only values accepted, read without regard to case; empty = any."""
    endless: bool = False
    """Whether the text ``inf`` says a value: no bound at all."""

    def read(self, text: str) -> Any:
        """Returns the value that a text says, or the text itself where it says none of the option's type."""
        if self.type == "str":
            return text.strip().lower() if self.choices else text
        word = text.strip().lower()
        if self.type == "bool":
            return True if word in _TRUE else False if word in _FALSE else text
        if self.type == "float":
            return float(word) if _NUMBER.fullmatch(word) or (self.endless and word == "inf") else text
        if not self._counts_bytes:
            return int(word) if _WHOLE.fullmatch(word) else text
        size = _SIZE.fullmatch(word)
        return text if size is None else int(size[1]) * (_UNITS[size[2][0]] if size[2] else 1)

    def wanted(self, value: object) -> str:
        """Returns what a value should be and is not; empty when it is."""
        # Python's booleans are numbers.
        fits = isinstance(value, _CLASSES[self.type]) and isinstance(value, bool) == (self.type == "bool")
        if not fits or (isinstance(value, float) and math.isnan(value)):
            return _WORDS["bytes" if self._counts_bytes else self.type]
        if self.low is not None and value < self.low:  # type: ignore[operator]
            return f"at least {self.low}"
        if self.high is not None and value > self.high:  # type: ignore[operator]
            return f"at most {self.high}"
        return self._choices if self.choices and value not in self.choices else ""

    @property
    def _choices(self) -> str:
        return "one of " + ", ".join(self.choices) if self.choices else ""

    @property
    def _counts_bytes(self) -> bool:
        return self.type == "int" and self.field.endswith("bytes")


def declare(default: Any, doc: str, **about: Any) -> Any:
    """Returns the dataclass field of an option; ``about`` are further fields of :class:`Option`."""
    return dataclasses.field(default=default, metadata={"doc": doc, **about})


def declared(group: type) -> Iterator[dict[str, Any]]:
    """Yields what the fields of a dataclass that were declared say, as arguments of :class:`Option`."""
    hints = get_type_hints(group)
    for field in dataclasses.fields(group):
        if field.metadata:
            kind = hints[field.name].__name__
            yield {"field": field.name, "type": kind, "default": field.default, **field.metadata}
