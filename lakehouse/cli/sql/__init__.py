"""SQL on the command line: ``lakehouse sql``, for a text, a script, or a conversation.

Words: *text* (one or more statements) → *result* (rows of one) → *form* (how rows are written). A *shell*
reads statements from a terminal; its own *commands* begin with a backslash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.cli.sql.shell import Shell

__all__ = ["Shell"]

__getattr__, __dir__ = door(__name__, {"shell": "Shell"})
