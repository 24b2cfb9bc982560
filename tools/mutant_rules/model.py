"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Mutant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A rule left out."""

    rule: str
    """The rule, and what happens instead."""
    path: str
    """File that is changed."""
    old: str
    """Text that stands there once."""
    new: str
    """Text in its place."""
    tests: tuple[str, ...]
    """Node ids, of which at least one must fail."""
