"""Open tables of a process, by their uuid.

A second object of the same table would know another head, race the first in committing, and compact at the
same time; so there is one, whoever opens it. The lake hands its registry to ``storage``, which knows nothing
of the catalog.

Invariant: a table that somebody holds is found here, and nothing is held here that nobody holds.
"""

from __future__ import annotations

import uuid
from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

from lakehouse.storage.commit import Committed
from lakehouse.storage.tables import CommitListener, OpenTable, View

__all__ = ["ChangeWatcher", "OpenTables"]


class ChangeWatcher(Protocol):
    """Whoever wants to hear of what this process changes; neither call may wait or raise."""

    def committed(self, table: OpenTable, done: Committed) -> None:
        """Receives a commit when it is acknowledged."""
        ...

    def name_changed(self, database: str, table: str | None) -> None:
        """Receives a name that may have changed; None = that of the database itself."""
        ...


class OpenTables(CommitListener):
    """Open tables of one lake; the ``opened`` of its :class:`lakehouse.storage.tables.Environment`."""

    def __init__(self) -> None:
        self._tables: WeakValueDictionary[uuid.UUID, OpenTable] = WeakValueDictionary()
        self._watchers: WeakSet[ChangeWatcher] = WeakSet()

    def __len__(self) -> int:
        return len(self._tables)

    def get(self, table: uuid.UUID) -> OpenTable | None:
        """Returns the table of a uuid if it is open."""
        return self._tables.get(table)

    def __setitem__(self, table: uuid.UUID, opened: OpenTable) -> None:
        self._tables[table] = opened
        # First of all listeners: whatever the others do, a reader sees the commit.
        opened.listeners.insert(0, self)

    def watch(self, watcher: ChangeWatcher) -> None:
        """Has a watcher hear of changes for as long as it exists."""
        self._watchers.add(watcher)

    def name_changed(self, database: str, table: str | None) -> None:
        """Hands a change of a name on to the watchers."""
        for watcher in list(self._watchers):
            watcher.name_changed(database, table)

    def on_commit(self, table: OpenTable, view: View, done: Committed) -> None:
        """Hands a commit on to the watchers."""
        for watcher in list(self._watchers):
            watcher.committed(table, done)
