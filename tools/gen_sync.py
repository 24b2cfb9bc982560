"""Writes lakehouse/sync/ from the async classes: the same methods, without await; ``--check`` only compares.

Run it with ``make docs``. What it writes is committed, so that readers, editors and type checkers see
every method; a test runs ``--check``. Only thin stubs are made: same signature, same docstring, and a
body that hands the call to ``lakehouse.sync.bridge``. What the rules below do not cover is an error, and
so is a rule that nothing needs any more.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Rules", "Unclear", "files", "generate", "main"]

ROOT = Path(__file__).resolve().parents[1]
BRIDGE = "lakehouse.sync.bridge"
_LINE_MAX = 110
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Unclear(Exception):
    """The rules do not say what to make of something, or say something about nothing."""


@dataclass(slots=True, kw_only=True)
class Rules:
    """What is translated, and how; each rule counts its uses."""

    twins: dict[str, str]
    """Async class: module of its twin, which has the same name."""
    attributes: dict[str, tuple[str, str]]
    """``Class.attribute``: its type and what it is; passed through."""
    left_out: dict[str, str]
    """``Class.member``, or a function: why there is none that blocks."""
    replaced: dict[str, str]
    """Pattern in docstrings: what stands there in the twin's."""
    either: dict[str, tuple[str, str]] = field(default_factory=dict)
    """``Class.method``: two twins; the second is returned unless what the method got is of the first."""
    used: set[str] = field(default_factory=set)

    def use(self, rule: str) -> bool:
        """Notes that a rule was needed; whether there is one for this member."""
        found = rule in self.left_out or rule in self.attributes or rule in self.replaced
        if found:
            self.used.add(rule)
        return found

    def unused(self) -> list[str]:
        """Rules that nothing needed."""
        return sorted({*self.attributes, *self.left_out, *self.replaced, *self.either} - self.used)


SOURCES = {
    "lakehouse/catalog/graph/bulk.py": "lakehouse/sync/graph/bulk.py",
    "lakehouse/catalog/graph/graph.py": "lakehouse/sync/graph/graph.py",
    "lakehouse/catalog/graph/live.py": "lakehouse/sync/graph/live.py",
    "lakehouse/catalog/system/information_schema.py": "lakehouse/sync/graph/system_scan.py",
    "lakehouse/catalog/bundles/planner_graph.py": "lakehouse/sync/planner_graph.py",
    "lakehouse/catalog/inventory/scan.py": "lakehouse/sync/inventory.py",
    "lakehouse/iceberg/scan.py": "lakehouse/sync/iceberg_scan.py",
    "lakehouse/iceberg/table.py": "lakehouse/sync/iceberg.py",
    "lakehouse/index/metas/enumerate.py": "lakehouse/sync/index_metas.py",
    "lakehouse/catalog/control/caches.py": "lakehouse/sync/lake/caches.py",
    "lakehouse/lake/cache.py": "lakehouse/sync/lake/cache.py",
    "lakehouse/lake/accounts.py": "lakehouse/sync/lake/accounts.py",
    "lakehouse/lake/catalogs.py": "lakehouse/sync/lake/catalogs.py",
    "lakehouse/lake/databases.py": "lakehouse/sync/lake/databases.py",
    "lakehouse/lake/inventory.py": "lakehouse/sync/lake/inventory.py",
    "lakehouse/lake/lake.py": "lakehouse/sync/lake/lake.py",
    "lakehouse/lake/queries.py": "lakehouse/sync/lake/queries.py",
    "lakehouse/lake/sql.py": "lakehouse/sync/lake/sql.py",
    "lakehouse/lake/tables.py": "lakehouse/sync/lake/tables.py",
    "lakehouse/lake/views.py": "lakehouse/sync/lake/views.py",
    "lakehouse/storage/table.py": "lakehouse/sync/table.py",
    "lakehouse/storage/table_columns.py": "lakehouse/sync/table_columns.py",
    "lakehouse/storage/table_indexes.py": "lakehouse/sync/table_indexes.py",
    "lakehouse/storage/table_maintenance.py": "lakehouse/sync/table_maintenance.py",
    "lakehouse/storage/table_relations.py": "lakehouse/sync/table_relations.py",
    "lakehouse/storage/scan/row_forms.py": "lakehouse/sync/row_forms.py",
    "lakehouse/storage/scan/table_scan.py": "lakehouse/sync/scan.py",
}
"""File of async classes: file of their twins."""


_ATTRIBUTES: Mapping[str, tuple[str, str]] = {
    "MetadataGraph.account": ("str", "Account that it is the graph of."),
    "MetadataGraph.engines": (
        "Engines",
        "Builtins and hints, which accounts share; files, providers and decoders are added here.",
    ),
    "IcebergTable.name": ("str", "Name of the table, for people."),
    "IndexMetaScan.problems": (
        "list[FileProblem]",
        "The first 10,000 problems, one per bad file; ``stats`` counts all of them.",
    ),
    "IndexMetaScan.stats": ("ScanStats", "Grows while the scan runs."),
    "InventoryScan.problems": (
        "list[TableProblem]",
        "The first 10,000 problems; ``stats`` counts all.",
    ),
    "InventoryScan.stats": ("InventoryStats", "Grows while the scan runs."),
    "SystemScan.relation": ("str", "Name of the relation."),
    "SystemScan.schema": ("pa.Schema", "Columns and their types."),
    "SystemScan.warnings": (
        "list[SystemWarning]",
        "Problems met so far; whole when the iteration has ended.",
    ),
    "RowForms.report": (
        "ScanReport",
        "Report of the last reading: files looked at and left out, rows read, cost.",
    ),
}
"""``Class.attribute``: its type and what it is; passed through."""
_LEFT_OUT: Mapping[str, str] = {
    "IcebergTable.reading": "async: for engines that are built on this one",
    "IcebergTable.source": "async: for engines that are built on this one",
    "Lake.store": "an async object store",
    "BulkGraph.resolve_name": "abstract: the graph has it",
    "LiveGraph.resolve": "abstract: the graph has it",
    "LiveGraph.open": "for engines that are built on this one: Lake.table opens tables",
    "LiveGraph.listed": "for engines that are built on this one: Lake.tables lists tables",
    "MetadataGraph.committed": "the lake tells it of commits",
    "MetadataGraph.detached": "the lake tells it of catalogs",
    "MetadataGraph.name_changed": "the lake tells it of names",
    "MetadataGraph.pointer": "for engines that are built on this one",
    "MetadataGraph.sources": "async: for engines that are built on this one",
    "PlannerGraph.detached": "the lake tells it of catalogs",
    "PlannerGraph.opened": "async: for queries",
    "PlannerGraph.queries": "async: a lake has methods of its own",
    "PlannerGraph.user_objects": "a query has it too: lake.query()",
    "Table.core": "async: for engines that are built on this one",
    "iterate_index_metas": "takes an async store; a lake has a method of its own",
}
"""``Class.member``, or a function: why there is none that blocks."""


def rules() -> Rules:
    """The rules of this project."""
    return Rules(
        twins={
            "IcebergScan": "lakehouse.sync.iceberg_scan",
            "IcebergTable": "lakehouse.sync.iceberg",
            "IndexMetaScan": "lakehouse.sync.index_metas",
            "InventoryScan": "lakehouse.sync.inventory",
            "BulkGraph": "lakehouse.sync.graph.bulk",
            "LiveGraph": "lakehouse.sync.graph.live",
            "MetadataGraph": "lakehouse.sync.graph",
            "SystemScan": "lakehouse.sync.graph",
            "AccountLake": "lakehouse.sync.lake.accounts",
            "Lake": "lakehouse.sync.lake",
            "LakeAccounts": "lakehouse.sync.lake.accounts",
            "LakeCache": "lakehouse.sync.lake.caches",
            "LakeCaches": "lakehouse.sync.lake.cache",
            "LakeCatalogs": "lakehouse.sync.lake.catalogs",
            "LakeDatabases": "lakehouse.sync.lake.databases",
            "LakeInventory": "lakehouse.sync.lake.inventory",
            "LakeQueries": "lakehouse.sync.lake.queries",
            "LakeSql": "lakehouse.sync.lake.sql",
            "LakeTables": "lakehouse.sync.lake.tables",
            "LakeViews": "lakehouse.sync.lake.views",
            "PlannerGraph": "lakehouse.sync.planner_graph",
            "Query": "lakehouse.sync.query",
            "Table": "lakehouse.sync.table",
            "TableColumns": "lakehouse.sync.table_columns",
            "TableIndexes": "lakehouse.sync.table_indexes",
            "TableMaintenance": "lakehouse.sync.table_maintenance",
            "TableRelations": "lakehouse.sync.table_relations",
            "RowForms": "lakehouse.sync.row_forms",
            "SqlResult": "lakehouse.sync.sql",
            "SqlSession": "lakehouse.sync.sql",
            "TableScan": "lakehouse.sync.scan",
            "TableWriter": "lakehouse.sync.writer",
        },
        attributes=dict(_ATTRIBUTES),
        left_out=dict(_LEFT_OUT),
        replaced={
            r"\basync with lakehouse\.connect": "with lakehouse.sync.connect",
            r"\basync with await iceberg\b": "with lakehouse.sync.iceberg",
            r"\basync with lake\.query": "with lake.query",
            r"\basync with lake\.sql_session": "with lake.sql_session",
            r"\basync for\b": "for",
            r"\basync with table\b": "with table",
            r"\bawait ack\b": "ack.wait()",
            r"\bawait ": "",
        },
        either={"LakeTables.table": ("IcebergTable", "Table")},
    )


def door_of(module: str) -> str:
    """Where other parts import a module's names from: the package that it is in, if that is inside a part."""
    parts = module.split(".")
    return ".".join(parts[:3]) if parts[0] == "lakehouse" and len(parts) == 4 else module


@dataclass(slots=True)
class _Imports:
    """What the generated module needs to import."""

    source: ast.Module
    module: str
    rules: Rules
    lines: set[str] = field(default_factory=set)

    def need(self, node: ast.expr) -> ast.expr:
        """The annotation or default as the twin has it, with its names imported."""
        written = _Aliases(self.source).visit(copy.deepcopy(node))
        for name in sorted({one.id for one in ast.walk(written) if isinstance(one, ast.Name)}):
            self.name(name)
        found: ast.expr = written
        return found

    def name(self, name: str) -> None:
        """Imports a name that the source uses."""
        if name in self.rules.twins:
            home = self.rules.twins[name]
            if home != twin_module(self.module):
                self.lines.add(f"from {home} import {name}")
            return
        for node in self.source.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        shown = ast.unparse(ast.alias(alias.name, alias.asname))
                        named = isinstance(node, ast.ImportFrom)
                        origin = f"from {door_of(node.module or '')} " if named else ""
                        self.lines.add(f"{origin}import {shown}")
                        return
            elif name in _defined(node):
                self.lines.add(f"from {door_of(self.module)} import {name}")
                return
        if not hasattr(builtins, name):
            raise Unclear(f"{self.module}: where does the name {name} come from?")


class _Aliases(ast.NodeTransformer):
    """Writes out private names of types, which the twin cannot import."""

    def __init__(self, source: ast.Module) -> None:
        self._values = {
            name: node.value
            for node in source.body
            if isinstance(node, ast.Assign)
            for name in _defined(node)
            if name.startswith("_")
        }

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node)


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return {one.id for one in targets if isinstance(one, ast.Name)}


def twin_module(module: str) -> str:
    """The module that is made from a module."""
    path = SOURCES.get(module.replace(".", "/") + ".py", "")
    return path.removesuffix(".py").replace("/", ".")


def generate(path: str, text: str, given: Rules) -> str:
    """The twin of a module, not yet formatted."""
    source = ast.parse(text, filename=path)
    module = path.removesuffix(".py").replace("/", ".")
    imports = _Imports(source, module, given)
    names, bodies = [], []
    for node in source.body:
        if isinstance(node, ast.ClassDef) and node.name in given.twins:
            names.append(node.name)
            bodies.append("\n".join(_class(node, imports)))
        elif isinstance(node, Function) and _twin_of(node.returns, given) and not given.use(node.name):
            names.append(node.name)
            bodies.append("\n".join(_function(node, imports)))
    if not names:
        raise Unclear(f"{path}: holds no class that has a twin")
    shadowed = ["A001"] * any(hasattr(builtins, name) for name in names)
    shadowed += ["A002"] * bool(re.search(r"[(,]\s*type:", "\n".join(bodies)))
    shadowing = f"# ruff: noqa: {', '.join(shadowed)}\n" if shadowed else ""
    return (
        f'"""{" and ".join(sorted(names))} without await: the twin of :mod:`{module}`.\n\n'
        "Invariant: every method hands the call to the async one of its name, and does nothing else.\n"
        '"""\n'
        f"{_made_from(path)}\n{shadowing}\n"
        "from __future__ import annotations\n\n"
        + "\n".join(sorted(imports.lines))
        + f"\n\n__all__ = {sorted(names)!r}\n\n\n"
        + "\n\n\n".join(bodies)
        + "\n"
    )


def _made_from(path: str) -> str:
    """The comment that names the source."""
    line = f"# Made by tools/gen_sync.py from {path}: edit that file, then run `make docs`."
    return line if len(line) <= _LINE_MAX else line.replace(": edit", ":\n# edit")


def _class(node: ast.ClassDef, imports: _Imports) -> Iterator[str]:
    given, name = imports.rules, node.name
    home = door_of(imports.module)
    imports.lines |= {f"from {home} import {name} as Async{name}", f"from {BRIDGE} import Bridge"}
    bases = [one.id for one in node.bases if isinstance(one, ast.Name) and one.id in given.twins]
    for base in bases:
        imports.name(base)
    yield f"class {name}({', '.join(bases)}):" if bases else f"class {name}:"
    yield _docstring((ast.get_docstring(node) or "").split("\n\nArgs:")[0], given, "    ")
    if bases:
        yield f"    _wrapped: Async{name}\n"
    yield f"    def __init__(self, wrapped: Async{name}, bridge: Bridge) -> None:"
    yield "        self._wrapped, self._bridge = wrapped, bridge\n"
    members = [one for one in node.body if isinstance(one, Function)]
    for attribute in _attributes(members):
        rule = f"{name}.{attribute}"
        if not given.use(rule):
            raise Unclear(f"attribute {rule}: pass it through or leave it out?")
        if rule in given.attributes:
            kind, about = given.attributes[rule]
            imports.need(ast.parse(kind, mode="eval").body)
            yield "    @property"
            yield f'    def {attribute}(self) -> {kind}:\n        """{about}"""'
            yield f"        return self._wrapped.{attribute}\n"
    for member in members:
        if member.name == "__repr__":
            yield "    def __repr__(self) -> str:\n        return repr(self._wrapped)\n"
        elif member.name == "__aenter__":
            yield from _lifetime(imports, is_held=_is_opened(name, imports.source))
        elif member.name == "__aiter__" and (items := _items_of(member.returns)):
            imports.lines.add("from collections.abc import Generator")
            yield f"    def __iter__(self) -> Generator[{ast.unparse(imports.need(items))}, None, None]:"
            yield "        return self._bridge.iterate(self._wrapped.__aiter__)\n"
        elif not member.name.startswith("_") and not given.use(f"{name}.{member.name}"):
            yield from _method(member, imports, f"{name}.{member.name}")


def _attributes(members: list[Function]) -> list[str]:
    """Public attributes that ``__init__`` sets."""
    return [
        node.attr
        for member in members
        if member.name == "__init__"
        for node in ast.walk(member)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if ast.unparse(node.value) == "self" and not node.attr.startswith("_")
    ]


def _is_opened(name: str, source: ast.Module) -> bool:
    """Whether something of the module makes the class inside of another, so that no bridge is for it alone.

    An async function that opens it does, and a method of another class.
    """
    makers: list[ast.stmt] = [one for one in source.body if isinstance(one, ast.AsyncFunctionDef)]
    for one in source.body:
        if isinstance(one, ast.ClassDef) and one.name != name:
            makers += one.body
    found = (one.returns for one in makers if isinstance(one, Function))
    return any(isinstance(returns, ast.Name) and returns.id == name for returns in found)


def _lifetime(imports: _Imports, *, is_held: bool) -> Iterator[str]:
    imports.lines.add("from typing import Self")
    if is_held:
        yield '''\
    def __enter__(self) -> Self:
        self._bridge.enter(self._wrapped)
        return self

    def __exit__(self, *why: object) -> None:
        self._bridge.leave(self._wrapped)

    def close(self) -> None:
        """Gives connections back; what it gave out is refused from then on."""
        self._bridge.leave(self._wrapped)
'''
        return
    yield '''\
    def __enter__(self) -> Self:
        self._bridge.open()
        return self

    def __exit__(self, *why: object) -> None:
        self._bridge.close()

    def close(self) -> None:
        """Ends it: iterations end, calls of other threads are waited for, connections are given back.

        A lake that is not used as a context manager and not closed is closed when nothing refers to it
        any more, or when the interpreter ends.
        """
        self._bridge.close()
'''


def _function(node: Function, imports: _Imports) -> Iterator[str]:
    """A function that makes what a bridge is for."""
    twin = _twin_of(node.returns, imports.rules)
    imports.lines |= {f"from {door_of(imports.module)} import {node.name} as async_{node.name}"}
    yield f"def {node.name}({_parameters(node, imports)}) -> {twin}:"
    yield _docstring(ast.get_docstring(node), imports.rules, "    ")
    if isinstance(node, ast.AsyncFunctionDef):
        through = ", ".join([f"async_{node.name}", *_arguments(node)])
        yield f"    bridge, wrapped = Bridge.entering({through})"
        yield f"    return {twin}(wrapped, bridge)"
        return
    yield f"    wrapped = async_{node.name}({', '.join(_arguments(node))})"
    yield f"    return {twin}(wrapped, Bridge(wrapped))"


def _method(node: Function, imports: _Imports, where: str) -> Iterator[str]:
    given = imports.rules
    decorators = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
    twin, items = _twin_of(node.returns, given), _items_of(node.returns)
    through = ", ".join([f"self._wrapped.{node.name}", *_arguments(node)])
    plain = f"self._wrapped.{node.name}({', '.join(_arguments(node))})"
    if node.returns is None:
        raise Unclear(f"{where} does not say what it returns")
    returns = ast.unparse(imports.need(items or node.returns))
    if decorators == {"asynccontextmanager"} and items:
        imports.lines.add("from contextlib import AbstractContextManager")
        returns, body = f"AbstractContextManager[{returns}]", f"self._bridge.hold({through})"
    elif decorators == {"property"}:
        body = f"self._wrapped.{node.name}"
    elif decorators:
        raise Unclear(f"{where}: what becomes of a method that is {', '.join(sorted(decorators))}?")
    elif items:
        imports.lines.add("from collections.abc import Generator")
        returns, body = f"Generator[{returns}, None, None]", f"self._bridge.iterate({through})"
    else:
        body = f"self._bridge.call({through})" if isinstance(node, ast.AsyncFunctionDef) else plain
    if where in given.either:
        given.used.add(where)
        yield from _either(node, imports, where, body)
        return
    if twin and decorators <= {"property"} and not items:
        body = f"{twin}({body}, self._bridge)"
    elif any(isinstance(one, ast.Name) and one.id in given.twins for one in ast.walk(node.returns)):
        raise Unclear(f"{where} returns {returns}: only {sorted(given.twins)} themselves become twins")
    if "property" in decorators:
        yield "    @property"
    yield f"    def {node.name}({_parameters(node, imports)}) -> {returns}:"
    yield _docstring(ast.get_docstring(node), given, "        ")
    yield f"        return {body}\n"


def _either(node: Function, imports: _Imports, where: str, body: str) -> Iterator[str]:
    """A method that returns one of two twins."""
    one, other = imports.rules.either[where]
    imports.name(one)
    imports.name(other)
    home = _home_of(one)
    imports.lines.add(f"from {door_of(home)} import {one} as Async{one}")
    yield f"    def {node.name}({_parameters(node, imports)}) -> {ast.unparse(imports.need(node.returns))}:"
    yield _docstring(ast.get_docstring(node), imports.rules, "        ")
    yield f"        return self._bridge.twin({body}, {{Async{one}: {one}}}, {other})\n"


def _home_of(name: str) -> str:
    """The module of an async class."""
    twin = rules().twins[name].replace(".", "/") + ".py"
    (source,) = (source for source, target in SOURCES.items() if target == twin)
    return source.removesuffix(".py").replace("/", ".")


def _twin_of(returns: ast.expr | None, given: Rules) -> str | None:
    """The class that is returned, when it is one that has a twin."""
    return returns.id if isinstance(returns, ast.Name) and returns.id in given.twins else None


def _items_of(returns: ast.expr | None) -> ast.expr | None:
    """The type of what an async iterator yields, when that is what is returned."""
    if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) in (
        "AsyncIterator",
        "AsyncGenerator",
    ):
        inside = returns.slice
        return inside.elts[0] if isinstance(inside, ast.Tuple) else inside
    return None


def _parameters(node: Function, imports: _Imports) -> str:
    """The parameters as they are written."""
    arguments = copy.deepcopy(node.args)
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for one in [*every, arguments.vararg, arguments.kwarg]:
        if one is not None and one.annotation is not None:
            one.annotation = imports.need(one.annotation)
    for default in [*arguments.defaults, *arguments.kw_defaults]:
        if default is not None:
            imports.need(default)
    return ast.unparse(arguments)


def _arguments(node: Function) -> list[str]:
    """The parameters as they are handed on."""
    here = node.args
    positional = [one.arg for one in [*here.posonlyargs, *here.args] if one.arg != "self"]
    starred = [f"*{here.vararg.arg}"] if here.vararg else []
    named = [f"{one.arg}={one.arg}" for one in here.kwonlyargs]
    return [*positional, *starred, *named, *([f"**{here.kwarg.arg}"] if here.kwarg else [])]


def _docstring(text: str | None, given: Rules, indent: str) -> str:
    """The docstring without await, as source."""
    if not text:
        raise Unclear("a public method has no docstring")
    for pattern, instead in given.replaced.items():
        text, times = re.subn(pattern, instead, text)
        if times:
            given.use(pattern)
    end = "\n" if "\n" in text else ""
    escaped = text.replace("\\", "\\\\")
    return textwrap.indent(f'"""{escaped}{end}"""', indent)


def formatted(text: str, path: str) -> str:
    """The text as ruff would have it."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        line = [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"]
        done = subprocess.run(line, input=text, capture_output=True, text=True, cwd=ROOT, check=False)
        if done.returncode:
            raise Unclear(f"{path}: ruff says: {done.stderr or done.stdout}")
        text = done.stdout
    return text


def files() -> dict[str, str]:
    """Path and text of every module that is made here."""
    given = rules()
    made = {
        target: formatted(generate(source, (ROOT / source).read_text(encoding="utf-8"), given), target)
        for source, target in SOURCES.items()
    }
    if given.unused():
        raise Unclear(f"rules that nothing needs: {', '.join(given.unused())}")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Writes what is stale, or with ``--check`` says so and fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something is stale")
    check = parser.parse_args(arguments).check
    stale = []
    for path, text in files().items():
        target = ROOT / path
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                target.write_text(text, encoding="utf-8")
            print(f"{path}: {'stale, run make docs' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
