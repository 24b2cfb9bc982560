"""Time travel: the state of a table that a reference asks for, as a choice of its pin.

Invariant: a reference that asks for a state reads that one, whatever others in its statement read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.catalog import Query
from lakehouse.catalog.graph import Reference
from lakehouse.catalog.pins import Moment
from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.sql.text import AtClause

__all__ = ["NOW", "Travel", "travel_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Travel:
    """State that is asked for; none of all = the one that the query has, or the newest."""

    snapshot: int | None = None
    tag: str | None = None
    as_of: Moment | None = None

    def __str__(self) -> str:
        if self.tag is not None:
            return f"tag {self.tag!r}"
        return f"snapshot {self.snapshot}" if self.as_of is None else f"state as of {self.as_of}"

    @property
    def is_version(self) -> bool:
        """Whether one snapshot is named, which only tables have."""
        return self.snapshot is not None or self.tag is not None

    async def pin(self, query: Query, ref: Reference) -> None:
        """Pins a table to the state.

        Raises:
            NotFoundError: the table has no such snapshot or tag.
        """
        snapshot = self.snapshot if self.tag is None else await query.tagged(ref, self.tag)
        await query.pin(ref, snapshot=snapshot, as_of=self.as_of)


NOW = Travel()
"""No time in particular."""


def travel_of(clause: AtClause, parameters: Mapping[str, Any]) -> Travel:
    """Returns the state that a clause asks for; its value may be a parameter."""
    value: Any = clause.value if clause.parameter is None else parameters[clause.parameter]
    if clause.unit == "timestamp":
        return Travel(as_of=value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Travel(snapshot=value)
    if isinstance(value, str):
        return Travel(tag=value)
    raise InvalidInputError(f"a version is the number of a snapshot or the name of a tag, not {short(value)}")
