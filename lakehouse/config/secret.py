"""Secrets: text that no message shows."""

from __future__ import annotations

from typing import final

__all__ = ["Secret"]


@final
class Secret:
    """Text that never shows itself: it is printed as ``***``.

    It is no ``str`` on purpose: a ``str`` would slip out through ``+``, ``join`` and
    ``json``, and would sign requests with ``***`` wherever a library formats it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str | Secret) -> None:
        self._text: str = text._text if isinstance(text, Secret) else text

    def reveal(self) -> str:
        """Returns the real text, for the one place that signs requests."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __bool__(self) -> bool:
        return bool(self._text)
