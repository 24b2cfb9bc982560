"""The store's clock: estimated from its answers, and asked for where a decision depends on it.

Invariant: two machines whose clocks disagree write snapshot times by the clock of the store both talk to;
small differences are left alone, since an HTTP date has whole seconds only. Deletions and retention never
depend on a machine's clock where the store's time is available: from the Date of an answer, or from the
modification time of an object that was written just then.
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
"""Difference up to which the machine's clock is used as it is."""
_WARN_MS = 60_000
"""Difference from which a warning is due."""
_ALIKE_MS = 5_000
"""Two answers whose differences agree this well were not held up on their way."""


class StoreTime:
    """Wall time, corrected when the machine's clock is off by more than two seconds.

    Args:
        clock: the machine's.
        where: URL of the store, for the warning that the clocks differ.
    """

    def __init__(self, clock: Clock, where: str = "") -> None:
        self._clock, self._where = clock, where
        self._ahead_ms = 0
        self._suspected_ms: int | None = None
        self._warned = False
        self.is_known = False
        """Whether the time is known, or was asked for and is not available."""

    def learn(self, store_time_ms: int | None) -> None:
        """Learns from the time in an answer that arrived just now."""
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
        """Returns milliseconds since 1970, by the store's clock where it differs."""
        now = self._clock.now_ms()
        return now + self._ahead_ms if abs(self._ahead_ms) > _TOLERANCE_MS else now


async def ask_store_ms(store: ObjectStore, root: str, key: str) -> int | None:
    """Returns the store's clock as of now; None where it cannot be found out.

    Args:
        store: the store to ask; one without a clock of its own, such as a file system, writes an object.
        root: directory for that object.
        key: key of an existing object.
    """
    answered = (await store.head(key)).store_time_ms
    if answered is not None:
        return answered
    probe = join(root, new_probe_path())
    # A file system answers without a time, and still dates what is written to it by its own clock.
    stored = await store.put(probe, b"")
    try:
        return await answered_ms(store, stored)
    finally:
        await store.delete(probe)


async def answered_ms(store: ObjectStore, stored: Stored) -> int | None:
    """Returns when a write was answered, by the store's clock: from its receipt, or else from the object."""
    if stored.store_time_ms is not None:
        return stored.store_time_ms
    return (await store.head(stored.key)).modified_ms
