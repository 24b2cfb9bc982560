"""Rooms: the folders inside a part of the package, their order, their doors and their names.

A room is a sub-package such as ``lakehouse.storage.scan``. Its ``__init__`` is its door: other parts
import the room and never a module of it; inside a part, modules import modules.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.house.layers import first_party_imports
from tests.house.public_names import exported
from tests.house.source_tree import PACKAGE, Module, under_type_checking

__all__ = [
    "FOLDER_MODULES_MAX",
    "KEYS_HOME",
    "PROMISES",
    "SUB_ORDER",
    "WHOLE",
    "against_the_order",
    "crowded",
    "keys_elsewhere",
    "past_a_door",
    "shared_names",
    "unmirrored",
    "untested",
    "untrue_doors",
    "without_a_place",
]

FOLDER_MODULES_MAX = 16
"""Modules of a folder, its ``__init__`` left out."""

SUB_ORDER: Mapping[str, tuple[str, ...]] = {
    "format": (
        *("limits", "metadata", "text", "schema", "keys"),
        *("fst", "index", "puffin", "parquet", "sstable", "avro"),
    ),
    "io": (
        *(
            "protocols",
            "retry",
            "cost",
            "anchor",
            "location",
            "options",
            "spill",
            "prometheus",
        ),
        *("writer", "conditional", "work", "store", "decorators", "retrying", "lent"),
        *("backends", "scratch", "proofs", "open"),
    ),
    "index": ("region_ids", "models", "puffin", "building", "metas", "search", "greptime"),
    "storage": (
        *("rows", "metadata", "merge", "schema", "indexes", "files", "wal", "commit", "tables"),
        *("scan", "cdc", "compact", "write", "maintenance"),
        *("table_columns", "table_indexes", "table_maintenance", "table_relations", "table"),
    ),
    "iceberg": (
        *(
            "single_values",
            "types",
            "metadata",
            "metadata_json",
            "scopes",
            "renewing",
            "locations",
            "opening",
        ),
        *(
            "manifests",
            "planning",
            "distinct_values",
            "reading",
            "relations",
            "scan",
            "state",
            "table",
            "publishing",
            "catalogs",
        ),
    ),
    "catalog": (
        *(
            "ids",
            "nodes",
            "engines",
            "layers",
            "sources",
            "system",
            "hints",
            "registry",
            "partitions",
            "graph",
            "control",
        ),
        *("inventory", "statistics", "pins", "views", "bundles", "accounts"),
    ),
    "sql": ("text", "engine", "providers", "relations", "system", "session"),
    "spark": ("runtime", "jobs", "reading", "writing", "streaming", "source", "submit"),
    "sync": (
        *("bridge", "row_forms", "scan", "iceberg_scan", "index_metas", "inventory", "sql"),
        *("query", "writer"),
        *(
            "table_columns",
            "table_indexes",
            "table_maintenance",
            "table_relations",
            "table",
            "iceberg",
            "graph",
            "planner_graph",
            "lake",
        ),
    ),
    "cli": (
        *(
            "escapes",
            "column_fit",
            "output",
            "arguments",
            "asking",
            "progress",
            "default_place",
            "row_stream",
        ),
        "frame",
        *(
            "tables",
            "sql",
            "iceberg",
            "database",
            "catalog",
            "store",
            "doctor",
            "puffin",
            "index_metas",
        ),
        *("demo", "spark", "app"),
    ),
}
"""Rooms of a part and the modules beside them, each before those that may import it."""

KEYS_HOME = "lakehouse/storage/metadata/paths.py"
"""Where keys of a table's objects are built and parsed."""
_KEYS = re.compile(r"(?:^|[^\w.])(?:wal|snapshot|data|index|manifest|schema|probe)/")
_KEYS_PARTS = frozenset({"format", "lake", "reports", "spark", "storage", "sync"})
"""Parts that know tables; ``index`` has the keys of other people's data directories."""

PROMISES = frozenset(
    {"costs", "cut_points", "damage", "everywhere", "examples", "golden"}
    | {"memory", "models", "processes", "tables"}
)
"""Folders of tests of what no module promises alone."""
WHOLE = frozenset({"benchmarks", "chaos", "conformance", "docs", "examples", "house", "interop", "kit"})
"""Folders of tests that are about no part of the package, and the folder of helpers."""


def _rooms(modules: Iterable[Module]) -> frozenset[str]:
    """Names of all rooms."""
    return frozenset(m.name for m in modules if m.is_package and m.name.count(".") == 2)


def _place(name: str) -> str:
    """The room of a module, or the module itself where it stands beside rooms."""
    parts = name.split(".")
    return parts[2] if len(parts) > 2 else ""


def without_a_place(modules: Sequence[Module]) -> Iterator[str]:
    """Rooms, and modules beside them, that the order does not name."""
    parts = {room.split(".")[1] for room in _rooms(modules)}
    for module in modules:
        place = _place(module.name)
        if module.part in parts and place and place not in SUB_ORDER.get(module.part, ()):
            yield f"{module.path}: {place} has no place in SUB_ORDER (tests/house/rooms.py)"


def against_the_order(modules: Sequence[Module]) -> Iterator[str]:
    """Imports inside a part that go against the order of its rooms."""
    for found in first_party_imports(modules):
        order = SUB_ORDER.get(found.part, ())
        here, there = _place(found.source.name), _place(found.target)
        known = found.source.part == found.part and here in order and there in order
        if known and order.index(there) > order.index(here):
            yield f"{found}: {here} stands before {there}"


def crowded(modules: Iterable[Module]) -> Iterator[str]:
    """Folders with more modules than one can take in."""
    counts = Counter(m.path.rpartition("/")[0] for m in modules if not m.is_package)
    for folder, count in sorted(counts.items()):
        if count > FOLDER_MODULES_MAX:
            yield f"{folder}: {count} modules, {FOLDER_MODULES_MAX} allowed: make rooms of it"


def past_a_door(modules: Sequence[Module]) -> Iterator[str]:
    """Imports of a room's module from another part, and names of one in strings there."""
    rooms = _rooms(modules)
    inside = {m.name: m.name.rpartition(".")[0] for m in modules if m.name.rpartition(".")[0] in rooms}
    for found in first_party_imports(modules):
        room = inside.get(found.target)
        if room is not None and found.source.part != found.part:
            yield f"{found}: import it from {room}"
    for module in modules:
        for node in ast.walk(module.tree):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if text in inside and text.split(".")[1] != module.part:
                yield f"{module.at(node)} names {text}: name {inside[text]}"


def untrue_doors(modules: Sequence[Module]) -> Iterator[str]:
    """Doors that say one thing to people, another to type checkers, and a third when they are used."""
    rooms = _rooms(modules)
    names = {m.name for m in modules}
    for module in modules:
        if module.name in rooms and "\nWords: " not in (ast.get_docstring(module.tree) or ""):
            yield f"{module.path}: its docstring does not say what its words are ('Words: …')"
        given = _given(module)
        if given is None:
            continue
        told = _told(module)
        promised = set(exported(module) or ()) - {"__version__"}
        for name in sorted(promised ^ set(given)):
            yield f"{module.path}: {name} is in one of __all__ and door(…) only"
        for name in sorted(set(given) & set(told)):
            if given[name] != told[name]:
                yield f"{module.path}: {name} is of {given[name]}, and of {told[name]} to type checkers"
        for name in sorted(set(given) - set(told)):
            yield f"{module.path}: type checkers do not know of {name}"
        for name in sorted(name for name in given if f"{module.name}.{name}" in names):
            yield f"{module.path}: {name} is a module too, and whichever is loaded last is found"


def _given(module: Module) -> dict[str, str] | None:
    """Names that a package hands to ``door(…)`` with their modules; None when it has no door."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "door" and module.is_package:
            homes = ast.literal_eval(node.args[1])
            return {
                name: home if "." in home else f"{module.name}.{home}"
                for home, text in homes.items()
                for name in text.split()
            }
    return None


def _told(module: Module) -> dict[str, str]:
    """Names that a package imports for type checkers with their modules."""
    return {
        alias.name: node.module or ""
        for node in under_type_checking(module.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def shared_names(modules: Iterable[Module], allowed: Mapping[str, str]) -> Iterator[str]:
    """Public classes and aliases of types of one name; those of ``sync`` are twins and have the same."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules:
        if module.part != "sync" and not module.is_package:
            for name in _types(module):
                homes[name].append(module.path)
    for name, paths in sorted(homes.items()):
        if len(paths) > 1 and name not in allowed:
            yield f"{name}: {', '.join(paths)}"
    yield from (f"{name} is there once: no allowance" for name in allowed if len(homes[name]) < 2)


def _types(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        names = []
        if isinstance(node, ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        # Constants are in capitals, variables of types too.
        yield from (name for name in names if name[0].isupper() and not name.isupper())


def keys_elsewhere(modules: Iterable[Module]) -> Iterator[str]:
    """Text that looks like the key of a table's object, outside the one place that makes keys."""
    for module in modules:
        if module.part not in _KEYS_PARTS or module.path == KEYS_HOME:
            continue
        documents = {id(node) for node in _documents(module)}
        for node in ast.walk(module.tree):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if id(node) not in documents and _KEYS.search(text):
                yield f"{module.at(node)} {text!r}: build it in {KEYS_HOME}"


def _documents(module: Module) -> Iterator[ast.Constant]:
    for node in ast.walk(module.tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def unmirrored(tests: Iterable[str], modules: Iterable[Module]) -> Iterator[str]:
    """Test files that stand where no module of that name is, and in no folder of promises.

    ``test_fanout_ending.py`` is about ``fanout`` as ``test_fanout.py`` is.
    """
    stems: defaultdict[str, set[str]] = defaultdict(set)
    packages = set()
    for module in modules:
        folder, _, stem = module.name.replace(".", "/").rpartition("/")
        if module.is_package:
            packages.add(f"{folder}/{stem}".lstrip("/"))
        stems[folder].add(stem)
    for path in tests:
        folder, _, file = path.removeprefix("tests/").rpartition("/")
        place = f"{PACKAGE}/{folder}".rstrip("/")
        about = file.removeprefix("test_").removesuffix(".py")
        if not file.startswith("test_") or folder.split("/")[0] in WHOLE:
            continue
        if place not in packages and folder.split("/")[-1] in PROMISES:
            continue
        if not any(about == stem or about.startswith(f"{stem}_") for stem in stems[place]):
            yield f"{path}: {place}/ has no {about}: name it after a module, or put it with the promises"


def untested(tests: Iterable[str], modules: Iterable[Module]) -> Iterator[str]:
    """Modules of storage that have no test file of their name."""
    there = set(tests)
    for module in modules:
        folder, _, stem = module.name.replace(".", "/").removeprefix(f"{PACKAGE}/").rpartition("/")
        path = f"tests/{folder}/test_{stem}.py"
        if folder.split("/")[0] == "storage" and not module.is_package and path not in there:
            yield f"{module.name}: state its rules in {path}"
