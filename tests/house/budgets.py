"""Budgets: what a reader can take in at once, and words that have no place in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.house.source_tree import Module, functions

__all__ = [
    "DEPTH_MAX",
    "FILE_LINES_MAX",
    "FUNCTION_LINES_MAX",
    "INIT_LINES_MAX",
    "VAGUE_NAMES",
    "assertions",
    "broad_excepts",
    "gathers",
    "long_files",
    "long_functions",
    "prints",
    "too_deep",
    "unfinished",
    "unregistered_kinds",
    "vague_names",
]

FILE_LINES_MAX = 600
"""Lines of a file."""
FUNCTION_LINES_MAX = 70
"""Lines of a function, its docstring included."""
INIT_LINES_MAX = 130
"""Lines of an ``__init__``, which names what others define: a line a name, twice where it is lazy."""
DEPTH_MAX = 2
"""Folders between the package and a module."""
VAGUE_NAMES = frozenset({"base", "common", "core", "helpers", "misc", "tools", "util", "utils"})
"""Module names that say nothing."""


def long_files(modules: Iterable[Module]) -> Iterator[str]:
    """Files over budget."""
    for module in modules:
        budget = INIT_LINES_MAX if module.is_package else FILE_LINES_MAX
        if len(module.lines) > budget:
            yield f"{module.path}: {len(module.lines)} lines, {budget} allowed"


def long_functions(modules: Iterable[Module]) -> Iterator[str]:
    """Functions over budget."""
    for module in modules:
        for node in functions(module.tree):
            length = len(module.lines_of(node))
            if length > FUNCTION_LINES_MAX:
                yield f"{module.at(node)} {node.name}: {length} lines, {FUNCTION_LINES_MAX} allowed"


def too_deep(modules: Iterable[Module]) -> Iterator[str]:
    """Modules below too many folders."""
    for module in modules:
        depth = module.path.count("/") - 1
        if depth > DEPTH_MAX:
            yield f"{module.path}: {depth} folders below the package, {DEPTH_MAX} allowed"


def vague_names(modules: Iterable[Module]) -> Iterator[str]:
    """Modules and packages named after nothing."""
    for module in modules:
        if set(module.name.split(".")) & VAGUE_NAMES:
            yield f"{module.path}: name it after what is in it"


def prints(modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    """(path, text) of calls of ``print`` outside the command line."""
    for module in modules:
        for node in ast.walk(module.tree):
            if module.part != "cli" and isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
                yield module.path, f"{module.at(node)} print(): return it, or log it"


def gathers(modules: Iterable[Module]) -> Iterator[str]:
    """``asyncio.gather``: it leaves the other tasks running when one fails."""
    for module in modules:
        for node in ast.walk(module.tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            if (isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.gather") or (
                "gather" in names and isinstance(node, ast.ImportFrom) and node.module == "asyncio"
            ):
                yield f"{module.at(node)} asyncio.gather: use a task group"


def broad_excepts(modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    """(path, text) of handlers that take every error and do not raise it on."""
    for module in modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ExceptHandler) or _reraises(node):
                continue
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(kind is None or ast.unparse(kind) in ("Exception", "BaseException") for kind in kinds):
                yield module.path, f"{module.at(node)} except {ast.unparse(node.type) if node.type else ''}"


def _reraises(handler: ast.ExceptHandler) -> bool:
    """Whether the handler ends in a bare ``raise``, as one that only tidies up does."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def unregistered_kinds(modules: Iterable[Module], known: Iterable[str]) -> Iterator[str]:
    """``kind="…"`` of an error that is not in ``lakehouse.errors.KINDS``."""
    registered = set(known)
    for module in modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("Error"):
                continue
            for keyword in node.keywords:
                kind = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
                if keyword.arg == "kind" and isinstance(kind, str) and kind not in registered:
                    yield f"{module.at(node)} kind {kind!r}: add it to lakehouse.errors.KINDS"


_UNFINISHED = re.compile(r"#.*\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b")


def unfinished(modules: Iterable[Module]) -> Iterator[str]:
    """Notes to do it later, and functions that only say they are not there yet."""
    for module in modules:
        for number, line in enumerate(module.lines, start=1):
            if _UNFINISHED.search(line):
                yield f"{module.path}:{number} {line.strip()}"
        # The test kit is inherited from; its hooks say so when they are not overridden.
        for node in ast.walk(module.tree) if module.part != "testing" else ():
            if isinstance(node, ast.Raise) and node.exc and "NotImplementedError" in ast.unparse(node.exc):
                yield f"{module.at(node)} raises NotImplementedError: raise an error of ours, or write it"


def assertions(modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    """(path, text) of assertions, which ``python -O`` leaves out."""
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Assert):
                yield module.path, f"{module.at(node)} asserts {ast.unparse(node.test)}"
