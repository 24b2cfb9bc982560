"""Trees of queries as DuckDB's parser gives them, and the one walk over them; nothing is bound or run.

Invariant: a name that a ``with`` clause defines is in the scope of exactly the nodes that see its definition.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from lakehouse.errors import InvalidInputError

__all__ = ["NamesInScope", "TreeNode", "query_tree", "tree_nodes"]

TreeNode = dict[str, Any]
"""An object of the tree's JSON."""
NamesInScope = frozenset[str]
"""Names of ``with`` clauses that a node sees, casefolded."""

_PARSERS: dict[int, Any] = {}
# By process, as a fork cannot use its parent's.
_JSON = re.compile(r'[{}\[\]]|("[^"\\]*(?:\\.[^"\\]*)*")\s*:|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s{}\[\],:"]+')
"""Brackets, names of members, and values."""
_WORD = re.compile(rb"\w+")
_DEFINING = (b"as", b"materialized", b"array")
_FORKS = frozenset({b"with", b"describe", b"desc", b"summarize", b"show", b"explain", b"prepare"})
_BEFORE_FORKS = frozenset({b"", b"(", b"as", b"analyze"})
_OPENING = (b"(", b"[", b"{")
_CLOSING = (b")", b"]", b"}")
_NO_NAMES: NamesInScope = frozenset()

_TOKENS_MAX = 200_000
"""Tokens of a text; the parser takes 2.5 KB of memory for each."""
_DEPTH_MAX = 250
"""Brackets within brackets; the parser's time for those that nobody closes grows with the square."""
_FORKS_MAX = 5
"""Words that begin several forms of statements, one within the other; each may take six times as long."""
_DEFINITIONS_MAX = 10
"""Definitions of WITH clauses and arrays of subqueries, one within the other; each may take twice as long."""
_NAMES_MAX = 1_000
"""Names of ``with`` clauses that a place sees, as each such clause has a set of them."""


def query_tree(text: str) -> TreeNode:
    """Returns what DuckDB's parser says of a text: its ``statements``, or an ``error``.

    Raises:
        ImportError: DuckDB is not installed.
        InvalidInputError: the text has too many tokens, or nests too deep to be parsed in bounded time.
    """
    import duckdb

    raw = text.encode()
    comment = duckdb.token_type.comment
    _check_bounds(raw, [offset for offset, kind in duckdb.tokenize(text) if kind is not comment])
    parser = _PARSERS.get(os.getpid())
    if parser is None:
        # Of one thread, so that it starts none.
        made = duckdb.connect(config={"threads": 1, "async_threads": 0, "enable_external_access": "false"})
        parser = _PARSERS.setdefault(os.getpid(), made)
    row = parser.cursor().execute("select json_serialize_sql(?)", [text]).fetchone()
    text = row[0] if row is not None else ""
    try:
        tree: TreeNode = json.loads(text)
    except RecursionError:
        tree = _deep_tree(text)
    return tree


def _deep_tree(text: str) -> TreeNode:
    """Reads JSON that nests deeper than Python's decoder goes, as that of a sum of a thousand terms."""
    open_: list[Any] = [[]]
    names: list[str] = [""]
    for match in _JSON.finditer(text):
        mark = match[0]
        if mark in "}]":
            value = open_.pop()
            names.pop()
        elif mark in "{[":
            open_.append({} if mark == "{" else [])
            names.append("")
            continue
        elif match[1]:
            names[-1] = json.loads(match[1])
            continue
        else:
            value = json.loads(mark)
        if isinstance(open_[-1], list):
            open_[-1].append(value)
        else:
            open_[-1][names[-1]] = value
    tree: TreeNode = open_[0][0]
    return tree


def _check_bounds(raw: bytes, starts: Sequence[int]) -> None:
    """Refuses what the parser would take minutes or gigabytes for."""
    if len(starts) > _TOKENS_MAX:
        raise InvalidInputError(
            f"the SQL has {len(starts):,} words and values; {_TOKENS_MAX:,} are parsed at most: give values "
            "as parameters, or keep them in a table"
        )
    around: list[tuple[int, int]] = [(0, 0)]
    # For each open bracket: in how many definitions it is, and in how many forks.
    before = b""
    for start in starts:
        mark = raw[start : start + 1]
        definitions, forks = around[-1]
        word = _WORD.match(raw, start)
        key = mark if word is None else word[0].lower()
        if mark in _OPENING:
            around.append((definitions + (before in _DEFINING), forks))
        elif mark in _CLOSING:
            del around[max(1, len(around) - 1) :]
        elif key in _FORKS and (before in _BEFORE_FORKS or before in _FORKS):
            around[-1] = (definitions, forks + 1)
        if len(around) > _DEPTH_MAX + 1 or around[-1][0] > _DEFINITIONS_MAX or around[-1][1] > _FORKS_MAX:
            raise InvalidInputError(
                "the SQL nests too deep: define its parts one after the other in WITH clauses"
            )
        before = key


def tree_nodes(root: Any) -> Iterator[tuple[TreeNode, NamesInScope]]:
    """Yields every object of a tree, outer ones first, with the names that ``with`` clauses define there.

    Raises:
        InvalidInputError: a place sees too many such names.
    """
    # A stack of its own: the tree is as deep as the text nests.
    waiting: list[tuple[Any, NamesInScope]] = [(root, _NO_NAMES)]
    while waiting:
        node, scope = waiting.pop()
        if isinstance(node, list):
            waiting.extend((one, scope) for one in reversed(node))
        elif isinstance(node, dict):
            yield node, scope
            waiting.extend(reversed(list(_inside(node, scope))))


def _inside(node: TreeNode, scope: NamesInScope) -> Iterator[tuple[Any, NamesInScope]]:
    """Yields the members of a node, each with its scope."""
    if node.get("type") == "RECURSIVE_CTE_NODE":
        scope |= {str(node.get("cte_name")).casefold()}
    for entry in (node.get("cte_map") or {}).get("map") or ():
        # A definition sees those before it, and itself only where it is recursive.
        yield entry.get("value"), scope
        scope |= {str(entry.get("key")).casefold()}
        if len(scope) > _NAMES_MAX:
            raise InvalidInputError(f"WITH clauses define more than {_NAMES_MAX:,} names: make views of some")
    for name, member in node.items():
        if name != "cte_map":
            yield member, scope
