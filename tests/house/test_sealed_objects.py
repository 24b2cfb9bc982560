"""Sealed objects are made in one place, which looks whether they can be read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.house.source_tree import Module, library, none_of, parse

_MAKER = "lakehouse/format/metadata/sealed_json.py"


def _past_the_check(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        if module.path == _MAKER:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module == "lakehouse.format.metadata.sealed_json":
                for one in node.names:
                    if one.name in ("seal", "unseal"):
                        yield f"{module.path}:{node.lineno} imports {one.name}: use SealedFormat"


def test_nothing_is_sealed_past_the_check() -> None:
    """Only the module of sealed objects puts a checksum to JSON, so no encoder forgets to look."""
    none_of(
        _past_the_check(library()),
        "Objects are sealed by SealedFormat, which looks whether they can be read:",
    )


def test_a_way_past_the_check_is_found() -> None:
    """An encoder that seals by itself is an offence."""
    text = "from lakehouse.format.metadata.sealed_json import SealedFormat, seal"
    assert list(_past_the_check([parse("lakehouse/storage/x.py", text)])) == [
        "lakehouse/storage/x.py:1 imports seal: use SealedFormat"
    ]
