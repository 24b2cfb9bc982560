"""What the maintenance of tables has in common: arguments, deletions.

Invariant: a dry run deletes nothing, and counts what would be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.errors import InvalidInputError
from lakehouse.io.store import ObjectStore
from lakehouse.io.work.progress import Progress, ProgressCallback, Teller
from lakehouse.storage.metadata.paths import join

__all__ = [
    "Deletions",
    "Progress",
    "ProgressCallback",
    "Teller",
    "check_count",
    "check_seconds",
]


def check_seconds(name: str, value: object) -> float | None:
    """A number of seconds from 0, or None; an error that names the argument."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidInputError(f"{name} is a number of seconds from 0, not {value!r}")
    return float(value)


def check_count(name: str, value: object) -> int | None:
    """A whole number from 1, or None; an error that names the argument."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"{name} is a whole number from 1, not {value!r}")
    return value


class Deletions:
    """Deletes objects of one table, batch by batch, and counts them.

    Args:
        store: where the table is.
        root: its directory.
        teller: is told.
        dry_run: count and delete nothing.
    """

    def __init__(self, store: ObjectStore, root: str, teller: Teller, *, dry_run: bool) -> None:
        self._store, self._root, self._teller, self._dry_run = store, root, teller, dry_run
        self.objects = 0
        self.bytes = 0

    async def delete(self, objects: Iterable[tuple[str, int]]) -> int:
        """Deletes paths of which it is known how many bytes they have; returns how many they were."""
        found = list(objects)
        if found and not self._dry_run:
            await self._store.delete_many(join(self._root, path) for path, _ in found)
        self.objects += len(found)
        self.bytes += sum(size for _, size in found)
        if found:
            self._teller.step("delete", len(found))
        return len(found)
