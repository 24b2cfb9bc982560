"""Engine: a planner that asks, by its kind and version."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from lakehouse.catalog.engines.versions import version_key
from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short

__all__ = ["EngineKey"]

_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


class EngineKey(NamedTuple):
    """Kind and version of an engine; make it by :meth:`of`, so that equal engines have equal keys."""

    kind: str
    """Lower-case name, such as ``postgres``; empty = not said."""
    version: str = ""
    """Version as the engine writes it; empty = any."""

    @classmethod
    def of(cls, kind: str | None, version: str | None = None) -> Self:
        """Returns the key of an engine; a kind or version that is missing is empty."""
        name = (kind or "").strip().lower()
        if name and not _KIND.fullmatch(name):
            raise InvalidInputError(
                f"{short(kind)} is no kind of engine: write a lower-case name such as 'duckdb' or 'postgres'"
            )
        text = (version or "").strip()
        version_key(text)  # refuses what is no version
        return cls(name, text)

    def __str__(self) -> str:
        return f"{self.kind or 'any engine'} {self.version or '(any version)'}"
