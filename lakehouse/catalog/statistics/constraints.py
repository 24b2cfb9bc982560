"""Constraints that hold for every row of a table, for planners that rely on them.

Invariant: a constraint speaks of its own table alone. Neither our tables nor Iceberg's have foreign keys, so
none tells that another relation is there.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from lakehouse.catalog.nodes import TableNode
from lakehouse.catalog.sources import TableFacts

__all__ = ["Constraint", "ConstraintKind", "constraints_of"]


class ConstraintKind(enum.StrEnum):
    """Sort of a constraint."""

    PRIMARY_KEY = "primary key"
    """No two rows have the same values of these columns, and each has all of them."""
    NOT_NULL = "not null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A constraint of one table."""

    kind: ConstraintKind
    columns: tuple[str, ...]
    is_enforced: bool = True
    """Whether writers refuse rows against it; else it is a promise of whoever declared it."""


def constraints_of(facts: TableFacts | TableNode) -> tuple[Constraint, ...]:
    """Returns the primary key and the columns that are never null.

    Writers of ours keep both. Iceberg's identifier fields are declared, and nobody keeps them unique.
    """
    found = [Constraint(kind=ConstraintKind.NOT_NULL, columns=(name,)) for name in facts.not_null]
    if facts.primary_key:
        is_ours = facts.format == "lakehouse"
        key = Constraint(kind=ConstraintKind.PRIMARY_KEY, columns=facts.primary_key, is_enforced=is_ours)
        found.insert(0, key)
    return tuple(found)
