"""What the maintenance of tables has in common: progress that is told, the store's clock, deletions.

Invariant: how old an object is, is said by the store alone: by its clock as of now, asked for by a
request of its own, and by the time it says the object was written. A machine's clock deletes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lakehouse.errors import InvalidInputError
from lakehouse.format.snapshot import Snapshot
from lakehouse.io.store import ObjectStore
from lakehouse.storage.history import History
from lakehouse.storage.layout import join

__all__ = [
    "Deletions",
    "Progress",
    "ProgressCallback",
    "Teller",
    "check_count",
    "check_seconds",
    "store_now_ms",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a piece of maintenance has got."""

    step: str
    """What it does, such as ``read snapshots`` or ``delete``."""
    done: int
    total: int | None = None
    """None = not known."""

    def __str__(self) -> str:
        return f"{self.step}: {self.done:,}" + (f" of {self.total:,}" if self.total is not None else "")


ProgressCallback = Callable[[Progress], None]
"""Is called now and then while maintenance goes on, between two requests; must not wait."""


class Teller:
    """Tells progress to whoever wants to know.

    Args:
        callback: None = nobody.
    """

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback
        self._done = 0
        self._step = ""

    def step(self, step: str, done: int = 1, total: int | None = None) -> None:
        """So much more of a step is done; a step's first word begins to count anew."""
        self._done = self._done + done if step == self._step else done
        self._step = step
        if self._callback is not None:
            self._callback(Progress(step=step, done=self._done, total=total))


async def store_now_ms(store: ObjectStore, history: History, head: Snapshot) -> int:
    """The store's clock as of now; the machine's where the store tells no time."""
    told = (await store.head(history.log.key(head.id))).store_time_ms
    history.time.learn(told)
    return told if told is not None else history.time.now_ms()


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
