"""The import order: each part of the package imports only parts above it, and nothing in a circle.

Checks over a parsed tree: against the order (imports under ``TYPE_CHECKING`` and module
names in strings count, because readers follow them), around in a circle (only imports
that run), and inside functions (where a circle hides). Another keeps heavy third-party
packages out of module level.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from tests.house.source_tree import PACKAGE, Function, Module, under_type_checking

__all__ = [
    "HEAVY",
    "HEAVY_AT_HOME",
    "ORDER",
    "Import",
    "circles",
    "first_party_imports",
    "heavy_at_module_level",
    "in_functions",
    "mutual_pairs",
    "third_party_imports",
    "upward",
]

ORDER = (
    "_version",
    "doors",
    "errors",
    "suggest",
    "options",
    "config",
    "clock",
    "ids",
    "log",
    "excerpt",
    "java",
    "kernels",
    "expr",
    "format",
    "io",
    "cache",
    "index",
    "storage",
    "reports",
    "iceberg",
    "catalog",
    "sql",
    "lake",
    "sync",
    "",
    "spark",
    "service",
    "testing",
    "cli",
    "__main__",
)
"""Parts of the package, each above those that may import it; the empty one is ``lakehouse`` itself."""

HEAVY = frozenset(
    {
        "boto3",
        "duckdb",
        "matplotlib",
        "moto",
        "numba",
        "obstore",
        "pandas",
        "polars",
        "prometheus_client",
        "pyiceberg",
        "pyspark",
        "rjieba",
        "sqlglot",
        "starlette",
        "tantivy",
        "testcontainers",
        "uvicorn",
    }
)
"""Optional or slow to import: imported where they are used, inside functions."""

HEAVY_AT_HOME = {
    "sql": frozenset({"duckdb", "sqlglot"}),
    "spark": frozenset({"pyspark"}),
    "service": frozenset({"prometheus_client", "starlette", "uvicorn"}),
}
"""Parts that are about a heavy package, and so may import it at module level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import of one of our modules by another."""

    source: Module
    line: int
    target: str
    """Dotted name of the module imported."""
    lazy: bool
    """Runs inside a function."""
    typing_only: bool
    """Never runs."""

    @property
    def part(self) -> str:
        """Part of the package that is imported."""
        return self.target.partition(".")[2].partition(".")[0]

    def __str__(self) -> str:
        return f"{self.source.path}:{self.line} imports {self.target}"


@functools.cache
def _import_nodes(module: Module) -> tuple[tuple[ast.Import | ast.ImportFrom | ast.Call, bool], ...]:
    """Import statements and calls that import, in order, each with whether it stands inside a function."""
    found: list[tuple[ast.Import | ast.ImportFrom | ast.Call, bool]] = []
    waiting: list[tuple[ast.AST, bool]] = [(module.tree, False)]
    while waiting:
        node, lazy = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__")
        ):
            found.append((node, lazy))
        inside = lazy or isinstance(node, Function | ast.Lambda)
        waiting.extend((child, inside) for child in ast.iter_child_nodes(node))
    return tuple(sorted(found, key=lambda one: (one[0].lineno, one[0].col_offset)))


def _called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _names(module: Module, node: ast.Import | ast.ImportFrom | ast.Call) -> list[tuple[str, str]]:
    """(module, name) pairs that an import asks for; the name is empty for ``import x``."""
    if isinstance(node, ast.Import):
        return [(alias.name, "") for alias in node.names]
    if isinstance(node, ast.Call):
        argument = node.args[0] if node.args else None
        return [(str(argument.value), "")] if isinstance(argument, ast.Constant) else []
    origin = node.module or ""
    if node.level:
        package = module.name.split(".")
        package = package if module.is_package else package[:-1]
        base = package[: len(package) - node.level + 1]
        origin = ".".join([*base, origin] if origin else base)
    return [(origin, alias.name) for alias in node.names]


def first_party_imports(modules: Sequence[Module]) -> list[Import]:
    """Every import of one of these modules by another, however it is written."""
    known = {module.name for module in modules}
    found: list[Import] = []
    for module in modules:
        typing_only = under_type_checking(module.tree)
        for node, lazy in _import_nodes(module):
            wanted = [(origin, f"{origin}.{name}") for origin, name in _names(module, node)]
            targets = [whole if whole in known else origin for origin, whole in wanted]
            for target in dict.fromkeys(targets):
                if target.split(".")[0] == PACKAGE:
                    guarded = node in typing_only
                    found.append(
                        Import(source=module, line=node.lineno, target=target, lazy=lazy, typing_only=guarded)
                    )
    return found


def upward(modules: Sequence[Module]) -> Iterator[str]:
    """Imports against the order, module names in strings against it, and parts that are not in it."""
    for part in sorted({module.part for module in modules} - set(ORDER)):
        yield f"{PACKAGE}/{part}: not in the import order (tests/house/layers.py, docs/architecture.md)"
    arrows = [(i.source.part, i.part, str(i)) for i in first_party_imports(modules)]
    for here, there, text in [*arrows, *_named_in_strings(modules)]:
        if here in ORDER and there in ORDER and ORDER.index(there) > ORDER.index(here):
            yield f"{text}: {here or PACKAGE} stands above {there or PACKAGE}"


def _named_in_strings(modules: Sequence[Module]) -> Iterator[tuple[str, str, str]]:
    """Strings that are the name of one of our modules: what ``import_module`` may be given."""
    parts = {module.name: module.part for module in modules if module.part}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in parts:
                yield module.part, parts[node.value], f"{module.at(node)} names {node.value}"


def circles(modules: Sequence[Module]) -> Iterator[str]:
    """A circle of modules that import each other when they run, if there is one."""
    graph: dict[str, set[str]] = {module.name: set() for module in modules}
    for found in first_party_imports(modules):
        if not found.lazy and not found.typing_only and found.target != found.source.name:
            graph[found.source.name].add(found.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield " -> ".join(reversed(error.args[1]))


def mutual_pairs(modules: Sequence[Module]) -> Iterator[str]:
    """Pairs of parts that import each other in any way."""
    pairs = {(i.source.part, i.part) for i in first_party_imports(modules) if i.source.part != i.part}
    for one, other in sorted(pairs):
        if one < other and (other, one) in pairs:
            yield f"{one or PACKAGE} and {other or PACKAGE} import each other"


def in_functions(modules: Sequence[Module]) -> Iterator[tuple[str, str]]:
    """(path, text) of imports of our own modules inside functions, and of modules whose name is computed."""
    for found in first_party_imports(modules):
        if found.lazy:
            yield found.source.path, f"{found} inside a function"
    for module in modules:
        for node, _ in _import_nodes(module):
            if isinstance(node, ast.Call) and not _names(module, node):
                yield module.path, f"{module.at(node)} imports a module whose name is computed"


def third_party_imports(module: Module) -> Iterator[tuple[int, str, bool]]:
    """(line, top-level package, inside a function) of every import that runs and is of somebody else's."""
    typing_only = under_type_checking(module.tree)
    ours = sys.stdlib_module_names | {PACKAGE, "tests", "tools", "benchmarks", "examples"}
    for node, lazy in _import_nodes(module):
        tops = {origin.split(".")[0] for origin, _ in _names(module, node)}
        if node not in typing_only:
            yield from ((node.lineno, top, lazy) for top in sorted(tops - ours))


def heavy_at_module_level(modules: Iterable[Module]) -> Iterator[str]:
    """Imports of heavy packages that run when a module is loaded, outside their home."""
    for module in modules:
        banned = HEAVY - HEAVY_AT_HOME.get(module.part, frozenset())
        for line, top, lazy in third_party_imports(module):
            if top in banned and not lazy:
                yield f"{module.path}:{line} imports {top} at module level"
