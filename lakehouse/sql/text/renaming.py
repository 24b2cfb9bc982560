"""Names of tables replaced by those of views, so that every column still means what the user meant.

Invariant: a query is never given another meaning; tables of one name that cannot be told apart are refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.sql.text.names import quoted
from lakehouse.sql.text.references import ColumnReference, QueryTree, TableReference
from lakehouse.sql.text.splices import Cut

__all__ = ["renamed"]

_Name = tuple[str, ...]


def renamed(tree: QueryTree, views: Sequence[str], names: Sequence[_Name]) -> tuple[Cut, ...]:
    """Returns the cuts by which a query reads views in place of tables.

    Time travel is cut out, and parameters written ``?`` get their numbers where a clause of it took one.

    Args:
        views: what to read, for each of ``tree.tables``.
        names: full names of the tables, such as ``("catalog", "sales", "orders")``.

    Raises:
        InvalidInputError: columns are called by a name that two tables have, with and without its database.
    """
    owners = _owners(tree, names)
    aliases = _aliases(tree, names, owners)
    cuts = [
        cut
        for table, view, alias in zip(tree.tables, views, aliases, strict=True)
        for cut in _table_cuts(table, view, alias)
    ]
    called = {
        _folded(name): alias
        for table, name, alias in zip(tree.tables, names, aliases, strict=True)
        if table.alias is None
    }
    for column, owner in zip(tree.columns, owners, strict=True):
        if owner is not None:
            cuts.append(_column_cut(column, called[owner.name], owner.parts))
    return (*cuts, *_parameter_cuts(tree))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner:
    """Table whose full name stands before a column."""

    name: _Name
    parts: int
    """Parts of the column's name that are the table's."""


def _owners(tree: QueryTree, names: Sequence[_Name]) -> list[_Owner | None]:
    """Returns the owner of each column that is called with its database at least."""
    endings: dict[_Name, _Name] = {}
    for table, name in zip(tree.tables, names, strict=True):
        for count in range(2, len(name) + 1) if table.alias is None else ():
            endings.setdefault(_folded(name)[-count:], _folded(name))
    longest = max(map(len, endings), default=0)
    return [_owner(column, endings, longest) for column in tree.columns]


def _owner(column: ColumnReference, endings: Mapping[_Name, _Name], longest: int) -> _Owner | None:
    for count in range(min(len(column.parts), longest), 1, -1):
        name = endings.get(_folded(column.parts[:count]))
        if name is not None:
            return _Owner(name=name, parts=count)
    return None


def _table_cuts(table: TableReference, view: str, alias: str) -> Iterator[Cut]:
    text = quoted(view)
    if table.alias is None and not table.bare:
        text += f" AS {quoted(alias)}"
    yield Cut(start=table.name_start, end=table.name_end, text=text)
    if table.at is not None:
        yield Cut(start=table.at.start, end=table.at.end, text="")


def _parameter_cuts(tree: QueryTree) -> Iterator[Cut]:
    if any(table.at is not None and table.at.parameter for table in tree.tables):
        for one in tree.parameters:
            yield Cut(start=one.start, end=one.end, text=f"${one.name}")


def _aliases(tree: QueryTree, names: Sequence[_Name], owners: Sequence[_Owner | None]) -> list[str]:
    """Returns by which name each table is called in the result."""
    others: defaultdict[str, set[_Name]] = defaultdict(set)
    for alias in tree.aliases:
        others[alias].add(())
    for table, name in zip(tree.tables, names, strict=True):
        others[table.shown.casefold()].add(_folded(name) if table.alias is None else ())
    full = {owner.name for owner in owners if owner is not None}
    short = {
        column.parts[0].casefold()
        for column, owner in zip(tree.columns, owners, strict=True)
        if owner is None
    }
    aliases = []
    for table, name in zip(tree.tables, names, strict=True):
        shown = table.shown.casefold()
        is_shared = table.alias is None and len(others[shown]) > 1
        if is_shared and shown in short and _folded(name) in full:
            raise tree.statement.error(
                f"{table.shown} is the name of several tables here, and columns are called by it with and "
                "without its database: give each an alias",
                table.start,
                table.end,
            )
        # Columns that are called by the short name find the table that stands next to them.
        aliases.append(".".join(name) if is_shared and shown not in short else table.shown)
    return aliases


def _column_cut(column: ColumnReference, alias: str, parts: int) -> Cut:
    if parts == len(column.parts):
        return Cut(start=column.starts[0], end=column.end, text=quoted(alias))
    return Cut(start=column.starts[0], end=column.starts[parts], text=f"{quoted(alias)}.")


def _folded(name: _Name) -> _Name:
    return tuple(part.casefold() for part in name)
