"""Names of tables replaced by those of views, so that every column still means what the user meant.

Invariant: a query is never given another meaning; tables of one name that cannot be told apart are refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
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
    aliases = _aliases(tree, names)
    cuts = [
        cut
        for table, view, alias in zip(tree.tables, views, aliases, strict=True)
        for cut in _table_cuts(table, view, alias)
    ]
    named = [_Named(name=_folded(name), alias=alias) for name, alias in zip(names, aliases, strict=True)]
    unaliased = [one for one, table in zip(named, tree.tables, strict=True) if table.alias is None]
    cuts += [cut for column in tree.columns for cut in _column_cut(column, unaliased)]
    return (*cuts, *_parameter_cuts(tree))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    name: _Name
    alias: str


def _table_cuts(table: TableReference, view: str, alias: str) -> Iterator[Cut]:
    text = quoted(view)
    if table.alias is None and not table.bare:
        text += f" AS {quoted(alias)}"
    yield Cut(start=table.start, end=table.name_end, text=text)
    if table.at is not None:
        yield Cut(start=table.at.start, end=table.at.end, text="")


def _parameter_cuts(tree: QueryTree) -> Iterator[Cut]:
    if any(table.at is not None and table.at.parameter for table in tree.tables):
        for one in tree.parameters:
            yield Cut(start=one.start, end=one.end, text=f"${one.name}")


def _aliases(tree: QueryTree, names: Sequence[_Name]) -> list[str]:
    """Returns by which name each table is called in the result."""
    others: defaultdict[str, set[_Name]] = defaultdict(set)
    for alias in tree.aliases:
        others[alias].add(())
    for table, name in zip(tree.tables, names, strict=True):
        others[table.shown.casefold()].add(_folded(name) if table.alias is None else ())
    return [
        _alias(tree, table, name, is_shared=len(others[table.shown.casefold()]) > 1)
        for table, name in zip(tree.tables, names, strict=True)
    ]


def _alias(tree: QueryTree, table: TableReference, name: _Name, *, is_shared: bool) -> str:
    """Returns the user's alias, or the table's name; the full one where another has its name."""
    if table.alias is not None or not is_shared:
        return table.shown
    full = [column for column in tree.columns if _parts_of(column, _folded(name))]
    short = [
        column
        for column in tree.columns
        if column.parts[0].casefold() == table.shown.casefold() and column not in full
    ]
    if full and short:
        raise tree.statement.error(
            f"{table.shown} is the name of several tables here, and columns are called by it with and "
            "without its database: give each an alias",
            table.start,
            table.end,
        )
    return table.shown if short else ".".join(name)


def _parts_of(column: ColumnReference, name: _Name) -> int:
    """Returns how many parts of a column's name are the table's, its database among them; 0 = none."""
    for count in range(min(len(column.parts), len(name)), 1, -1):
        if _folded(column.parts[:count]) == name[-count:]:
            return count
    return 0


def _column_cut(column: ColumnReference, tables: Sequence[_Named]) -> Iterator[Cut]:
    for table in tables:
        count = _parts_of(column, table.name)
        if count:
            is_row = count == len(column.parts)
            end = column.end if is_row else column.starts[count]
            text = quoted(table.alias) + ("" if is_row else ".")
            yield Cut(start=column.starts[0], end=end, text=text)
            return


def _folded(name: _Name) -> _Name:
    return tuple(part.casefold() for part in name)
