"""References of a query: every table, file and table function that it names, with the bytes where it does.

Invariant: offsets are bytes of the statement as the user wrote it, whatever DuckDB's parser was shown.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lakehouse.catalog.views import NamesInScope, TreeNode, query_tree, table_name, tree_nodes
from lakehouse.errors import InternalError
from lakehouse.sql.text.names import unquoted
from lakehouse.sql.text.statements import StatementText
from lakehouse.sql.text.time_travel import AtClause, at_clause, foreign_clause
from lakehouse.sql.text.tokens import Tokens

__all__ = [
    "Argument",
    "ColumnReference",
    "FileReference",
    "FunctionReference",
    "ParameterReference",
    "QueryTree",
    "TableReference",
    "references_in",
]

_CLAUSES_MAX = 100
"""Clauses of time travel in a query."""
_PARSED_MAX = 1_000_000
"""Tokens that are parsed in all; each clause has the whole query parsed once more."""
_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_NAMING = frozenset({"TABLE", "SUMMARIZE", "DESCRIBE", "DESC", "SHOW"})
_FILE_FUNCTIONS = frozenset(
    {"read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "sniff_csv", "read_json", "read_json_auto"}
    | {
        "read_ndjson",
        "read_ndjson_auto",
        "read_json_objects",
        "read_json_objects_auto",
        "read_ndjson_objects",
    }
    | {"read_text", "read_blob", "parquet_metadata", "parquet_schema", "parquet_file_metadata"}
    | {"parquet_kv_metadata", "parquet_bloom_probe", "parquet_full_metadata", "glob"}
)
_DIGITS_MAX = 40
_Found = TypeVar("_Found")
_PLACE = re.compile(r"\[(\d+),(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A place where a query names a table."""

    start: int
    end: int
    """Exclusive: behind the alias and the time travel too."""
    name_start: int
    """Not ``start`` where the alias stands before the name: ``FROM o : sales.orders``."""
    name_end: int
    """Exclusive: behind the name."""
    parts: tuple[str, ...]
    """The name as it is written, such as ``("sales", "orders")``."""
    alias: str | None
    at: AtClause | None
    bare: bool = False
    """Whether no alias can stand here, as in ``SUMMARIZE t``."""

    @property
    def shown(self) -> str:
        """The name by which columns of it are called."""
        return self.alias or self.parts[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReference:
    """A place where a query names a column with what it is of."""

    starts: tuple[int, ...]
    """Where each part begins."""
    end: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterReference:
    """A place where a query wants a value."""

    start: int
    end: int
    name: str
    """Its number, from 1, where it is written ``?``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of a table function."""

    name: str
    """Empty = by its place."""
    start: int
    end: int
    value: Any
    """A constant or a list of constants."""
    constant: bool
    """Whether ``value`` is known; other arguments are expressions or parameters."""
    items: tuple[Argument, ...] = ()
    """Members of a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionReference:
    """A place where a query reads from a table function."""

    start: int
    end: int
    """Exclusive: behind the alias too."""
    call_start: int
    """First byte of the function's name."""
    call_end: int
    """Exclusive: behind the closing parenthesis."""
    name: str
    """In small letters, with its schema if one is written."""
    alias: str | None
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReference:
    """A place where a query reads files by their paths."""

    start: int
    end: int
    function: str
    """Empty = a path in place of a table."""
    alias: str | None
    paths: tuple[Argument, ...]
    """Each a constant text of its own range, so that it can be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTree:
    """References of a query, in the order of its text."""

    statement: StatementText
    tables: tuple[TableReference, ...]
    files: tuple[FileReference, ...]
    functions: tuple[FunctionReference, ...]
    columns: tuple[ColumnReference, ...]
    aliases: frozenset[str]
    """Names of subqueries and common table expressions that are read, casefolded."""
    parameters: tuple[ParameterReference, ...]
    """Outside of time travel; what stands in those clauses DuckDB does not see."""


def references_in(statement: StatementText) -> QueryTree:
    """Reads what a query names; its text is the user's, with time travel in any form.

    Raises:
        InvalidInputError: DuckDB cannot parse it, it nests too deep, it changes data in a ``with`` clause, or
            a path of a file is computed.
    """
    tokens = Tokens.of(statement.raw)
    tree, clauses = _parsed(statement, tokens)
    reader = _Reader(statement=statement, tokens=tokens, clauses=clauses)
    for node, scope in tree_nodes(tree["statements"]):
        reader.read(node, scope)
    return reader.finished()


def _parsed(statement: StatementText, tokens: Tokens) -> tuple[TreeNode, list[AtClause]]:
    """Returns DuckDB's tree, and the clauses that were blanked so that it could parse the rest."""
    raw = bytearray(statement.raw)
    clauses: list[AtClause] = []
    is_pivot_hidden = False
    while True:
        tree = query_tree(raw.decode())
        if not tree.get("error"):
            if len(tree["statements"]) != 1:
                raise InternalError(
                    f"DuckDB finds {len(tree['statements'])} statements where one was cut out"
                )
            return tree, clauses
        if tree.get("error_type") == "not implemented" and not is_pivot_hidden:
            is_pivot_hidden = _hide_pivots(raw, tokens)
            if is_pivot_hidden:
                continue
        place = _PLACE.fullmatch(str(tree.get("location")))
        clause = foreign_clause(statement, tokens, int(place[1])) if place else None
        if clause is not None and _is_too_often(len(clauses) + 1, tokens):
            raise statement.error(
                "time travel is asked for too often in a query of this size", clause.start, clause.end
            )
        if clause is None:
            start, length = (int(place[1]), int(place[2])) if place else (0, 1)
            message = str(tree.get("error_message")).split(". Use ")[0][:300]
            raise statement.error(f"DuckDB cannot parse this: {message}", start, start + length)
        clauses.append(clause)
        raw[clause.start : clause.end] = b" " * (clause.end - clause.start)


def _is_too_often(clauses: int, tokens: Tokens) -> bool:
    return clauses > _CLAUSES_MAX or clauses * len(tokens) > _PARSED_MAX


def _hide_pivots(raw: bytearray, tokens: Tokens) -> bool:
    """Makes ``FROM t`` of each ``PIVOT t ON …``, byte for byte; returns whether there was one.

    DuckDB shows the tree of a pivot only where its columns are in the text.
    """
    found = False
    opened: list[int] = []
    closed = 0
    # Where the parenthesis opened that was closed last.
    for index in range(len(tokens)):
        key, before = tokens.key(index), tokens.word(index - 1)
        if key == "(":
            opened.append(index)
        elif key == ")" and opened:
            closed = opened.pop()
        is_first = index == 0 or before == "("
        is_behind_with = before == ")" and tokens.key(closed - 1) in ("AS", "MATERIALIZED")
        on, behind = None, 0
        if key in ("PIVOT", "PIVOT_WIDER") and (is_first or is_behind_with):
            on, behind = _pivot_ends(tokens, index)
        if on is not None:
            start, end = tokens.starts[index], tokens.end(index)
            raw[start:end] = b"FROM".ljust(end - start)
            last = tokens.starts[behind] if behind < len(tokens) else len(raw)
            raw[tokens.starts[on] : last] = b" " * (last - tokens.starts[on])
            found = True
    return found


def _pivot_ends(tokens: Tokens, index: int) -> tuple[int | None, int]:
    """Returns the ``ON`` of a pivot, and the token behind the pivot."""
    on, depth = None, 0
    for one in range(index, len(tokens)):
        word = tokens.key(one)
        depth += (word == "(") - (word == ")")
        if depth < 0:
            return on, one
        if on is None and depth == 0 and word == "ON":
            on = one
    return on, len(tokens)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Collects references from the nodes of a tree."""

    statement: StatementText
    tokens: Tokens
    clauses: list[AtClause]
    tables: dict[int, TableReference] = field(default_factory=dict)
    files: dict[int, FileReference] = field(default_factory=dict)
    functions: dict[int, FunctionReference] = field(default_factory=dict)
    columns: dict[int, ColumnReference] = field(default_factory=dict)
    aliases: set[str] = field(default_factory=set)
    by_keyword: dict[tuple[str, ...], deque[tuple[int, int]]] = field(default_factory=dict)

    def read(self, node: TreeNode, scope: NamesInScope) -> None:
        """Takes what one node names."""
        kind = node.get("type")
        if "cte_map" in node and kind not in _QUERY_NODES:
            raise self.statement.error(
                "a query that changes data in a WITH clause is not supported: make two statements of it",
                0,
                kind="unsupported",
            )
        if "sample" in node and node.get("alias"):
            self.aliases.add(str(node["alias"]).casefold())
        if kind == "BASE_TABLE":
            self._table(node, table_name(node, scope))
        elif kind == "TABLE_FUNCTION":
            self._function(node)
        elif kind == "COLUMN_REF":
            self._column(node)
        elif kind == "SHOW_REF" and node.get("show_type") == "SHOW_SPECIAL":
            raise self.statement.error("SHOW is a statement of its own, and no table", 0)

    def finished(self) -> QueryTree:
        """Returns what was collected; a clause of time travel that no table has is an error."""
        tables = {start: self._with_clause(table) for start, table in self.tables.items()}
        taken = {table.at.start for table in tables.values() if table.at is not None}
        for clause in self.clauses:
            if clause.start not in taken:
                raise self.statement.error(
                    "AS OF and @ stand behind the name of a table", clause.start, clause.end
                )
        moments = [(table.at.start, table.at.end) for table in tables.values() if table.at is not None]
        parameters = [
            one
            for one in _parameters(self.tokens)
            if not any(start <= one.start < end for start, end in moments)
        ]
        return QueryTree(
            statement=self.statement,
            tables=_ordered(tables),
            files=_ordered(self.files),
            functions=_ordered(self.functions),
            columns=_ordered(self.columns),
            aliases=frozenset(self.aliases),
            parameters=tuple(parameters),
        )

    def _table(self, node: TreeNode, parts: tuple[str, ...]) -> None:
        if not parts:
            # A common table expression.
            self.aliases.add(str(node.get("table_name")).casefold())
            return
        span = self._span(node)
        bare = span is None
        start, end = span or self._named_by_keyword(parts)
        index = self._named(start)
        alias = str(node["alias"]) if node.get("alias") else None
        if self.tokens.word(index)[:1] == "'":
            path = self._path(index)
            self.files[start] = FileReference(start=start, end=end, function="", alias=alias, paths=(path,))
            return
        last = self._name_last(index)
        at = at_clause(self.statement, self.tokens, start, end) if node.get("at_clause") else None
        self.tables[start] = TableReference(
            start=start,
            end=end,
            name_start=self.tokens.starts[index],
            name_end=self.tokens.end(last),
            parts=parts,
            alias=alias,
            at=at,
            bare=bare,
        )

    def _path(self, index: int) -> Argument:
        start, end, word = self.tokens.starts[index], self.tokens.end(index), self.tokens.word(index)
        return Argument(name="", start=start, end=end, value=unquoted(word), constant=True)

    def _span(self, node: TreeNode) -> tuple[int, int] | None:
        """Returns the bytes of a node; None where DuckDB does not say them."""
        start, length = int(node.get("query_location", -1)), int(node.get("query_location_length", 0))
        return (start, start + length) if 0 <= start < len(self.tokens.raw) and length else None

    def _named_by_keyword(self, parts: tuple[str, ...]) -> tuple[int, int]:
        """Returns where a keyword such as TABLE names a table, of which DuckDB does not say the place."""
        if not self.by_keyword:
            for index in range(1, len(self.tokens)):
                if self.tokens.key(index - 1) in _NAMING and self.tokens.is_name(index):
                    last = self._name_last(index)
                    names = tuple(unquoted(self.tokens.word(one)) for one in range(index, last + 1, 2))
                    place = (self.tokens.starts[index], self.tokens.end(last))
                    self.by_keyword.setdefault(names, deque()).append(place)
        places = self.by_keyword.get(parts)
        if not places:
            raise self.statement.error(f"the place of {'.'.join(parts)} in the query cannot be found", 0)
        return places.popleft()

    def _named(self, start: int) -> int:
        """Returns the token with which a name begins: behind ``LATERAL``, and behind an alias before it."""
        index = self.tokens.at(start)
        index += self.tokens.key(index) == "LATERAL"
        return index + 2 * (self.tokens.word(index + 1) == ":")

    def _name_last(self, index: int) -> int:
        """Returns the last token of a name with dots that begins at a token."""
        while self.tokens.word(index + 1) == ".":
            index += 2
        return index

    def _column(self, node: TreeNode) -> None:
        parts = tuple(str(part) for part in node.get("column_names") or ())
        span = self._span(node)
        if span is None:
            return
        first = self.tokens.at(span[0])
        if self._name_last(first) != first + 2 * (len(parts) - 1):
            return
        starts = tuple(self.tokens.starts[first + 2 * one] for one in range(len(parts)))
        self.columns[span[0]] = ColumnReference(starts=starts, end=span[1], parts=parts)

    def _function(self, node: TreeNode) -> None:
        span = self._span(node)
        if span is None:
            raise self.statement.error("the place of a table function in the query cannot be found", 0)
        function = node["function"]
        name = ".".join(one for one in (function.get("schema"), function.get("function_name")) if one).lower()
        index = self._named(span[0])
        call_start = self.tokens.starts[index]
        while self.tokens.word(index) != "(":
            index += 1
        call_end = self.tokens.end(self.tokens.closing(index))
        alias = str(node["alias"]) if node.get("alias") else None
        arguments = tuple(
            self._argument(one["expression"], str(one["name"])) for one in function["arguments"]
        )
        if name.rpartition(".")[2] in _FILE_FUNCTIONS:
            paths = self._paths(name, arguments, (call_start, call_end))
            self.files[span[0]] = FileReference(
                start=span[0], end=span[1], function=name, alias=alias, paths=paths
            )
            return
        self.functions[span[0]] = FunctionReference(
            start=span[0],
            end=span[1],
            call_start=call_start,
            call_end=call_end,
            name=name,
            alias=alias,
            arguments=arguments,
        )

    def _argument(self, node: TreeNode, name: str) -> Argument:
        start, end = self._span(node) or (0, 0)
        items: tuple[Argument, ...] = ()
        value, constant = None, False
        if node.get("type") == "VALUE_CONSTANT":
            value, constant = _constant(node.get("literal") or {})
        elif node.get("type") == "ARRAY_CONSTRUCTOR" or node.get("function_name") == "list_value":
            members = node.get("children") or [one["expression"] for one in node.get("arguments") or ()]
            items = tuple(self._argument(one, "") for one in members)
            value, constant = [one.value for one in items], all(one.constant for one in items)
        return Argument(name=name, start=start, end=end, value=value, constant=constant, items=items)

    def _paths(self, name: str, arguments: Sequence[Argument], span: tuple[int, int]) -> tuple[Argument, ...]:
        given = next((one for one in arguments if not one.name), None)
        paths = () if given is None else given.items or (given,)
        if not paths or not all(one.constant and isinstance(one.value, str) for one in paths):
            place = (given.start, given.end) if given is not None and given.end else span
            raise self.statement.error(
                f"the paths of {name} are text in quotes or a list of such; computed ones are not read",
                *place,
            )
        return tuple(paths)

    def _with_clause(self, table: TableReference) -> TableReference:
        """Returns a table with the clause of ours that stands in its range or right behind it."""
        for clause in self.clauses:
            inside = table.name_end <= clause.start < table.end
            before = self.tokens.at(clause.start) - 1
            if inside or (before >= 0 and self.tokens.end(before) == table.end):
                if table.at is not None:
                    raise self.statement.error("a table is read at one moment", clause.start, clause.end)
                table = replace(table, at=clause, end=max(table.end, clause.end))
        return table


def _constant(literal: dict[str, Any]) -> tuple[Any, bool]:
    """Returns (value, whether it is one) of a constant; other kinds are left to DuckDB."""
    kind, text = literal.get("kind"), str(literal.get("text", ""))
    if kind == "STRING":
        return text, True
    if kind == "INTEGER" and len(text) <= _DIGITS_MAX:
        return int(text), True
    if kind == "NUMERIC" and len(text) <= _DIGITS_MAX:
        return float(text.replace("_", "")), True
    if kind == "BOOLEAN":
        return text == "true", True
    return None, kind == "NULL_LITERAL"


def _parameters(tokens: Tokens) -> Iterator[ParameterReference]:
    number = 0
    for index in range(len(tokens)):
        word = tokens.word(index)
        if word == "?":
            number += 1
            yield ParameterReference(start=tokens.starts[index], end=tokens.end(index), name=str(number))
        elif word == "$":
            end = tokens.end(min(index + 1, len(tokens) - 1))
            yield ParameterReference(start=tokens.starts[index], end=end, name=tokens.word(index + 1))


def _ordered(found: Mapping[int, _Found]) -> tuple[_Found, ...]:
    return tuple(found[start] for start in sorted(found))
