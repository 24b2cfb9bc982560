"""Positions of streams in a table, as they stand in checkpoints.

A position says which snapshot the reader has, and how many pieces of that snapshot's state, or of what
the next commit brought, it has besides. Where a stream begins is found when it first looks at the
table; the end of the first batch says it again, since Spark does not remember it otherwise.

Invariant: what was written to a checkpoint is read back as the same position, and means the same rows
for as long as its snapshot is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.errors import InvalidInputError

__all__ = ["StreamOffset"]

_AT, _STATE, _STEP, _BEGUN, _STARTING = "at", "state", "step", "begun", "starting"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """How far a stream has come."""

    at: str | None = None
    """Token of the snapshot that the reader has; None = the stream has not begun."""
    state: int | None = None
    """The reader has so many pieces of that snapshot's state only; None = all of it."""
    step: int | None = None
    """It has the snapshot, and so many pieces of what the next one brought."""
    begun: StreamOffset | None = None
    """Where the stream began, at the end of its first batch."""

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it."""
        if self.at is None:
            return {_STARTING: True}
        found: dict[str, Any] = {_AT: self.at}
        if self.state is not None:
            found[_STATE] = self.state
        if self.step is not None:
            found[_STEP] = self.step
        if self.begun is not None:
            found[_BEGUN] = self.begun.to_json()
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> StreamOffset:
        """From what Spark kept."""
        try:
            if found.get(_STARTING):
                return cls()
            begun = found.get(_BEGUN)
            return cls(
                at=str(found[_AT]),
                state=None if found.get(_STATE) is None else int(found[_STATE]),
                step=None if found.get(_STEP) is None else int(found[_STEP]),
                begun=None if begun is None else cls.from_json(begun),
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(
                f"{found!r} is no position in a table: the checkpoint is of another source, or was changed"
            ) from error

    @property
    def place(self) -> StreamOffset:
        """The position without word of where the stream began."""
        return replace(self, begun=None)
