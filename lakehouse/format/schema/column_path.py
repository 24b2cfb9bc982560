"""Resolver of column names as people write them: the column or nested field that a text means.

Schema changes, ``columns=``, indexes and commands use it; conditions follow the same rules over Arrow's
types (:mod:`lakehouse.expr.bind`).

Invariant: a text means one column or field, or is refused; an existing column is found by its whole name.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.errors import InvalidInputError
from lakehouse.expr.column_names import is_quoted, parts_of, resolved, written
from lakehouse.format.schema.types import Field, children

__all__ = ["ambiguous_columns", "column_steps", "new_name", "new_steps", "refuse_ambiguous"]


def column_steps(fields: Sequence[Field], text: str) -> tuple[str, ...]:
    """Returns the steps to the column or field that a text names, be it there or not.

    Raises:
        InvalidInputError: it names both a column and a field.
    """
    by_name = {field.name: field for field in fields}
    return resolved(
        text,
        by_name,
        nested=lambda name: bool(children(by_name[name].type)),
        leads=lambda steps: _leads(fields, steps),
    )


def _leads(fields: Sequence[Field], steps: Sequence[str]) -> bool:
    for step in steps:
        field = next((field for field in fields if field.name == step), None)
        if field is None:
            return False
        fields = children(field.type)
    return True


def new_steps(fields: Sequence[Field], text: str) -> tuple[str, ...]:
    """Returns the steps to a column or field that is to be added; its parent must exist."""
    parts = parts_of(text)
    if is_quoted(text) or len(parts) == 1 or parts[0] in {field.name for field in fields}:
        return parts
    raise InvalidInputError(
        f"column {text!r}: there is no column {parts[0]!r} to add a field to. A name that holds a dot is "
        f"written in backticks: {written([text])}",
        column=text,
    )


def new_name(text: str) -> str:
    """Returns the name that a text gives a column; refuses paths."""
    parts = parts_of(text)
    if len(parts) > 1:
        raise InvalidInputError(
            f"{text!r} is a path and no name. A name that holds a dot is written in backticks: "
            f"{written([text])}",
            column=text,
        )
    return parts[0]


def ambiguous_columns(fields: Sequence[Field]) -> frozenset[str]:
    """Returns the columns whose names, with dots in them, are paths to fields as well."""
    return frozenset(
        field.name
        for field in fields
        if "." in field.name and len(parts_of(field.name)) > 1 and _leads(fields, parts_of(field.name))
    )


def refuse_ambiguous(fields: Sequence[Field], before: Sequence[Field] = ()) -> None:
    """Refuses columns whose names also mean fields, except those that were ambiguous ``before``."""
    for name in sorted(ambiguous_columns(fields) - ambiguous_columns(before)):
        raise InvalidInputError(
            f"column {name!r} could not be told from the field {parts_of(name)[-1]!r} of column "
            f"{parts_of(name)[0]!r}: give one of them another name",
            column=name,
        )
