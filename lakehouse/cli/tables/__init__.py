"""Commands about tables: ``lakehouse table …``.

Words: *command* (a function and the words it takes) → *outcome* (what is printed, and the exit code) →
*rows*. Rows are printed by a module that is loaded with the first row, since ``--help`` has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.cli.tables.row_output import (
        as_table,
        cell,
        plain,
        print_lines,
        print_rows,
        print_some,
        total,
        typed,
    )

__all__ = ["as_table", "cell", "plain", "print_lines", "print_rows", "print_some", "total", "typed"]

__getattr__, __dir__ = door(
    __name__, {"row_output": "as_table cell plain print_lines print_rows print_some total typed"}
)
