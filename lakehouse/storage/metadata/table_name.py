"""Names of tables and databases: one form, checked wherever one comes in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import (
    InvalidInputError,
)
from lakehouse.excerpt import short

__all__ = ["INFORMATION_SCHEMA", "TableName", "check_name", "check_new_name", "check_not_system"]

INFORMATION_SCHEMA = "information_schema"
"""Database of the relations that the catalog computes; nothing of users' can be in it."""

_NAME = re.compile(r"[^\W_][\w-]{0,126}")


_NAME_BYTES_MAX = 160
"""Maximum bytes of a new name: file systems allow 255 for a part of a path, which holds a suffix too."""


@dataclass(frozen=True, slots=True)
class TableName:
    """Qualified name of a table, ``database.table``."""

    database: str
    table: str

    @classmethod
    def parse(cls, text: Any) -> TableName:
        """Parses a qualified name; raises an error that shows what a name looks like."""
        if not isinstance(text, str):
            raise InvalidInputError(f"a table is named by text, such as 'sales.orders', not by {short(text)}")
        database, dot, table = text.partition(".")
        if not dot:
            raise InvalidInputError(
                f"{short(text)} is not the name of a table: it needs a database, as in "
                f"'sales.{text[:40] or 'orders'}'",
                name=text,
            )
        return cls.of_parts(database, table)

    @classmethod
    def of_parts(cls, database: str, table: str) -> TableName:
        """Returns the name of two parts, checked."""
        return cls(check_name(database, "database"), check_name(table, "table"))

    @classmethod
    def new(cls, text: Any) -> TableName:
        """Parses the name of a table to be; its database exists already, however long that name is."""
        name = cls.parse(text)
        check_not_system(name.database)
        check_new_name(name.table, "table")
        return name

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


def check_name(text: Any, what: str) -> str:
    """Returns the name when something may have it. Earlier releases did not bound its bytes."""
    if isinstance(text, str) and _NAME.fullmatch(text):
        return text
    raise _invalid_name_error(text, what)


def check_new_name(text: Any, what: str) -> str:
    """Returns the name when something may be created with it."""
    if len(check_name(text, what).encode()) > _NAME_BYTES_MAX:
        raise _invalid_name_error(text, what)
    if what == "database":
        check_not_system(text)
    return str(text)


def check_not_system(database: str) -> None:
    """Refuses to change what is the catalog's own: ``information_schema`` and what is in it."""
    if database.lower() == INFORMATION_SCHEMA:
        raise InvalidInputError(
            f"{database!r} holds what the catalog computes: nothing in it can be created, renamed or "
            "dropped, and nothing else can be called so",
            database=database,
        )


def _invalid_name_error(text: Any, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{short(text)} cannot be the name of a {what}: use a letter or digit, then letters, digits, '_' and "
        f"'-', 127 characters and {_NAME_BYTES_MAX} bytes in UTF-8 at most",
        name=short(text),
    )
