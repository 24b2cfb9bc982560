"""Names in SQL: quoted so that any text can be one, and read from what stands in a statement."""

from __future__ import annotations

__all__ = ["literal", "quoted", "unquoted"]


def quoted(name: str) -> str:
    """Returns a name as an identifier that means it and nothing else."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Returns text as a string constant."""
    return "'" + text.replace("'", "''") + "'"


def unquoted(word: str) -> str:
    """Returns the name that an identifier means, or the text of a string constant without escapes."""
    mark = word[:1]
    if mark in ("'", '"') and len(word) > 1 and word.endswith(mark):
        return word[1:-1].replace(mark * 2, mark)
    return word
