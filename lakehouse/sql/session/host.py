"""Host of sessions: the lake, as one account has it."""

from __future__ import annotations

from typing import Protocol

from lakehouse.sql.engine import SqlInstance
from lakehouse.sql.system import SystemHost

__all__ = ["SqlHost"]


class SqlHost(SystemHost, Protocol):
    """Lake that statements are run in."""

    @property
    def sql_instance(self) -> SqlInstance:
        """DuckDB of the account."""
        ...
