"""JSON objects that carry their own checksum: snapshots, schemas, name pointers, database markers.

Invariant: what :func:`unseal` returns is what :func:`seal` was given, byte for byte; a flipped bit
anywhere is an error. And what a :class:`SealedFormat` encodes, it decodes: bytes that its own reader
would refuse, or read as something else, are never handed out, so nobody stores them. The checksum is
the last member of the object, so it stays plain JSON::

    {"format":1, ... ,"crc32c":"1c291ca3"}
                      ^ CRC32C of all bytes before the comma in front of it
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import google_crc32c

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError, UnsupportedVersionError
from lakehouse.excerpt import is_utf8, short
from lakehouse.format.limits.json_object import INT64_MAX, JsonObject, members, parse_json, whole

__all__ = ["REPAIR_ADVICE", "SealedFormat", "seal", "unseal"]

REPAIR_ADVICE = "; `lakehouse table repair` may salvage what can still be read"
"""Ends the message of an error about damaged metadata of a table."""
_MEMBER = b',"crc32c":"%08x"}'
_MEMBER_BYTES = len(_MEMBER % 0)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFormat(Generic[_T]):
    """One kind of sealed object: its bytes from values, and values from its bytes."""

    what: str
    """The kind in errors: ``snapshot``."""
    to_json: Callable[[_T], Mapping[str, Any]]
    """The members of a value; without ``format`` among them it is 1."""
    from_json: Callable[[JsonObject], _T]
    """The value that members say; CorruptionError or InvalidInputError when they say none."""
    newest: int = 1
    """The highest ``format`` that this release reads."""
    advice: str = ""
    """Ends errors about damaged objects."""

    def encode(self, value: _T) -> bytes:
        """The bytes of the object.

        Raises:
            InvalidInputError: a member is of another kind or out of range, so nobody could read it.
        """
        data = self._sealed(value)
        try:
            again = self.decode(data, key=f"the new {self.what}")
        except FormatError as error:
            # Without the advice: nothing is damaged yet.
            problem = error.message.removesuffix(self.advice)
            raise InvalidInputError(f"{problem}; nothing was written", **error.context) from error
        # NaN differs from itself, so values that differ may still say the same.
        if again != value and self._sealed(again) != data:
            raise InvalidInputError(
                f"the new {self.what} would be read as something else; nothing was written", what=self.what
            )
        return data

    def _sealed(self, value: _T) -> bytes:
        values: Mapping[str, Any] = {}
        try:
            values = self.to_json(value)
            return seal({"format": 1, **values})
        except UnicodeEncodeError as error:
            place, text = next(_unpaired(values, self.what), (self.what, error.object))
            raise InvalidInputError(
                f"{place} is {short(text)}: half of a surrogate pair is no character, and UTF-8 has none; "
                "nothing was written",
                field=place,
            ) from error
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(
                f"the new {self.what} cannot be written: {str(error)[:200]}; nothing was written",
                what=self.what,
            ) from error

    def decode(self, data: bytes, *, key: str) -> _T:
        """The value in an object; ``key`` is named in errors."""
        found = unseal(data, key=key, what=self.what, newest=self.newest, advice=self.advice)
        try:
            return self.from_json(JsonObject(found, key, advice=self.advice))
        except InvalidInputError as error:
            raise CorruptionError(
                f"{key} is not a {self.what}: {error.message}{self.advice}", key=key, **error.context
            ) from error


def _unpaired(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Where texts stand that are no UTF-8, and what they are."""
    if isinstance(value, str):
        if not is_utf8(value):
            yield place, value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from _unpaired(name, f"a name in {place}")
            yield from _unpaired(one, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        for at, one in enumerate(value):
            yield from _unpaired(one, f"{place}[{at}]")


def seal(values: Mapping[str, Any]) -> bytes:
    """The JSON text of an object with these members and a checksum.

    Only :class:`SealedFormat` stores it: it looks first whether the object can be read.
    """
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    body = text.encode()[:-1]
    data: bytes = body + _MEMBER % google_crc32c.value(body)
    return data


def unseal(data: bytes, *, key: str, what: str, newest: int, advice: str = "") -> dict[str, Any]:
    """The members of a sealed object.

    Args:
        data: the whole object.
        key: where it was read; named in errors.
        what: what it should be, for errors: "snapshot".
        newest: the highest ``format`` this release reads.
        advice: ends errors about damage.
    """
    body = data[:-_MEMBER_BYTES]
    if data[-_MEMBER_BYTES:] != _MEMBER % google_crc32c.value(body):
        raise CorruptionError(
            f"{key} is damaged: no {what} of {len(data):,} bytes with a matching checksum at its end{advice}",
            key=key,
            offset=len(body),
        )
    try:
        found = members(parse_json(data))
        version = whole(found.get("format"), -INT64_MAX)
    except ValueError as error:
        raise CorruptionError(f"{key} is not a {what}: {error}{advice}", key=key) from error
    if not 1 <= version <= newest:
        raise UnsupportedVersionError(
            f"{key} is a {what} of format {version}; this release reads up to {newest}. Upgrade lakehouse.",
            key=key,
            version=version,
        )
    return found
