"""Definitions of builtins: the types, functions, operators, casts, collations and aggregates of an engine.

Invariant: definitions of one engine with equal keys are the same thing. A key has names of types in their
canonical spelling, so that ``abs(int4)`` and ``abs(integer)`` are one function.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from lakehouse.catalog.engines.rules import EngineRule
from lakehouse.catalog.engines.versions import ANY_VERSION, VersionWindow

__all__ = ["Builtin", "BuiltinKey", "BuiltinSort", "CastContext"]

BuiltinKey = tuple[str, ...]
"""Sort, name and arguments."""


class BuiltinSort(enum.StrEnum):
    """Sort of a builtin."""

    TYPE = "type"
    FUNCTION = "function"
    OPERATOR = "operator"
    CAST = "cast"
    COLLATION = "collation"
    AGGREGATE = "aggregate"


class CastContext(enum.StrEnum):
    """Context in which an engine casts: by itself, when it assigns to a column, or when it is told to."""

    IMPLICIT = "implicit"
    ASSIGNMENT = "assignment"
    EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """Something that an engine has without anybody's having made it."""

    sort: BuiltinSort
    name: str
    """A cast has none: it is its only argument, and what it returns."""
    arguments: tuple[str, ...] | None = None
    """Types of arguments, canonical; None = not described."""
    is_variadic: bool = False
    """The last argument may come any number of times."""
    returns: str | None = None
    """Type of the result; None = not described, or it depends on the arguments."""
    aliases: tuple[str, ...] = ()
    """Other names of a type."""
    category: str = ""
    """Group that the engine's documentation has it in."""
    context: CastContext | None = None
    window: VersionWindow = ANY_VERSION
    """Versions of the engine that have it."""
    rules: tuple[EngineRule, ...] = ()
    """Hints that go with it."""

    @property
    def key(self) -> BuiltinKey:
        """Identity among the builtins of an engine."""
        if self.sort is BuiltinSort.CAST:
            return self.sort, "", *(self.arguments or ()), self.returns or ""
        if self.arguments is None:
            return self.sort, self.name.lower()
        return self.sort, self.name.lower(), *self.arguments, *(("...",) if self.is_variadic else ("",))

    @property
    def signature(self) -> str:
        """Text that people know it by, such as ``abs(INTEGER) -> INTEGER``."""
        if self.sort is BuiltinSort.CAST:
            return f"{', '.join(self.arguments or ())} -> {self.returns}"
        if self.arguments is None:
            return self.name
        listed = ", ".join(self.arguments) + ("..." if self.is_variadic else "")
        return f"{self.name}({listed})" + (f" -> {self.returns}" if self.returns else "")
