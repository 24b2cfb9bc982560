"""Changes of a table's columns and options, as methods of ``Table``.

Invariant: each change is one commit, and every file that was written before stays readable.
"""

from __future__ import annotations

from typing import Any

from lakehouse.format.schema import ColumnType
from lakehouse.storage.commit.alter import Alter
from lakehouse.storage.schema.evolution import (
    AddColumn,
    ColumnPath,
    DropColumn,
    MakeOptional,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetDefault,
    SetOptions,
    SetTableComment,
    UnsetOptions,
    WidenColumn,
)
from lakehouse.storage.schema.evolution import SchemaChange as SchemaChange
from lakehouse.storage.tables.commit_result import CommitResult, commit_change
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = ["TableColumns"]


class TableColumns:
    """Base of ``Table`` with its methods for changes of columns and options."""

    _table: OpenTable

    async def alter(self, *changes: SchemaChange) -> CommitResult:
        """Changes columns and options, all of it or nothing, in one commit.

        Example::

            from lakehouse import AddColumn, RenameColumn
            await table.alter(AddColumn("note", "string"), RenameColumn("amount", "total"))
        """
        return await commit_change(self._table, Alter(self._table.schemas, self._table.snapshots, changes))

    async def add_column(
        self,
        path: ColumnPath,
        type: ColumnType,  # noqa: A002 - the usual name
        *,
        required: bool = False,
        default: Any = None,
        comment: str | None = None,
        first: bool = False,
        after: str | None = None,
    ) -> CommitResult:
        """Adds a column, or a field of a struct; older rows have the default.

        Args:
            path: the column's name, or the path to a new field of a struct.
            type: SQL text such as ``"double"``, or an Arrow type such as ``pa.float64()``.
            required: never null; needs a default.
            default: value of rows that lack the column, older ones included.
            comment: for people.
            first: before all others.
            after: behind this column.
        """
        return await self.alter(
            AddColumn(
                path, type, required=required, default=default, comment=comment, first=first, after=after
            )
        )

    async def drop_column(self, path: ColumnPath) -> CommitResult:
        """Drops a column; adding one of that name later does not bring its values back."""
        return await self.alter(DropColumn(path))

    async def rename_column(self, path: ColumnPath, name: str) -> CommitResult:
        """Gives a column another name."""
        return await self.alter(RenameColumn(path, name))

    async def move_column(
        self, path: ColumnPath, *, first: bool = False, after: str | None = None
    ) -> CommitResult:
        """Gives a column another place."""
        return await self.alter(MoveColumn(path, first=first, after=after))

    async def widen_column(self, path: ColumnPath, type: ColumnType) -> CommitResult:  # noqa: A002
        """Gives a column a wider type, as SQL text or as an Arrow type."""
        return await self.alter(WidenColumn(path, type))

    async def make_optional(self, path: ColumnPath) -> CommitResult:
        """Lets a column have nulls."""
        return await self.alter(MakeOptional(path))

    async def set_default(self, path: ColumnPath, default: Any) -> CommitResult:
        """Sets the value of new rows that lack the column."""
        return await self.alter(SetDefault(path, default))

    async def set_comment(self, comment: str | None, *, column: ColumnPath | None = None) -> CommitResult:
        """Describes the table, or one of its columns."""
        return await self.alter(SetTableComment(comment) if column is None else SetComment(column, comment))

    async def set_option(self, name: str, value: object) -> CommitResult:
        """Sets an option of the table; ``docs/spec/v1/schema.md`` lists them."""
        return await self.alter(SetOptions({name: value}))

    async def unset_option(self, name: str) -> CommitResult:
        """Gives an option its default back."""
        return await self.alter(UnsetOptions([name]))
