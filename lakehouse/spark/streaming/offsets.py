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
    """Position of a stream in a table."""

    at: str | None = None
    """Token of the snapshot that the reader has; None = the stream has not begun."""
    state: int | None = None
    """Number of pieces of that snapshot's state that the reader has; None = all of it."""
    step: int | None = None
    """Number of pieces that the reader has of what the next commit brought; None = none of it."""
    begun: StreamOffset | None = None
    """Position where the stream began; set at the end of its first batch."""

    def to_json(self) -> dict[str, Any]:
        """Returns the position as Spark keeps it."""
        if self.at is None:
            return {_STARTING: True}
        fields: dict[str, Any] = {_AT: self.at}
        if self.state is not None:
            fields[_STATE] = self.state
        if self.step is not None:
            fields[_STEP] = self.step
        if self.begun is not None:
            fields[_BEGUN] = self.begun.to_json()
        return fields

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> StreamOffset:
        """Reads a position that Spark kept."""
        try:
            if kept.get(_STARTING):
                return cls()
            begun = kept.get(_BEGUN)
            return cls(
                at=str(kept[_AT]),
                state=None if kept.get(_STATE) is None else int(kept[_STATE]),
                step=None if kept.get(_STEP) is None else int(kept[_STEP]),
                begun=None if begun is None else cls.from_json(begun),
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(
                f"{kept!r} is no position in a table: the checkpoint is of another source, or was changed"
            ) from error

    @property
    def place(self) -> StreamOffset:
        """The position without the one where the stream began."""
        return replace(self, begun=None)
