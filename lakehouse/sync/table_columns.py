"""TableColumns without await: the twin of :mod:`lakehouse.storage.table_columns`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/storage/table_columns.py: edit that file, then run `make docs`.
# ruff: noqa: A002

from __future__ import annotations

from typing import Any

from lakehouse.format.schema import ColumnType
from lakehouse.storage.schema import ColumnPath
from lakehouse.storage.schema import SchemaChange as SchemaChange
from lakehouse.storage.table_columns import TableColumns as AsyncTableColumns
from lakehouse.storage.tables import CommitResult
from lakehouse.sync.bridge import Bridge

__all__ = ["TableColumns"]


class TableColumns:
    """Base of ``Table`` with its methods for changes of columns and options."""

    def __init__(self, wrapped: AsyncTableColumns, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def alter(self, *changes: SchemaChange) -> CommitResult:
        """Changes columns and options, all of it or nothing, in one commit.

        Example::

            from lakehouse import AddColumn, RenameColumn
            table.alter(AddColumn("note", "string"), RenameColumn("amount", "total"))
        """
        return self._bridge.call(self._wrapped.alter, *changes)

    def add_column(
        self,
        path: ColumnPath,
        type: ColumnType,
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
        return self._bridge.call(
            self._wrapped.add_column,
            path,
            type,
            required=required,
            default=default,
            comment=comment,
            first=first,
            after=after,
        )

    def drop_column(self, path: ColumnPath) -> CommitResult:
        """Drops a column; adding one of that name later does not bring its values back."""
        return self._bridge.call(self._wrapped.drop_column, path)

    def rename_column(self, path: ColumnPath, name: str) -> CommitResult:
        """Gives a column another name."""
        return self._bridge.call(self._wrapped.rename_column, path, name)

    def move_column(self, path: ColumnPath, *, first: bool = False, after: str | None = None) -> CommitResult:
        """Gives a column another place."""
        return self._bridge.call(self._wrapped.move_column, path, first=first, after=after)

    def widen_column(self, path: ColumnPath, type: ColumnType) -> CommitResult:
        """Gives a column a wider type, as SQL text or as an Arrow type."""
        return self._bridge.call(self._wrapped.widen_column, path, type)

    def make_optional(self, path: ColumnPath) -> CommitResult:
        """Lets a column have nulls."""
        return self._bridge.call(self._wrapped.make_optional, path)

    def set_default(self, path: ColumnPath, default: Any) -> CommitResult:
        """Sets the value of new rows that lack the column."""
        return self._bridge.call(self._wrapped.set_default, path, default)

    def set_comment(self, comment: str | None, *, column: ColumnPath | None = None) -> CommitResult:
        """Describes the table, or one of its columns."""
        return self._bridge.call(self._wrapped.set_comment, comment, column=column)

    def set_option(self, name: str, value: object) -> CommitResult:
        """Sets an option of the table; ``docs/spec/v1/schema.md`` lists them."""
        return self._bridge.call(self._wrapped.set_option, name, value)

    def unset_option(self, name: str) -> CommitResult:
        """Gives an option its default back."""
        return self._bridge.call(self._wrapped.unset_option, name)
