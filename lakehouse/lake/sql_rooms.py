"""Rooms of SQL, loaded when a statement first needs them: they need DuckDB, which not every lake has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sql.engine import SqlInstance
    from lakehouse.sql.session import SqlSession, run_text

__all__ = ["SqlInstance", "SqlSession", "run_text"]

__getattr__, __dir__ = door(
    __name__, {"lakehouse.sql.engine": "SqlInstance", "lakehouse.sql.session": "SqlSession run_text"}
)
