"""Automatic compaction, run by the process whose commit made it due.

After a commit, the merge units that it touched are planned. When there is something to do, the process waits
a random while, so that one of several that saw the same commit begins first, reads the newest snapshot, plans
again, and compacts. ``compaction.auto`` says which processes do so. Only those with a streaming writer do
by default: they live long and make a run with every flush, while a process that makes a few commits
should do what it was asked to do, and end.

The option is read again right before the work begins, from the newest snapshot, so that turning it off
reaches processes that have not committed since. Where it is ``off`` nothing is compacted, not even by a
streaming writer at ``compaction.stop_trigger``: it goes on and logs a warning.

Invariant: a table has at most one such compaction under way in a process. It belongs to the connection and
is cancelled when that is closed; its uploads are deleted then. A failure is logged and reaches no caller.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import anyio

from lakehouse.format.metadata import FileEntry, Snapshot
from lakehouse.log import get_logger
from lakehouse.storage.commit.committer import Committed
from lakehouse.storage.commit.kinds import traits_of
from lakehouse.storage.compact.executor import CompactResult, compact_table, plan_table
from lakehouse.storage.compact.plan import most_runs, unit_to_compact
from lakehouse.storage.metadata.run_order import Unit
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = ["AutoCompaction", "auto_compaction", "watched"]

_log = get_logger(__name__)
_WAIT_S = 1.0
"""Maximum random wait in seconds: of several processes that saw the same commit, one begins first."""


class AutoCompaction:
    """Compacts one table of a connection when its commits made that worth while."""

    def __init__(self) -> None:
        self._writers = 0
        self._touched: set[Unit] | None = set()
        """Merge units with new runs that were not planned yet; None = any unit may have some."""
        self._begun = False
        """True while a compaction is started and has not ended."""
        self._for_writer = False
        """True when a streaming writer was open at the moment the compaction was started."""
        self._running: anyio.Event | None = None
        """Event that is set when the compaction under way has ended; None = none is under way."""

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Counts this process as one with an open streaming writer while the block runs."""
        self._writers += 1
        try:
            yield
        finally:
            self._writers -= 1

    def on_commit(self, table: OpenTable, view: View, done: Committed) -> None:
        """Starts a compaction in the background when a commit may have made one due."""
        if not _is_due(view, has_writer=bool(self._writers)) or table.env.spawn is None:
            return
        snapshot = done.snapshot
        if traits_of(snapshot.kind).compacts or not snapshot.plus.files:
            return
        self._touch(snapshot, view)
        if not self._begun:
            self._for_writer = bool(self._writers)
            job = "compact", str(table.name)
            self._begun = table.env.spawn(self._run, table, snapshot, optional=True, job=job)

    def _touch(self, snapshot: Snapshot, view: View) -> None:
        own: list[FileEntry] = [entry for entry in snapshot.added if entry.at is None]
        # Entries of a large commit are in a manifest of their own, which is not read just for this.
        if len(own) < snapshot.plus.files:
            self._touched = None
        elif self._touched is not None:
            self._touched |= {unit_to_compact(entry, view.schema) for entry in own}

    async def _run(self, table: OpenTable, snapshot: Snapshot) -> None:
        ended = self._running = anyio.Event()
        try:
            view = await table.view_of(snapshot)
            # Commits made while this one compacts add to _touched and are seen by the next round.
            while self._touched is None or self._touched:
                touched, self._touched = self._touched, set()
                if await plan_table(view, units=touched):
                    await table.env.clock.sleep(random.uniform(0, _WAIT_S))
                    if not _is_due(await table.newest(), has_writer=self._for_writer or bool(self._writers)):
                        return
                    done = await compact_table(table, units=touched)
                    _log.info("compacted", table=str(table.name), result=str(done))
                view = await table.known()
        finally:
            self._begun, self._running = False, None
            ended.set()

    async def make_room(self, table: OpenTable) -> CompactResult | None:
        """Returns once no merge unit has ``compaction.stop_trigger`` runs, after a compaction if need be.

        A streaming writer waits for this before it adds another run; batch commits never wait. Where
        ``compaction.auto`` is ``off``, nobody waits, and a warning is logged.
        """
        view = await table.known()
        if most_runs(await view.files(), view.schema) < view.options.compaction_stop_trigger:
            return None
        # One at a time: two would merge the same runs, and the second to commit would give way.
        while self._running is not None:
            await self._running.wait()
        if _is_due(view, has_writer=True) and _is_due(await table.newest(), has_writer=True):
            return await compact_table(table)
        _log.warning(
            "a streaming writer adds runs to a table that nobody compacts: compaction.auto is off",
            table=str(table.name),
            stop_trigger=view.options.compaction_stop_trigger,
        )
        return None


def _is_due(view: View, *, has_writer: bool) -> bool:
    """Returns whether the table's options let this process compact by itself."""
    mode = view.options.compaction_auto
    return mode == "on" or (mode == "writer" and has_writer)


def auto_compaction(table: OpenTable) -> AutoCompaction:
    """Returns the table's automatic compaction, which listens to commits from the first call on."""
    for listener in table.listeners:
        if isinstance(listener, AutoCompaction):
            return listener
    made = AutoCompaction()
    table.listeners.append(made)
    return made


def watched(table: OpenTable) -> OpenTable:
    """Returns the same table, after making sure that commits of this process trigger due compactions."""
    auto_compaction(table)
    return table
