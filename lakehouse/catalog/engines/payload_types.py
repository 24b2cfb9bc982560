"""Payload types: namespaced names of formats, such as ``lakehouse.type+json``.

A type is words with dots between them, the first of which is the publisher's, and behind a plus the
encoding. Its *families* are its beginnings at a dot, with the same encoding: ``lakehouse+json`` is
a family of ``lakehouse.type+json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Self

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short

__all__ = ["PayloadType"]

_WORD = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
_TYPE = re.compile(rf"({_WORD}(?:\.{_WORD}){{1,7}})(?:\+([a-z0-9]{{1,32}}))?")
_FAMILY = re.compile(rf"({_WORD}(?:\.{_WORD}){{0,7}})(?:\+([a-z0-9]{{1,32}}))?")


class PayloadType(NamedTuple):
    """Name of a format: words and an encoding."""

    words: tuple[str, ...]
    encoding: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a payload type; it must have a namespace."""
        return cls._read(_TYPE, text, "payload type")

    @classmethod
    def family(cls, text: str) -> Self:
        """Reads a family of payload types, for which the namespace is enough."""
        return cls._read(_FAMILY, text, "family of payload types")

    @classmethod
    def _read(cls, pattern: re.Pattern[str], text: object, what: str) -> Self:
        found = pattern.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidInputError(
                f"{short(text)} is no {what}: it has a namespace and may name an encoding, as "
                "'lakehouse.type+json' has"
            )
        return cls(tuple(found[1].split(".")), found[2])

    def families(self) -> Iterator[PayloadType]:
        """Yields the type and its families, the closest first."""
        for length in range(len(self.words), 0, -1):
            yield PayloadType(self.words[:length], self.encoding)

    def __str__(self) -> str:
        return ".".join(self.words) + (f"+{self.encoding}" if self.encoding else "")
