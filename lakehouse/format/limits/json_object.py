"""Strict and bounded reader of JSON that may hold anything; its errors name the place.

Readers of single values (:func:`whole`, :func:`text` …) raise a ValueError that says what the value must
be; a :class:`JsonObject` adds the object's key and the member's place, and makes it a CorruptionError.

Invariant: a value that a reader returns is of the kind and in the range that it promises. Text is
UTF-8, numbers are finite, and the number of values and the depth of their nesting are limited.
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
"""Default maximum of the values of a JSON text; each takes up to 200 bytes of memory."""
DEPTH_MAX = 160
"""Maximum depth of objects within objects; types, which nest deepest, take two for each step."""
COUNT_MAX = 2**53
"""Maximum of anything that metadata counts: every JSON reader reads such numbers exactly."""
_PIECE_BYTES = 1 << 20
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
MOMENT_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999, beyond which Python has no dates."""
WRONG = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors that readers of values may raise."""


def parse_json(data: bytes | memoryview, *, values_max: int = VALUES_MAX) -> Any:
    """Parses a JSON text; the ValueError for an invalid one keeps no reference to the text."""
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
    # Raised outside of the block, without the errors above as its context: those keep the whole text.
    raise ValueError(problem)


def _check_values(raw: bytes, values_max: int) -> None:
    """Refuses a text of more than ``values_max`` values before memory is taken for them."""
    if len(raw) <= values_max:
        return  # a text has no more values than bytes
    room = values_max  # nor more than one plus the number of these marks
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


def _kind_error(wanted: str, got: object) -> ValueError:
    return ValueError(f"must be {wanted}, not {short(got)}")


def whole(value: Any, low: int = 0, high: int = INT64_MAX) -> int:
    """Reads a whole number from ``low`` to ``high``, both included; refuses true and false."""
    if type(value) is not int or not low <= value <= high:
        bounds = "" if (low, high) == (0, INT64_MAX) else f" from {low:,} to {high:,}"
        raise _kind_error(f"a whole number{bounds}", value)
    return value


def count(value: Any) -> int:
    """Reads a number of things (bytes, rows, files), or the number of one of them."""
    # The usual case first: a manifest has many of these.
    if type(value) is int and 0 <= value <= COUNT_MAX:
        return value
    return whole(value, 0, COUNT_MAX)


def number(value: Any) -> int:
    """Reads a whole number of 31 bits: the id of a field or a schema, a bucket."""
    if type(value) is int and 0 <= value <= INT32_MAX:
        return value
    return whole(value, 0, INT32_MAX)


def ratio(value: Any) -> float:
    """Reads a number above 0 and below 1."""
    if type(value) not in (int, float) or not 0 < value < 1:
        raise _kind_error("a number above 0 and below 1", value)
    return float(value)


def moment(value: Any) -> int:
    """Reads milliseconds since 1970, up to the end of the year 9999."""
    return whole(value, 0, MOMENT_MS_MAX)


def text(value: Any) -> str:
    """Reads a text."""
    if type(value) is not str:
        raise _kind_error("text", value)
    return value


def flag(value: Any) -> bool:
    """Reads true or false."""
    if type(value) is not bool:
        raise _kind_error("true or false", value)
    return value


def items(value: Any) -> list[Any]:
    """Reads a list; its items are not checked."""
    if type(value) is not list:
        raise _kind_error("a list", value)
    return value


def members(value: Any) -> dict[str, Any]:
    """Reads an object; its members are not checked."""
    if type(value) is not dict:
        raise _kind_error("an object", value)
    return value


def hex_bytes(value: Any) -> bytes:
    """Reads bytes from hexadecimal digits."""
    try:
        return bytes.fromhex(value)
    except (ValueError, TypeError):
        raise _kind_error("hexadecimal digits", value) from None


def hex_checksum(value: Any) -> int:
    """Reads a CRC32C from eight hexadecimal digits."""
    checksum = hex_bytes(value)
    if len(checksum) != 4:
        raise _kind_error("eight hexadecimal digits", value)
    return int.from_bytes(checksum, "big")


def unique_id(value: Any) -> uuid.UUID:
    """Reads a UUID from text."""
    try:
        return uuid.UUID(text(value))
    except ValueError:
        raise _kind_error("a UUID", value) from None


def optional(reader: Callable[[Any], _T]) -> Callable[[Any], _T | None]:
    """Returns a reader of null and of everything that ``reader`` reads."""
    return lambda value: None if value is None else reader(value)


def each(reader: Callable[[Any], _T]) -> Callable[[Any], tuple[_T, ...]]:
    """Returns a reader of a list whose items ``reader`` reads."""

    def read(value: Any) -> tuple[_T, ...]:
        return tuple([reader(item) for item in items(value)])

    return read


def table_of(reader: Callable[[Any], _T]) -> Callable[[Any], dict[str, _T]]:
    """Returns a reader of an object whose members ``reader`` reads."""

    def read(value: Any) -> dict[str, _T]:
        return {name: reader(member) for name, member in members(value).items()}

    return read


_NEEDED: Any = object()
_ABSENT: Any = object()


class JsonObject:
    """The members of a JSON object, read with errors that name their place.

    Args:
        values: the members.
        key: key of the object in the store, or another name for errors.
        place: path of this part within it, with a dot at its end; empty = all of it.
        advice: a sentence that ends errors.
        depth: number of objects around this one.
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
        """Reads a member with ``reader``; returns the default when there is no such member.

        Raises:
            CorruptionError: it is not there and has no default, or is not what it must be.
        """
        value = self.values.get(name, _ABSENT)
        if value is _ABSENT and default is not _NEEDED:
            return default
        try:
            return reader(None if value is _ABSENT else value)
        except CorruptionError:
            raise  # from an object inside, whose error names the place already
        except WRONG as error:
            raise self._member_error(name, value, error) from error

    def word(self, name: str, words: type[_E]) -> _E:
        """Reads a member that is one of some words, to which a later release may add.

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
        """Reads a member that is an object."""
        return self._inside(self.read(name, members), f"{name}.")

    def objects(self, name: str, default: list[JsonObject] = _NEEDED) -> list[JsonObject]:
        """Reads a member that is a list of objects."""
        if default is not _NEEDED and name not in self.values:
            return default
        objects = self.read(name, each(members))
        return [self._inside(values, f"{name}[{at}].") for at, values in enumerate(objects)]

    def _inside(self, values: Mapping[str, Any], step: str) -> JsonObject:
        if self._depth >= DEPTH_MAX:
            problem = ValueError(f"must not nest deeper than {DEPTH_MAX}, not {short(values)}")
            raise self._member_error(step.partition("[")[0].rstrip("."), values, problem)
        return JsonObject(values, self._key, self._place + step, advice=self._advice, depth=self._depth + 1)

    def wrong(self, name: str, wanted: str, got: object) -> CorruptionError:
        """Returns the error that says what a member must be."""
        return self._member_error(name, got, _kind_error(wanted, got))

    def _member_error(self, name: str, value: object, problem: Exception) -> CorruptionError:
        place = f"{self._place}{name}"[-200:]
        says = str(problem)[:400]
        if not says.startswith("must "):
            says = f"is {short(value)}: {says or type(problem).__name__}"
        shown = None if value is _ABSENT else short(value)
        return CorruptionError(
            f"{self._key}: {place} {says}{self._advice}", key=self._key, field=place, got=shown
        )
