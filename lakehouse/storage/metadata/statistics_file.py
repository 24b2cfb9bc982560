"""Statistics files of a table: their footers, and whether the rows that they are of are those of a snapshot.

Invariant: nothing but a footer is read; sketches stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.errors import FormatError
from lakehouse.format.metadata import Snapshot, StatisticsRef
from lakehouse.format.puffin import PuffinFooter
from lakehouse.index.puffin import PuffinReader
from lakehouse.io import ObjectStore
from lakehouse.storage.metadata.paths import join
from lakehouse.storage.metadata.snapshots import Snapshots

__all__ = ["StatisticsFooter", "has_rows_of", "read_statistics"]

_TAIL_BYTES = 64 * 1024
"""Bytes from the end of a statistics file in which most footers fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFooter:
    """Footer of a statistics file."""

    footer: PuffinFooter
    size: int
    """Bytes of the footer, its magic included."""


async def read_statistics(store: ObjectStore, root: str, ref: StatisticsRef) -> StatisticsFooter:
    """Reads the footer of a statistics file.

    Raises:
        NotFoundError: it is gone.
        FormatError: it is damaged, or of another size than the snapshot says.
    """
    reader = PuffinReader(store, join(root, ref.path), size=ref.size, prefetch_bytes=_TAIL_BYTES)
    footer = await reader.footer()
    if reader.size != ref.size:
        raise FormatError(
            f"{reader.key} has {reader.size:,} bytes, and the snapshot says {ref.size:,}",
            key=reader.key,
            expected=ref.size,
            got=reader.size,
        )
    return StatisticsFooter(footer=footer, size=ref.size - reader.footer_start)


async def has_rows_of(snapshots: Snapshots, snapshot: Snapshot, other: int) -> bool:
    """Returns whether a snapshot has the files, segments and schema of another; False where nobody knows."""
    if snapshot.id == other:
        return True
    try:
        found = await snapshots.find(other)
    except FormatError:
        return False
    return found is not None and _state(found) == _state(snapshot)


def _state(snapshot: Snapshot) -> tuple[object, ...]:
    filled = snapshot.with_positions()
    return filled.added, filled.manifests, filled.removed, filled.segments, filled.schema
