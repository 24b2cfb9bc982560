"""What a module promises: a true ``__all__``, and a docstring on everything public."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from tests.house.source_tree import PACKAGE, Function, Module, under_type_checking

__all__ = [
    "EXEMPT",
    "exported",
    "more_than_reexports",
    "undocumented",
    "unruly_test_docstrings",
    "untrue_exports",
]

EXEMPT = frozenset({"door", "log"})
"""Public-looking names that are no exports: what makes a package a door, and a module's logger."""


def exported(module: Module) -> list[str] | None:
    """What ``__all__`` lists, or None when there is none."""
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == "__all__":
                value = ast.literal_eval(node.value)  # type: ignore[attr-defined]
                return list(value)
    return None


def _top_level(module: Module) -> Iterator[ast.stmt]:
    """Statements that run at module level, those inside ``if`` and ``try`` too."""
    typing_only = under_type_checking(module.tree)
    waiting = list(reversed(module.tree.body))
    while waiting:
        node = waiting.pop()
        if node in typing_only:
            continue
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            waiting.extend(
                reversed([child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)])
            )


def _defined(module: Module) -> set[str]:
    names: set[str] = set()
    for node in _top_level(module):
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not _makes_type_variable(node):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
    return names


def _makes_type_variable(node: ast.Assign | ast.AnnAssign) -> bool:
    makers = ("TypeVar", "ParamSpec", "TypeVarTuple")
    return isinstance(node.value, ast.Call) and ast.unparse(node.value.func).split(".")[-1] in makers


def _imported(module: Module) -> dict[str, tuple[str, str]]:
    """Name: (module, original name) of every ``from … import`` at module level."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in _top_level(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def untrue_exports(modules: Sequence[Module]) -> Iterator[str]:
    """Modules whose ``__all__`` is missing or says something else than the code."""
    by_name = {module.name: module for module in modules}
    for module in modules:
        promised = exported(module)
        defined, imported = _defined(module), _imported(module)
        if promised is None:
            only_a_docstring = module.is_package and len(module.tree.body) == 1
            if not only_a_docstring and not module.path.endswith("/__main__.py"):
                yield f"{module.path}: has no __all__"
            continue
        lazy = module.is_package and "__getattr__" in defined
        yield from (f"{module.path}: __all__ lists {name} twice" for name in _doubles(promised))
        for name in promised:
            if name not in defined and name not in imported and not lazy:
                yield f"{module.path}: __all__ lists {name}, which is not there"
        reexports = {n for n in imported if module.is_package and imported[n][0].startswith(PACKAGE)}
        unlisted = {n for n in defined | reexports if _is_public(n)} - EXEMPT - set(promised)
        if unlisted:
            yield f"{module.path}: public but not in __all__: {', '.join(sorted(unlisted))}"
        for name in sorted(reexports):
            origin, original = imported[name]
            source = by_name.get(origin)
            if source and f"{origin}.{original}" not in by_name and original not in (exported(source) or []):
                yield f"{module.path}: re-exports {original}, which {source.path} does not export"


def _doubles(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def more_than_reexports(modules: Iterable[Module]) -> Iterator[str]:
    """Package files that hold more than imports, constants and a lazy ``__getattr__``."""
    for module in modules:
        if not module.is_package:
            continue
        for node in module.tree.body:
            if isinstance(node, Function | ast.ClassDef) and node.name not in ("__getattr__", "__dir__"):
                yield f"{module.at(node)} defines {node.name}: an __init__ only re-exports"


def undocumented(modules: Sequence[Module]) -> Iterator[str]:
    """Public modules, classes, functions and methods without a docstring.

    A method is documented by the method it overrides, in a class of ours or under
    ``@override``; a protocol's method by any class that documents one of that name.
    """
    classes = _Classes(modules)

    def visit(module: Module, node: ast.AST, trail: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If | ast.Try | ast.With):
                yield from visit(module, child, trail)
            elif isinstance(child, Function | ast.ClassDef) and _is_public(child.name):
                inherited = isinstance(node, ast.ClassDef) and classes.document(node, child.name)
                if not ast.get_docstring(child) and not inherited and not _says_nothing_new(child):
                    yield f"{module.at(child)} {trail}{child.name} has no docstring"
                if isinstance(child, ast.ClassDef):
                    yield from visit(module, child, f"{trail}{child.name}.")

    for module in modules:
        if not ast.get_docstring(module.tree):
            yield f"{module.path} has no docstring"
        yield from visit(module, module.tree, "")


class _Classes:
    """Classes of the package by name: what they inherit from and which methods they document."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self._bases: dict[str, set[str]] = {}
        self._documented: dict[str, set[str]] = {}
        for module in modules:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef):
                    methods = {n.name for n in node.body if isinstance(n, Function) and ast.get_docstring(n)}
                    self._bases.setdefault(node.name, set()).update(_base_names(node))
                    self._documented.setdefault(node.name, set()).update(methods)

    def document(self, node: ast.ClassDef, method: str) -> bool:
        """Whether a class that the given one stands in for documents the method."""
        if "Protocol" in _base_names(node):
            return any(method in methods for methods in self._documented.values())
        seen: set[str] = set()
        waiting = set(_base_names(node))
        while waiting:
            name = waiting.pop()
            if method in self._documented.get(name, ()):
                return True
            seen.add(name)
            waiting |= self._bases.get(name, set()) - seen
        return False


def _base_names(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}


def _says_nothing_new(node: Function | ast.ClassDef) -> bool:
    """Overloads, setters and declared overrides are documented by what they stand for."""
    decorators = {ast.unparse(d).split("(")[0].split(".")[-1] for d in node.decorator_list}
    return bool(decorators & {"overload", "override", "setter", "deleter"})


_ENDS_WITHIN = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!\d)[.!?]\s+[A-Z]")


def unruly_test_docstrings(modules: Iterable[Module]) -> Iterator[str]:
    """Test functions whose docstring is not one sentence that states a rule."""
    for module in modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, Function) or not node.name.startswith("test"):
                continue
            text = ast.get_docstring(node) or ""
            why = (
                "has no docstring"
                if not text
                else "has more than one paragraph"
                if "\n\n" in text
                else "does not end with a full stop"
                if not text.endswith(".")
                else "is more than one sentence"
                if _ENDS_WITHIN.search(text)
                else "tells of a test instead of stating the rule"
                if re.match(r"((Tests?|Checks?) (that|if|whether)|Verif(y|ies)|Ensures?|Should)\b", text)
                else ""
            )
            if why:
                yield f"{module.at(node)} {node.name}: {why}"
