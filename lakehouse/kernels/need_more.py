"""Extraction of metadata from the end of a blob, or of the range that is still to be read.

Bloom and inverted blobs end with ``metadata | u32 length of the metadata``. A reader
fetches some last bytes before it knows whether they are enough. The functions here are
pure: they return the metadata, or the one range that is still needed, and never the
same range twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.errors import CorruptionError, InvalidInputError

__all__ = ["LENGTH_BYTES", "NeedMore", "metadata_from_tail"]

LENGTH_BYTES = 4
"""Bytes of the little-endian length field that ends a blob."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedMore:
    """A request for more bytes: fetch ``[start, end)`` and call again with them."""

    start: int
    """First byte needed, counted from the start of the blob (or file) the call was about."""
    end: int
    """Offset behind the last byte needed; the end of the blob (or file)."""

    @property
    def length(self) -> int:
        """Bytes to fetch."""
        return self.end - self.start


def metadata_from_tail(tail: bytes | memoryview, blob_size: int, *, what: str) -> memoryview | NeedMore:
    """Returns the metadata of a blob whose last bytes are ``tail``, or the tail that would hold it.

    Args:
        tail: the last ``len(tail)`` bytes of the blob.
        blob_size: size of the whole blob.
        what: name of the blob in errors.
    """
    if len(tail) > blob_size:
        raise InvalidInputError(
            f"the tail of {what} has {len(tail)} bytes, the blob only {blob_size}: pass its last bytes"
        )
    if blob_size < LENGTH_BYTES:
        raise CorruptionError(
            f"{what} has {blob_size} bytes, too few for the length of its metadata",
            offset=0,
            expected=LENGTH_BYTES,
            got=blob_size,
        )
    if len(tail) < LENGTH_BYTES:
        return NeedMore(start=blob_size - LENGTH_BYTES, end=blob_size)
    length = int.from_bytes(tail[-LENGTH_BYTES:], "little")
    room = blob_size - LENGTH_BYTES
    if length > room:
        raise CorruptionError(
            f"{what} says its metadata has {length} bytes, but only {room} precede the length field",
            offset=room,
            expected=room,
            got=length,
        )
    if length + LENGTH_BYTES > len(tail):
        return NeedMore(start=room - length, end=blob_size)
    end = len(tail) - LENGTH_BYTES
    return memoryview(tail)[end - length : end]
