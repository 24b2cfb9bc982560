"""Metadata are read through the graph: nobody else opens tables by name or asks catalogs of Iceberg."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.source_tree import Module, library, none_of

_ROOMS = {
    "lakehouse.storage.tables": {"Names", "open_table"},
    "lakehouse.iceberg": {"catalogs"},
    "lakehouse.iceberg.catalogs": {"*"},
}
"""What opens tables past the graph, by the room that has it."""
_AT_HOME = ("lakehouse/catalog/", "lakehouse/storage/", "lakehouse/iceberg/")
_ALLOWED = {
    "lakehouse/lake/account_state.py": "it makes the names that an account sees, and hands them to its graph",
    "lakehouse/lake/state.py": "it makes the names and the catalogs, and hands them to the graph",
    "lakehouse/lake/index_places.py": "it reads index files of a warehouse that is not attached, once",
    "lakehouse/lake/attached.py": "it makes the names of an attached warehouse, and hands them to its source",
    "lakehouse/lake/inventory.py": "it lists every table that there is, and opens each through the graph",
    "lakehouse/spark/jobs/enumeration.py": "it enumerates index files of directories, tables or not",
}
"""Modules that may, and why."""


def _past_the_graph(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        if module.path.startswith(_AT_HOME) or module.path in _ALLOWED:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module in _ROOMS:
                banned = _ROOMS[node.module]
                for name in [alias.name for alias in node.names]:
                    if name in banned or "*" in banned:
                        yield f"{module.at(node)} imports {name} of {node.module}"


def test_metadata_are_read_through_the_graph() -> None:
    """Tables are opened and listed by ``lake.graph``, so that its costs and bounds hold for everybody."""
    none_of(_past_the_graph(list(library())), "ask lakehouse.catalog.graph (lake.graph) instead:")


def test_allowances_are_needed() -> None:
    """Each module that may go past the graph is there."""
    there = {module.path for module in library()}
    assert not sorted(set(_ALLOWED) - there)
