"""Automatic publication, by the process whose compaction made it worth while.

Where ``iceberg.publish`` is ``auto``, each commit that compacts is followed by a publication in the
background. Compactions that commit meanwhile are published together by the next one.

Invariant: a table has at most one such publication under way in a process. Closing the connection waits for
it, so that a process that compacts and ends has published. A failure is logged and reaches no caller.
"""

from __future__ import annotations

from lakehouse.iceberg.publishing.publisher import publish_table
from lakehouse.log import get_logger
from lakehouse.storage.commit import Committed, traits_of
from lakehouse.storage.tables import OpenTable, View

__all__ = ["AutoPublication", "published"]

_log = get_logger(__name__)


class AutoPublication:
    """Publishes one table of a connection when compactions were committed to it."""

    def __init__(self) -> None:
        self._is_due = False
        """True when a compaction was committed that no publication has seen."""
        self._begun = False
        """True while a publication is started and has not ended."""

    def on_commit(self, table: OpenTable, view: View, done: Committed) -> None:
        """Starts a publication in the background behind a commit that compacted."""
        if view.options.iceberg_publish != "auto" or not traits_of(done.snapshot.kind).compacts:
            return
        self._is_due = True
        if not self._begun and table.env.spawn is not None:
            self._begun = table.env.spawn(self._run, table, job=("publish", str(table.name)))

    async def _run(self, table: OpenTable) -> None:
        try:
            # Compactions committed while one is published are seen by the next round.
            while self._is_due:
                self._is_due = False
                report = await publish_table(table)
                _log.info("published", table=str(table.name), result=str(report))
        finally:
            self._begun = False


def published(table: OpenTable) -> OpenTable:
    """Returns the same table, after making sure that compactions of this process are published if so set."""
    if not any(isinstance(listener, AutoPublication) for listener in table.listeners):
        table.listeners.append(AutoPublication())
    return table
