"""Reading JSON that may hold anything: bounded, strict, and with errors that say where.

Readers of single values (:func:`whole`, :func:`text` …) raise ValueError that says what the value must
be; a :class:`JsonObject` adds the object's key and the member's place, and makes it a CorruptionError.

Invariant: a value that a reader returns is of the kind and in the range that it promises. Text is
UTF-8, numbers are finite, and neither the number of values nor how deep they nest is without a limit.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from lakehouse.errors import CorruptionError, UnsupportedVersionError
from lakehouse.excerpt import short

__all__ = [
    "COUNT_MAX",
    "DEPTH_MAX",
    "INT32_MAX",
    "INT64_MAX",
    "MOMENT_MS_MAX",
    "VALUES_MAX",
    "WRONG",
    "JsonObject",
    "count",
    "each",
    "flag",
    "hex_bytes",
    "hex_checksum",
    "items",
    "members",
    "moment",
    "number",
    "optional",
    "parse_json",
    "ratio",
    "table_of",
    "text",
    "unique_id",
    "whole",
]

_T = TypeVar("_T")
_D = TypeVar("_D")
_E = TypeVar("_E", bound=StrEnum)

VALUES_MAX = 1_000_000
"""Most values that a JSON text may hold, unless the caller says otherwise: each takes up to 200 bytes."""
DEPTH_MAX = 160
"""Most objects within objects that are read; types, which nest deepest, take two for each step."""
COUNT_MAX = 2**53
"""Most of anything that metadata counts: what every JSON reader takes exactly."""
_PIECE_BYTES = 1 << 20
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
MOMENT_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: what dates can say."""
WRONG = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors that readers of values may raise."""


def parse_json(data: bytes | memoryview, *, values_max: int = VALUES_MAX) -> Any:
    """The value that a JSON text says; ValueError, which holds nothing of the text, when it is none."""
    raw = bytes(data)
    _check_values(raw, values_max)
    try:
        text = raw.decode()
        document = _DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:
            # Half of a surrogate pair is valid in Python's JSON only.
            json.dumps(document, ensure_ascii=False).encode()
        return document
    except RecursionError:
        problem = "it nests too deep"
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        problem = f"it is not UTF-8: {error.reason}"
    except ValueError as error:
        problem = str(error)[:200]
    # Behind the block: the errors above keep the whole text.
    raise ValueError(problem)


def _check_values(raw: bytes, values_max: int) -> None:
    """Refuses a text of more values before memory is taken for them, a piece of the text at a time."""
    if len(raw) <= values_max:
        return  # a text has no more values than bytes
    room = values_max  # nor more than these marks and one
    for start in range(0, len(raw), _PIECE_BYTES):
        room -= sum(raw.count(mark, start, start + _PIECE_BYTES) for mark in (b",", b":", b"[", b"{"))
        if room < 0:
            raise ValueError(f"it has more than {values_max:,} values")


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{digits[:40]} is out of range")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _wrong(wanted: str, got: object) -> ValueError:
    return ValueError(f"must be {wanted}, not {short(got)}")


def whole(value: Any, low: int = 0, high: int = INT64_MAX) -> int:
    """A whole number from ``low`` to ``high``; true and false are none."""
    if type(value) is not int or not low <= value <= high:
        bounds = "" if (low, high) == (0, INT64_MAX) else f" from {low:,} to {high:,}"
        raise _wrong(f"a whole number{bounds}", value)
    return value


def count(value: Any) -> int:
    """A number of things: bytes, rows, files; or the number of one of them."""
    if type(value) is int and 0 <= value <= COUNT_MAX:
        return value
    return whole(value, 0, COUNT_MAX)


def number(value: Any) -> int:
    """A whole number that 32 bits hold: the id of a field or a schema, a bucket."""
    if type(value) is int and 0 <= value <= INT32_MAX:
        return value
    return whole(value, 0, INT32_MAX)


def ratio(value: Any) -> float:
    """A number above 0 and below 1."""
    if type(value) not in (int, float) or not 0 < value < 1:
        raise _wrong("a number above 0 and below 1", value)
    return float(value)


def moment(value: Any) -> int:
    """Milliseconds since 1970, up to the year 9999."""
    return whole(value, 0, MOMENT_MS_MAX)


def text(value: Any) -> str:
    """A text."""
    if type(value) is not str:
        raise _wrong("text", value)
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise _wrong("true or false", value)
    return value


def items(value: Any) -> list[Any]:
    """A list."""
    if type(value) is not list:
        raise _wrong("a list", value)
    return value


def members(value: Any) -> dict[str, Any]:
    """An object."""
    if type(value) is not dict:
        raise _wrong("an object", value)
    return value


def hex_bytes(value: Any) -> bytes:
    """Bytes as hexadecimal digits."""
    try:
        return bytes.fromhex(value)
    except (ValueError, TypeError):
        raise _wrong("hexadecimal digits", value) from None


def hex_checksum(value: Any) -> int:
    """A CRC32C as eight hexadecimal digits."""
    found = hex_bytes(value)
    if len(found) != 4:
        raise _wrong("eight hexadecimal digits", value)
    return int.from_bytes(found, "big")


def unique_id(value: Any) -> uuid.UUID:
    """A UUID as text."""
    try:
        return uuid.UUID(text(value))
    except ValueError:
        raise _wrong("a UUID", value) from None


def optional(reader: Callable[[Any], _T]) -> Callable[[Any], _T | None]:
    """A reader of null, and of what another reads."""
    return lambda value: None if value is None else reader(value)


def each(reader: Callable[[Any], _T]) -> Callable[[Any], tuple[_T, ...]]:
    """A reader of a list of what another reads."""

    def read(value: Any) -> tuple[_T, ...]:
        return tuple([reader(one) for one in items(value)])

    return read


def table_of(reader: Callable[[Any], _T]) -> Callable[[Any], dict[str, _T]]:
    """A reader of an object whose members another reads."""

    def read(value: Any) -> dict[str, _T]:
        return {name: reader(one) for name, one in members(value).items()}

    return read


_NEEDED: Any = object()
_ABSENT: Any = object()


class JsonObject:
    """The members of a JSON object, and errors that say where it stands.

    Args:
        values: the members.
        key: of the object in the store, or what errors call it.
        place: which part of it this is, with a dot at its end; empty = all of it.
        advice: a sentence that ends errors.
    """

    __slots__ = ("_advice", "_depth", "_key", "_place", "values")

    def __init__(
        self, values: Mapping[str, Any], key: str, place: str = "", *, advice: str = "", depth: int = 0
    ) -> None:
        self.values = values
        self._key, self._place, self._advice, self._depth = key, place, advice, depth

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def read(self, name: str, reader: Callable[[Any], _T], default: _D = _NEEDED) -> _T | _D:
        """A member, as ``reader`` takes it; without one, the default.

        Raises:
            CorruptionError: it is not there and has no default, or is not what it must be.
        """
        value = self.values.get(name, _ABSENT)
        if value is _ABSENT and default is not _NEEDED:
            return default
        try:
            return reader(None if value is _ABSENT else value)
        except CorruptionError:
            raise  # of an object inside, which says where
        except WRONG as error:
            raise self._wrong(name, value, error) from error

    def word(self, name: str, words: type[_E]) -> _E:
        """One of some words; a later release may know more of them.

        Raises:
            UnsupportedVersionError: it is another word.
        """
        value = self.read(name, text)
        try:
            return words(value)
        except ValueError as error:
            raise UnsupportedVersionError(
                f"{self._key}: {self._place}{name} is {short(value)}, which this release does not know. "
                "Upgrade lakehouse.",
                key=self._key,
                field=f"{self._place}{name}",
            ) from error

    def inner(self, name: str) -> JsonObject:
        """The object that a member is."""
        return self._inside(self.read(name, members), f"{name}.")

    def objects(self, name: str, default: list[JsonObject] = _NEEDED) -> list[JsonObject]:
        """The objects of a member that is a list of them."""
        if default is not _NEEDED and name not in self.values:
            return default
        found = self.read(name, each(members))
        return [self._inside(one, f"{name}[{at}].") for at, one in enumerate(found)]

    def _inside(self, values: Mapping[str, Any], step: str) -> JsonObject:
        if self._depth >= DEPTH_MAX:
            problem = ValueError(f"must not nest deeper than {DEPTH_MAX}, not {short(values)}")
            raise self._wrong(step.partition("[")[0].rstrip("."), values, problem)
        return JsonObject(values, self._key, self._place + step, advice=self._advice, depth=self._depth + 1)

    def wrong(self, name: str, wanted: str, got: object) -> CorruptionError:
        """The error that says what a member must be."""
        return self._wrong(name, got, _wrong(wanted, got))

    def _wrong(self, name: str, value: object, problem: Exception) -> CorruptionError:
        place = f"{self._place}{name}"[-200:]
        says = str(problem)[:400]
        if not says.startswith("must "):
            says = f"is {short(value)}: {says or type(problem).__name__}"
        shown = None if value is _ABSENT else short(value)
        return CorruptionError(
            f"{self._key}: {place} {says}{self._advice}", key=self._key, field=place, got=shown
        )
