"""JSON objects that carry their own checksum: snapshots, schemas, name pointers, database markers.

Invariant: :func:`unseal` returns what :func:`seal` was given, byte for byte; a flipped bit
anywhere is an error. And what a :class:`SealedFormat` encodes, it decodes: bytes that its own reader
would refuse, or read as something else, are never returned, so nobody stores them. The checksum is
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
"""End of the messages of errors about damaged metadata of a table."""
_MEMBER = b',"crc32c":"%08x"}'
_MEMBER_BYTES = len(_MEMBER % 0)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFormat(Generic[_T]):
    """A kind of sealed object, and the codec of its values."""

    what: str
    """Name of the kind in errors, such as ``snapshot``."""
    to_json: Callable[[_T], Mapping[str, Any]]
    """Returns the members of a value; ``format`` is 1 if it is not among them."""
    from_json: Callable[[JsonObject], _T]
    """Returns the value of members; CorruptionError or InvalidInputError when they are invalid."""
    newest: int = 1
    """Highest ``format`` that this release reads."""
    advice: str = ""
    """End of the messages of errors about damaged objects."""

    def encode(self, value: _T) -> bytes:
        """Encodes a value; reads the bytes back before it returns them.

        Raises:
            InvalidInputError: a member is of the wrong kind or out of range, so no reader would accept it.
        """
        data = self._sealed(value)
        try:
            again = self.decode(data, key=f"the new {self.what}")
        except FormatError as error:
            # Without the advice: nothing is damaged yet.
            problem = error.message.removesuffix(self.advice)
            raise InvalidInputError(f"{problem}; nothing was written", **error.context) from error
        # NaN differs from itself, so values that differ may still have the same bytes.
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
        """Decodes an object; ``key`` is named in errors."""
        values = unseal(data, key=key, what=self.what, newest=self.newest, advice=self.advice)
        try:
            return self.from_json(JsonObject(values, key, advice=self.advice))
        except InvalidInputError as error:
            raise CorruptionError(
                f"{key} is not a {self.what}: {error.message}{self.advice}", key=key, **error.context
            ) from error


def _unpaired(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yields place and value of each text that cannot be encoded as UTF-8."""
    if isinstance(value, str):
        if not is_utf8(value):
            yield place, value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from _unpaired(name, f"a name in {place}")
            yield from _unpaired(member, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _unpaired(item, f"{place}[{at}]")


def seal(values: Mapping[str, Any]) -> bytes:
    """Returns the JSON text of an object with these members and a checksum.

    Use :class:`SealedFormat` for objects to store: it checks first that they can be read.
    """
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    body = text.encode()[:-1]
    data: bytes = body + _MEMBER % google_crc32c.value(body)
    return data


def unseal(data: bytes, *, key: str, what: str, newest: int, advice: str = "") -> dict[str, Any]:
    """Returns the members of a sealed object.

    Args:
        data: the whole object.
        key: key of the object; named in errors.
        what: name of the expected kind in errors, such as "snapshot".
        newest: highest ``format`` that this release reads.
        advice: end of the messages of errors about damage.
    """
    body = data[:-_MEMBER_BYTES]
    if data[-_MEMBER_BYTES:] != _MEMBER % google_crc32c.value(body):
        raise CorruptionError(
            f"{key} is damaged: no {what} of {len(data):,} bytes with a matching checksum at its end{advice}",
            key=key,
            offset=len(body),
        )
    try:
        values = members(parse_json(data))
        version = whole(values.get("format"), -INT64_MAX)
    except ValueError as error:
        raise CorruptionError(f"{key} is not a {what}: {error}{advice}", key=key) from error
    if not 1 <= version <= newest:
        raise UnsupportedVersionError(
            f"{key} is a {what} of format {version}; this release reads up to {newest}. Upgrade lakehouse.",
            key=key,
            version=version,
        )
    return values
