"""The checkout as the guards see it: every Python file parsed once, every tracked file by name.

Guards are pure functions from modules to offences (lines of text that say where and
what); tests hand them the real tree or a made-up one. :func:`none_of` turns offences
into a failure that lists them all.
"""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "PACKAGE",
    "ROOT",
    "Function",
    "Module",
    "functions",
    "library",
    "none_of",
    "parse",
    "python_files",
    "texts",
    "tracked_files",
    "under_type_checking",
    "within",
]

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
PACKAGE = "lakehouse"
"""The import package."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
"""Any definition with ``def``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Python file."""

    path: str
    """Relative to the checkout, with ``/``."""
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Dotted name; a package's is that of its ``__init__``."""
        parts = self.path.removesuffix(".py").split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def is_package(self) -> bool:
        """Whether the file is an ``__init__``."""
        return self.path.endswith("/__init__.py")

    @property
    def part(self) -> str:
        """What stands in the import order: ``io`` for ``lakehouse.io.work.ranges``; empty for the root."""
        return self.name.partition(".")[2].partition(".")[0]

    @property
    def lines(self) -> list[str]:
        """Its lines, the first at index 0."""
        return self.text.splitlines()

    def lines_of(self, node: ast.AST) -> list[str]:
        """The lines a statement or expression stands on."""
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
        return self.lines[first - 1 : last]

    def at(self, node: ast.AST) -> str:
        """Where a node is, as editors understand it."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def parse(path: str, text: str) -> Module:
    """A module from its source."""
    return Module(path=path, text=text, tree=ast.parse(text, filename=path))


@functools.cache
def python_files(folder: str) -> tuple[Module, ...]:
    """Every Python file below a folder of the checkout, committed or not."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return tuple(parse(f.relative_to(ROOT).as_posix(), f.read_text(encoding="utf-8")) for f in files)


def library() -> tuple[Module, ...]:
    """The modules of the import package."""
    return python_files(PACKAGE)


@functools.cache
def tracked_files() -> tuple[str, ...]:
    """What a fresh clone holds, by path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, timeout=60)
    paths = listed.stdout.decode().split("\0")
    return tuple(path for path in paths if path and (ROOT / path).is_file())


def texts() -> dict[str, str]:
    """Every tracked file that is text, by path."""
    found = {}
    for path in tracked_files():
        try:
            found[path] = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


@functools.cache
def under_type_checking(tree: ast.Module) -> frozenset[ast.stmt]:
    """The statements that only type checkers see."""
    guarded: set[ast.stmt] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            guarded.update(n for s in node.body for n in ast.walk(s) if isinstance(n, ast.stmt))
    return frozenset(guarded)


def none_of(offences: Iterable[str], rule: str) -> None:
    """Fails with the rule and every offence against it."""
    rows = sorted(offences)
    assert not rows, f"{rule}\n  " + "\n  ".join(rows)


def within(offences: Iterable[tuple[str, str]], allowed: Mapping[str, tuple[int, str]], rule: str) -> None:
    """Fails on (path, text) pairs beyond the allowance, and on allowances nobody uses any more."""
    texts: dict[str, list[str]] = {}
    for path, text in offences:
        texts.setdefault(path, []).append(text)
    beyond = [
        text for path, rows in texts.items() if len(rows) > allowed.get(path, (0, ""))[0] for text in rows
    ]
    unused = [
        f"{path}: {count} allowed, {len(texts.get(path, ()))} there: lower it in tests/house/allowances.py"
        for path, (count, _) in allowed.items()
        if len(texts.get(path, ())) < count
    ]
    none_of(beyond + unused, rule)
