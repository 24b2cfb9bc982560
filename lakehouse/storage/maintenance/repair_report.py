"""What a repair kept and what it had to give up.

Invariant: everything that the repaired state lacks of what was committed is named: commits, files, ranges
of keys, and numbers of rows where they are known.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakehouse.io.cost import Cost

__all__ = ["Loss", "LossKind", "RepairReport"]


class LossKind(enum.StrEnum):
    """What was lost."""

    COMMIT = "commit"
    """A snapshot that cannot be read and is newer than the state that was repaired."""
    MANIFEST = "manifest"
    """Entries that nothing else tells; the data files may be there."""
    FILE = "file"
    """All or some rows of a data file."""
    INDEX = "index"
    """An index file; its data file is kept and read without."""
    SEGMENT = "segment"
    """A WAL segment whose rows were in no data file yet."""
    SCHEMA = "schema"
    """The newest schema; an older one took its place."""


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
    """Something that the repaired state lacks."""

    kind: LossKind
    object: str
    """Path relative to the table's directory."""
    reason: str
    rows: int | None = None
    """Rows of every kind; None = not known."""
    first_key: tuple[Any, ...] | None = None
    """Least key that may be affected; None = any, or the table has no key."""
    last_key: tuple[Any, ...] | None = None

    def __str__(self) -> str:
        rows = f"{self.rows:,} rows" if self.rows is not None else "some rows"
        keys = f" with keys from {self.first_key} to {self.last_key}" if self.first_key is not None else ""
        what = f": {rows}{keys}" if self.kind in (LossKind.FILE, LossKind.MANIFEST) else ""
        return f"{self.kind} {self.object}{what}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What a repair did, or with ``dry_run`` would do now."""

    snapshot: int
    """The repaired snapshot; the newest one when there was nothing to repair."""
    changed: bool
    """Whether a snapshot was made."""
    base: int
    """The snapshot whose state was repaired."""
    files: int = 0
    """Data files of the repaired state."""
    rows: int = 0
    """Rows of these, of every kind."""
    rewritten: int = 0
    """Files among these that hold what could be read of damaged ones."""
    recovered: int = 0
    """Entries of damaged manifests that older snapshots told."""
    losses: tuple[Loss, ...] = ()
    dry_run: bool = False
    cost: Cost = field(default_factory=Cost, compare=False)
    """Requests and bytes of the whole call."""

    @property
    def ok(self) -> bool:
        """Whether nothing was lost."""
        return not self.losses

    def relation(self) -> pa.Table:
        """One row per loss; keys as text."""
        rows = [
            {
                "kind": one.kind.value,
                "object": one.object,
                "rows": one.rows,
                "first_key": None if one.first_key is None else repr(one.first_key),
                "last_key": None if one.last_key is None else repr(one.last_key),
                "reason": one.reason,
            }
            for one in self.losses
        ]
        return pa.Table.from_pylist(rows, _RELATION)

    def __str__(self) -> str:
        would = "would be " if self.dry_run else ""
        lost = "".join(f"\n  {one}" for one in self.losses)
        return (
            f"snapshot {self.base} {would}repaired as snapshot {self.snapshot}: {self.files:,} files, "
            f"{self.rows:,} rows; {self.rewritten:,} files rewritten, {self.recovered:,} entries recovered; "
            f"lost: {len(self.losses):,}{lost}\n{self.cost}"
        )
