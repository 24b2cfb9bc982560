"""Texts of SQL: what stands where in a statement, without I/O and before any name is looked up.

Words: a *text* has *statements* of *kinds*; a query's *references* are the places where it names tables,
files and table functions; *cuts* replace ranges of a text, and *splices* are a text with its cuts made. A
statement that is no query is a *command*. All offsets are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sql.text.carets import caret, line_and_column
    from lakehouse.sql.text.commands import (
        BeginQuery,
        DescribeTable,
        EndQuery,
        ExplainQuery,
        NameText,
        ResetSetting,
        RunQuery,
        SetSetting,
        SettingText,
        ShowNames,
        ShowSubject,
        SqlCommand,
        UseDatabase,
        command_in,
    )
    from lakehouse.sql.text.names import literal, quoted, unquoted
    from lakehouse.sql.text.references import (
        Argument,
        ColumnReference,
        FileReference,
        FunctionReference,
        ParameterReference,
        QueryTree,
        TableReference,
        references_in,
    )
    from lakehouse.sql.text.renaming import renamed
    from lakehouse.sql.text.splices import Cut, Splices
    from lakehouse.sql.text.sql_text import SqlText
    from lakehouse.sql.text.statements import StatementKind, StatementText, statement_in, statements_in
    from lakehouse.sql.text.time_travel import AtClause, TimeUnit

__all__ = [
    "Argument", "AtClause", "BeginQuery", "ColumnReference", "Cut", "DescribeTable", "EndQuery",
    "ExplainQuery", "FileReference", "FunctionReference", "NameText", "ParameterReference",
    "QueryTree", "ResetSetting", "RunQuery", "SetSetting", "SettingText", "ShowNames",
    "ShowSubject", "Splices", "SqlCommand", "SqlText", "StatementKind", "StatementText",
    "TableReference", "TimeUnit", "UseDatabase", "caret", "command_in", "line_and_column",
    "literal", "quoted", "references_in", "renamed", "statement_in", "statements_in", "unquoted",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "carets": "caret line_and_column",
        "commands": "BeginQuery DescribeTable EndQuery ExplainQuery NameText ResetSetting RunQuery "
        "SetSetting SettingText ShowNames ShowSubject SqlCommand UseDatabase command_in",
        "names": "literal quoted unquoted",
        "references": "Argument ColumnReference FileReference FunctionReference ParameterReference QueryTree "
        "TableReference references_in",
        "renaming": "renamed",
        "splices": "Cut Splices",
        "sql_text": "SqlText",
        "statements": "StatementKind StatementText statement_in statements_in",
        "time_travel": "AtClause TimeUnit",
    },
)
