"""Sessions: texts of SQL run statement by statement, and results that are read in any form.

Words: a *session* has a database, settings and maybe a query → a *text* has statements → a *run* of a query
binds its names, waits for a turn and makes a *result*, which is in memory or *streams*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sql.session.host import SqlHost
    from lakehouse.sql.session.result import SqlResult
    from lakehouse.sql.session.session import SqlSession, run_text

__all__ = ["SqlHost", "SqlResult", "SqlSession", "run_text"]

__getattr__, __dir__ = door(
    __name__, {"host": "SqlHost", "result": "SqlResult", "session": "SqlSession run_text"}
)
