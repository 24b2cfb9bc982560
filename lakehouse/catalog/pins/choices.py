"""Choices of snapshots, and the pins that they resolve to: values, no I/O.

Invariant: a pin names one snapshot by its id, whatever it was chosen by; the choice is kept to tell people,
and decides nothing any more.
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Any, Self

from lakehouse.catalog.ids import ResourceId
from lakehouse.errors import InvalidInputError
from lakehouse.storage.tables import time_ms_of

__all__ = ["Moment", "PinKind", "SnapshotChoice", "SnapshotPin"]

Moment = dt.datetime | int | str
"""A datetime, milliseconds since 1970, or ISO text."""


class PinKind(enum.StrEnum):
    """Kind of choice that a pin was made by."""

    CURRENT = "current"
    AS_OF = "as_of"
    SNAPSHOT_ID = "snapshot_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChoice:
    """Snapshot that a caller asks for, not resolved yet."""

    kind: PinKind = PinKind.CURRENT
    snapshot: int | None = None
    as_of_ms: int | None = None
    is_default: bool = False
    """Whether the caller left it to the query, so that any pin of the table will do."""

    @classmethod
    def of(
        cls,
        *,
        snapshot: int | None = None,
        as_of: Moment | None = None,
        as_of_default: Moment | None = None,
    ) -> Self:
        """Returns the choice that decides: the first given of id, as-of and default, else the newest."""
        if snapshot is not None:
            if isinstance(snapshot, bool) or not isinstance(snapshot, int):
                raise InvalidInputError(f"a snapshot is named by its id, a whole number, not {snapshot!r}")
            return cls(kind=PinKind.SNAPSHOT_ID, snapshot=snapshot)
        if as_of is not None:
            return cls(kind=PinKind.AS_OF, as_of_ms=time_ms_of(as_of))
        if as_of_default is not None:
            return cls(kind=PinKind.AS_OF, as_of_ms=time_ms_of(as_of_default), is_default=True)
        return cls(is_default=True)

    def __str__(self) -> str:
        return _told(self.kind, self.snapshot, self.as_of_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPin:
    """Snapshot that one table has in a query."""

    table: ResourceId
    name: str
    """Full name by which the table was first met."""
    kind: PinKind
    snapshot: int | None
    """Id of the snapshot; 0 is an id, None = the table had none and is read as empty."""
    version: str
    """Version of the table that the snapshot was looked up in."""
    schema_id: int
    """Schema that the rows are shown in."""
    token: str | None = None
    """Token of the commit that made the snapshot; None where the source tells none."""
    as_of_ms: int | None = None
    """Moment that was asked for, in milliseconds since 1970."""

    def is_same_read(self, other: SnapshotPin) -> bool:
        """Returns whether both show the same rows; what is not known of a snapshot proves no difference."""
        if (self.table, self.snapshot) != (other.table, other.snapshot):
            return False
        return self.token is None or other.token is None or self.token == other.token

    def __str__(self) -> str:
        if self.snapshot is None:
            return "no snapshot"
        by = "" if self.kind is not PinKind.AS_OF else f" ({_told(self.kind, None, self.as_of_ms)})"
        return f"snapshot {self.snapshot}{by}"

    def as_dict(self) -> dict[str, Any]:
        """Returns the pin as values of JSON."""
        return {
            "table": str(self.table),
            "name": self.name,
            "kind": self.kind.value,
            "snapshot": self.snapshot,
            "version": self.version,
            "schema_id": self.schema_id,
            "token": self.token,
            "as_of_ms": self.as_of_ms,
        }


def _told(kind: PinKind, snapshot: int | None, as_of_ms: int | None) -> str:
    """Returns a choice for people."""
    if kind is PinKind.SNAPSHOT_ID:
        return f"snapshot {snapshot}"
    if kind is PinKind.CURRENT or as_of_ms is None:
        return "the newest snapshot"
    try:
        moment = dt.datetime.fromtimestamp(as_of_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # beyond the years that Python knows
        moment = f"{as_of_ms} ms"
    return f"as of {moment}"
