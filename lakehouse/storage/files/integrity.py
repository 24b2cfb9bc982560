"""Errors for data files that are not the files a snapshot refers to.

Invariant: an error about bytes names the object, and whether it is damaged or replaced by another.
"""

from __future__ import annotations

from lakehouse.errors import ConflictError, CorruptionError, FormatError
from lakehouse.index.puffin import about

__all__ = ["check_same", "reading"]


class reading:  # noqa: N801 - used as a function; a generator would take a tenth of a warm point read
    """``with reading(key):`` adds the object's name to errors about bytes, and reports a replaced object."""

    __slots__ = ("_key",)

    def __init__(self, key: str) -> None:
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        key = self._key
        if isinstance(error, FormatError) and "key" not in error.context:
            raise about(error, key) from error
        if isinstance(error, ConflictError) and error.kind == "object-changed":
            raise CorruptionError(
                f"{key} was replaced while it was read, which happens to no data file", key=key
            ) from error


def check_same(what: str, expected: tuple[object, ...], got: tuple[object, ...]) -> None:
    """Refuses a sound file that is not the one the snapshot refers to; ``what`` names the facts compared."""
    if expected != got:
        raise CorruptionError(
            f"another file stands in its place: {what} are {got}, the snapshot says {expected}",
            expected=expected,
            got=got,
        )
