"""Time travel in a query: ``AS OF`` in its forms, ``t@tag``, and DuckDB's own ``AT``, read by their tokens.

Invariant: a form that DuckDB does not know is looked for only where its parser stops, so that ``a@b`` of an
expression and a column called ``version`` stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lakehouse.sql.text.names import unquoted
from lakehouse.sql.text.statements import StatementText
from lakehouse.sql.text.tokens import Tokens

__all__ = ["AtClause", "TimeUnit", "at_clause", "foreign_clause", "moment"]

TimeUnit = Literal["version", "timestamp"]
_UNITS: dict[str, TimeUnit] = {"VERSION": "version", "TIMESTAMP": "timestamp"}
_DIGITS_MAX = 19
_NO_VALUE = (
    "a moment is a number, text in quotes or a parameter: VERSION AS OF 3, TIMESTAMP AS OF '2026-01-31'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtClause:
    """The moment at which one reference reads its table."""

    unit: TimeUnit
    value: int | str | None
    """A snapshot's number, the name of a tag, or a time; None where a parameter gives it."""
    parameter: str | None = None
    """Name of the parameter that gives the value; those written ``?`` are called by their number."""
    start: int
    end: int
    """Bytes of the clause in the statement."""


def foreign_clause(statement: StatementText, tokens: Tokens, offset: int) -> AtClause | None:
    """Returns the clause at which DuckDB's parser stopped; None = it stopped at something else."""
    index = tokens.at(offset)
    if tokens.key(index) == "@":
        return _tagged(statement, tokens, index)
    if tokens.key(index) == "AS":
        # It took the unit for an alias.
        index -= 1
    first = index
    index += tokens.key(index) == "FOR"
    unit = _UNITS.get(tokens.key(index))
    if unit is None or tokens.keys(index + 1, 2) != ("AS", "OF"):
        return None
    return _clause(statement, tokens, unit, first, index + 3)


def at_clause(statement: StatementText, tokens: Tokens, offset: int, end: int) -> AtClause:
    """Returns DuckDB's own clause, which it read in a range of bytes: ``AT (VERSION => 3)``."""
    index = tokens.at(offset)
    while tokens.starts[index] < end and tokens.keys(index, 2) != ("AT", "("):
        index += 1
    clause = _clause(statement, tokens, _UNITS[tokens.key(index + 2)], index, index + 4)
    close = tokens.closing(index + 1)
    if tokens.end(close - 1) != clause.end:
        raise statement.error(_NO_VALUE, tokens.starts[index + 4], tokens.end(close - 1))
    return replace(clause, end=tokens.end(close))


def moment(statement: StatementText, tokens: Tokens, index: int) -> AtClause | None:
    """Returns the ``AS OF …`` of a statement of ours that begins at a token; None if none begins there.

    Its moment is a time: a version is that of one table.
    """
    first = index
    index += tokens.key(index) == "FOR"
    index += tokens.key(index) == "TIMESTAMP"
    if tokens.keys(index, 2) != ("AS", "OF"):
        return None
    return _clause(statement, tokens, "timestamp", first, index + 2)


def _clause(statement: StatementText, tokens: Tokens, unit: TimeUnit, first: int, index: int) -> AtClause:
    """Returns the clause that begins at one token and has its value at another."""
    if tokens.key(index) in ("TIMESTAMP", "TIMESTAMPTZ", "DATE") and tokens.word(index + 1)[:1] == "'":
        index += 1
    word, start = tokens.word(index), tokens.starts[first]
    end = tokens.end(min(index, len(tokens) - 1))
    if word == "?":
        number = sum(tokens.word(one) == "?" for one in range(index + 1))
        return AtClause(unit=unit, value=None, parameter=str(number), start=start, end=end)
    if word == "$" and tokens.word(index + 1):
        end = tokens.end(index + 1)
        return AtClause(unit=unit, value=None, parameter=tokens.word(index + 1), start=start, end=end)
    if word.isascii() and word.isdigit() and len(word) <= _DIGITS_MAX:
        return AtClause(unit=unit, value=int(word), start=start, end=end)
    if word[:1] == "'" and len(word) > 1:
        return AtClause(unit=unit, value=unquoted(word), start=start, end=end)
    raise statement.error(_NO_VALUE, tokens.starts[index] if word else start, end)


def _tagged(statement: StatementText, tokens: Tokens, index: int) -> AtClause:
    word = tokens.word(index + 1)
    start = tokens.starts[index]
    if not (tokens.is_name(index + 1) or word[:1] == "'" or (word.isascii() and word.isdigit())):
        raise statement.error("behind @ stands the name of a tag, in quotes unless it is a word", start)
    value = int(word) if word.isdigit() and len(word) <= _DIGITS_MAX else unquoted(word)
    return AtClause(unit="version", value=value, start=start, end=tokens.end(index + 1))
