"""JSON objects that carry their own checksum: snapshots, schemas, name pointers.

Invariant: what :func:`unseal` returns is what :func:`seal` was given, byte for byte; a flipped bit
anywhere is an error. The checksum is the last member of the object, so it stays plain JSON::

    {"format":1, ... ,"crc32c":"1c291ca3"}
                      ^ CRC32C of all bytes before the comma in front of it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import google_crc32c

from lakehouse.errors import CorruptionError, FormatError, UnsupportedVersionError

__all__ = ["seal", "unseal"]

_MEMBER = b',"crc32c":"%08x"}'
_MEMBER_BYTES = len(_MEMBER % 0)


def seal(members: Mapping[str, Any]) -> bytes:
    """The JSON text of an object with these members and a checksum."""
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    body = text.encode()[:-1]
    data: bytes = body + _MEMBER % google_crc32c.value(body)
    return data


def unseal(data: bytes, *, key: str, what: str, newest: int) -> dict[str, Any]:
    """The members of a sealed object.

    Args:
        data: the whole object.
        key: where it was read; named in errors.
        what: what it should be, for errors: "snapshot".
        newest: the highest ``format`` this release reads.
    """
    body = data[:-_MEMBER_BYTES]
    if data[-_MEMBER_BYTES:] != _MEMBER % google_crc32c.value(body):
        raise CorruptionError(
            f"{key} is damaged: no {what} of {len(data):,} bytes with a matching checksum at its end",
            key=key,
            offset=len(body),
        )
    try:
        members = json.loads(data)
        version = int(members["format"])
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        raise FormatError(f"{key} is not a {what}: {error}", key=key) from error
    if not 1 <= version <= newest:
        raise UnsupportedVersionError(
            f"{key} is a {what} of format {version}; this release reads up to {newest}. Upgrade lakehouse.",
            key=key,
            version=version,
        )
    found: dict[str, Any] = members
    return found
