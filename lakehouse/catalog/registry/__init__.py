"""Registry: the tables that a process has open, one object for each.

Words: a table is *open* while somebody holds its object; whoever opens it again, under whatever name or
account, gets the same one. *Watchers* hear of every commit that this process makes, and of names that it
changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.registry.open_tables import ChangeWatcher, OpenTables

__all__ = ["ChangeWatcher", "OpenTables"]

__getattr__, __dir__ = door(__name__, {"open_tables": "ChangeWatcher OpenTables"})
