"""Columns of a schema by the names that callers give."""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Field, TableSchema, column_steps

__all__ = ["fields_named"]


def fields_named(schema: TableSchema, columns: Sequence[str] | None) -> tuple[Field, ...]:
    """Returns the columns of these names, in their order; None = all.

    Columns are whole: a name with a dot is that of a column, with or without backticks.

    Raises:
        InvalidInputError: a name is unknown, or given twice.
    """
    if columns is None:
        return schema.fields
    known = {field.name: field for field in schema.fields}
    found: dict[str, Field] = {}
    for given in columns:
        steps = (given,) if given in known else column_steps(schema.fields, given)
        name = steps[0]
        if len(steps) > 1 and name in known:
            what = f"is inside {name!r}: columns are read whole, so ask for {name!r}"
        elif len(steps) > 1 or name not in known:
            what = f"is not there; these are: {', '.join(known)}"
        elif name in found:
            what = "is named twice"
        else:
            found[name] = known[name]
            continue
        raise InvalidInputError(f"column {given!r} {what}", column=given)
    return tuple(found.values())
