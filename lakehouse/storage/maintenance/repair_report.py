"""Report of a repair: the state it made and the losses it could not avoid.

Invariant: whatever the repaired state lacks of the committed one is named: commits, files, ranges
of keys, and numbers of rows where they are known.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse.io.work import DryRunReport

__all__ = ["Loss", "LossKind", "RepairReport"]


class LossKind(enum.StrEnum):
    """Kind of a lost object, or of the rows lost with it."""

    COMMIT = "commit"
    """A snapshot that cannot be read and is newer than the state that was repaired."""
    MANIFEST = "manifest"
    """Entries that no other object holds; their data files may still be there."""
    FILE = "file"
    """A data file that lost all or some of its rows."""
    INDEX = "index"
    """An index file; its data file is kept and read without it."""
    SEGMENT = "segment"
    """A WAL segment whose rows were in no data file yet."""
    SCHEMA = "schema"
    """The newest schema; an older one replaces it."""
    STATISTICS = "statistics"
    """Distinct values of columns; planners do without them until the table is analyzed again."""


_RELATION = pa.schema(
    {
        "kind": pa.string(),
        "object": pa.string(),
        "rows": pa.int64(),
        "first_key": pa.string(),
        "last_key": pa.string(),
        "reason": pa.string(),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One thing that the repaired state lacks."""

    kind: LossKind
    object: str
    """Path relative to the table's directory."""
    reason: str
    rows: int | None = None
    """Rows of every kind; None = not known."""
    first_key: tuple[Any, ...] | None = None
    """Least key that may be affected; None = any, or the table has no key."""
    last_key: tuple[Any, ...] | None = None
    """Greatest key that may be affected, included."""

    def __str__(self) -> str:
        rows = f"{self.rows:,} rows" if self.rows is not None else "some rows"
        keys = f" with keys from {self.first_key} to {self.last_key}" if self.first_key is not None else ""
        what = f": {rows}{keys}" if self.kind in (LossKind.FILE, LossKind.MANIFEST) else ""
        return f"{self.kind} {self.object}{what}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RepairReport(DryRunReport):
    """Result of a repair, or with ``dry_run`` its estimate."""

    snapshot: int
    """Id of the repaired snapshot; of the newest one when there was nothing to repair."""
    changed: bool
    """Whether a snapshot was made."""
    base: int
    """Id of the snapshot whose state was repaired."""
    files: int = 0
    """Number of data files of the repaired state."""
    rows: int = 0
    """Rows of these files, of every kind."""
    rewritten: int = 0
    """Number of these files that hold the sound rows of damaged ones."""
    recovered: int = 0
    """Entries of damaged manifests that were rebuilt from older snapshots."""
    losses: tuple[Loss, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was lost."""
        return not self.losses

    def relation(self) -> pa.Table:
        """Returns one row per loss; keys as text."""
        rows = [
            {
                "kind": loss.kind.value,
                "object": loss.object,
                "rows": loss.rows,
                "first_key": None if loss.first_key is None else repr(loss.first_key),
                "last_key": None if loss.last_key is None else repr(loss.last_key),
                "reason": loss.reason,
            }
            for loss in self.losses
        ]
        return pa.Table.from_pylist(rows, _RELATION)

    def __str__(self) -> str:
        lost = "".join(f"\n  {loss}" for loss in self.losses)
        return (
            f"snapshot {self.base} {self._did('repaired')} as snapshot {self.snapshot}: {self.files:,} "
            f"files, {self.rows:,} rows; {self.rewritten:,} files rewritten, {self.recovered:,} entries "
            f"recovered; lost: {len(self.losses):,}{lost}\n{self.cost}"
        )
