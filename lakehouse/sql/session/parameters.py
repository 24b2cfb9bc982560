"""Parameters of a statement: values by place or by name, checked against what the text asks for.

Invariant: a value reaches DuckDB as a value, never as text of the statement.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.sql.engine import SqlParameters
from lakehouse.sql.text import QueryTree
from lakehouse.suggest import suggestion

__all__ = ["asked_names", "named_values", "refuse_unasked", "values_for"]

_VALUES = (
    *(bool, int, float, str, bytes, decimal.Decimal, uuid.UUID),
    *(dt.date, dt.time, dt.timedelta),
)


def named_values(parameters: SqlParameters) -> Mapping[str, Any]:
    """Returns values by name; those of a list are called by their number, from 1.

    Raises:
        InvalidInputError: they are neither a list nor a dict, or a value is of no type that SQL has.
    """
    given: Any = {} if parameters is None else parameters
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        given = {str(number): value for number, value in enumerate(given, 1)}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidInputError(
            f"parameters are a list, for ? and $1, or a dict by name, for $name; not {short(parameters)}"
        )
    return {name: _checked(name, value) for name, value in given.items()}


def _checked(name: str, value: Any) -> Any:
    """Returns a value that DuckDB binds; scalars of numpy as Python's."""
    if value is None or isinstance(value, _VALUES):
        return value
    if isinstance(value, list | tuple):
        return [_checked(name, one) for one in value]
    if isinstance(value, dict):
        return {key: _checked(name, one) for key, one in value.items()}
    if type(value).__module__ == "numpy" and not getattr(value, "shape", True):
        return _checked(name, value.item())
    raise InvalidInputError(
        f"parameter {name}: a value is a number, text, bytes, a date or time, a list or dict of such, or "
        f"None, not {short(value)}"
    )


def asked_names(trees: Iterable[QueryTree]) -> frozenset[str]:
    """Returns the names of the values that statements ask for."""
    return frozenset(name for tree in trees for name, _, _ in _asked(tree))


def _asked(tree: QueryTree) -> Iterable[tuple[str, int, int]]:
    """Yields the name and the place of each value that a statement asks for."""
    for one in tree.parameters:
        yield one.name, one.start, one.end
    for table in tree.tables:
        if table.at is not None and table.at.parameter is not None:
            yield table.at.parameter, table.at.start, table.at.end


def values_for(tree: QueryTree, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values that DuckDB gets for a statement, which are those outside of its time travel.

    Raises:
        InvalidInputError: one is missing; the message shows where it is asked for.
    """
    for name, start, end in _asked(tree):
        if name not in given:
            how = f"[…] with {name} or more values" if name.isdigit() else f"{{{name!r}: …}}"
            known = f"; {suggestion(name, given)}" if given else ""
            raise tree.statement.error(
                f"parameter {name} has no value: pass parameters={how}{known}", start, end
            )
    return {one.name: given[one.name] for one in tree.parameters}


def refuse_unasked(asked: frozenset[str], given: Mapping[str, Any]) -> None:
    """Raises InvalidInputError when there are values that no statement of a text asks for."""
    unasked = [name for name in given if name not in asked]
    if unasked:
        raise InvalidInputError(
            f"the text has no parameter {', '.join(unasked)}; {suggestion(unasked[0], sorted(asked))}"
        )
