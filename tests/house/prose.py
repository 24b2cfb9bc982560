"""Prose: how docstrings begin, so that each can be understood without the code below it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.house.source_tree import Function, Module

__all__ = ["FRAGMENT_WORDS", "docstrings", "fragments"]

FRAGMENT_WORDS = ("Of", "Those", "What")
"""First words of clauses that lack their verb or noun: "Of a batch, at most." leaves out the quantity."""

_FRAGMENT = re.compile(rf"\s*({'|'.join(FRAGMENT_WORDS)})\b")


def fragments(modules: Iterable[Module]) -> Iterator[str]:
    """Docstrings that begin with one of :data:`FRAGMENT_WORDS`."""
    for module in modules:
        for node, text in docstrings(module.tree):
            match = _FRAGMENT.match(text)
            if match is not None:
                line = text.strip().partition("\n")[0]
                yield f"{module.at(node)} {line!r}: begin with a verb or a noun, not {match[1]!r}"


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """Docstrings of the module, its classes and functions, and of attributes (the string below a value)."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):  # a lambda's is an expression
            continue
        documented = isinstance(node, ast.Module | ast.ClassDef | Function)
        for statement in body:
            text = _text(statement)
            if documented and text is not None:
                yield statement, text
            documented = isinstance(statement, ast.Assign | ast.AnnAssign)


def _text(statement: ast.stmt) -> str | None:
    """The string that a statement consists of, if it is one."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
