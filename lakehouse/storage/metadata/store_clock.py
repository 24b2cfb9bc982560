"""The store's clock: as far as answers tell it, and asked for where something hangs on it.

Invariant: two machines whose clocks disagree write snapshot times of the store both talk to; small
differences are left alone, since an HTTP date has whole seconds only. What is deleted, and how long
something is kept, is never a matter of a machine's clock where the store can tell the time: by the Date of
an answer, or by when it says that an object was written which is written then.
"""

from __future__ import annotations

from lakehouse.clock import Clock
from lakehouse.io.protocols import Stored
from lakehouse.io.store import ObjectStore
from lakehouse.log import get_logger
from lakehouse.storage.metadata.paths import join, new_probe_path

__all__ = ["StoreTime", "answered_ms", "ask_store_ms"]

_log = get_logger(__name__)
_TOLERANCE_MS = 2_000
_WARN_MS = 60_000
_ALIKE_MS = 5_000
"""Answers that agree so well on how far off a clock is were not held up on their way."""


class StoreTime:
    """Wall time, corrected when the machine's clock is off by more than two seconds.

    Args:
        clock: the machine's.
        where: the store, for the warning that the clocks differ.
    """

    def __init__(self, clock: Clock, where: str = "") -> None:
        self._clock, self._where = clock, where
        self._ahead_ms = 0
        self._suspected_ms: int | None = None
        self._warned = False
        self.is_known = False
        """Whether an answer has told the time, or was asked for it and did not."""

    def learn(self, store_time_ms: int | None) -> None:
        """Takes note of the time in an answer that came just now."""
        if store_time_ms is None:
            return
        self.is_known = True
        self._ahead_ms = store_time_ms - self._clock.now_ms()
        if abs(self._ahead_ms) > _WARN_MS and not self._warned:
            self._suspect()

    def _suspect(self) -> None:
        # One answer may have been held up for a minute; two hardly for the same time.
        before, self._suspected_ms = self._suspected_ms, self._ahead_ms
        if before is None or abs(before - self._ahead_ms) > _ALIKE_MS:
            return
        self._warned = True
        _log.warning(
            "this machine's clock differs from the store's, whose time is used for snapshots, pins and "
            "deletions: set it right",
            store=self._where,
            machine_is_ahead_s=round(-self._ahead_ms / 1000),
        )

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        now = self._clock.now_ms()
        return now + self._ahead_ms if abs(self._ahead_ms) > _TOLERANCE_MS else now


async def ask_store_ms(store: ObjectStore, root: str, key: str) -> int | None:
    """The store's clock as of now; None where nothing tells it.

    Args:
        store: is asked; a store that has no clock of its own, as file systems have none, is made to write.
        root: a directory, for what is written.
        key: of an object that is there.
    """
    told = (await store.head(key)).store_time_ms
    if told is not None:
        return told
    probe = join(root, new_probe_path())
    stored = await store.put(probe, b"")
    try:
        return await answered_ms(store, stored)
    finally:
        await store.delete(probe)


async def answered_ms(store: ObjectStore, stored: Stored) -> int | None:
    """When a write was answered, by the store's clock: what the receipt says, or else the object."""
    if stored.store_time_ms is not None:
        return stored.store_time_ms
    return (await store.head(stored.key)).modified_ms
