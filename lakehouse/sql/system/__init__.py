"""System tables: what a lake says of itself, as tables that SQL reads.

Words: a *relation* of a table (``files``) → of one table at its pin (``orders$files``), or of all that the
account sees (``system.files``). *Complaints* are what has no rows because it could not be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sql.system.providers import NAME_COLUMNS
    from lakehouse.sql.system.registry import SystemHost, SystemTables

__all__ = ["NAME_COLUMNS", "SystemHost", "SystemTables"]

__getattr__, __dir__ = door(__name__, {"providers": "NAME_COLUMNS", "registry": "SystemHost SystemTables"})
