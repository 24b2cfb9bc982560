"""Schemas that change: columns, options, indexes, and the time that rows are shown.

Words: *change* (what a user asks for) → *evolution* (the schema after it). A *lifetime* hides rows that are
older.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.schema.columns import fields_named
    from lakehouse.storage.schema.evolution import (
        AddColumn,
        ColumnPath,
        DropColumn,
        MakeOptional,
        MoveColumn,
        RenameColumn,
        SchemaChange,
        SetComment,
        SetDefault,
        SetOptions,
        SetTableComment,
        UnsetOptions,
        WidenColumn,
    )
    from lakehouse.storage.schema.row_ttl import Lifetime, lifetime, shown_where

__all__ = [
    "AddColumn",
    "ColumnPath",
    "DropColumn",
    "Lifetime",
    "MakeOptional",
    "MoveColumn",
    "RenameColumn",
    "SchemaChange",
    "SetComment",
    "SetDefault",
    "SetOptions",
    "SetTableComment",
    "UnsetOptions",
    "WidenColumn",
    "fields_named",
    "lifetime",
    "shown_where",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "columns": "fields_named",
        "evolution": (
            "AddColumn SchemaChange ColumnPath DropColumn MakeOptional MoveColumn RenameColumn SetComment "
            "SetDefault SetOptions SetTableComment UnsetOptions WidenColumn"
        ),
        "row_ttl": "Lifetime lifetime shown_where",
    },
)
