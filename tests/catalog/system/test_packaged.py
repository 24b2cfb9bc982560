"""The files that come with the package: sound, and true of the engines that are installed."""

from __future__ import annotations

import duckdb
import pytest

from lakehouse.catalog.system import PACKAGED, BuiltinNode, SystemRegistry, packaged_file
from tools import gen_builtins


@pytest.mark.parametrize("kind", PACKAGED)
def test_packaged_files_have_no_problems(kind: str) -> None:
    """What we ship passes its own validation strictly."""
    file = packaged_file(kind)
    assert file.engine == kind
    assert file.problems == ()
    assert len(file.builtins) > 500


async def test_duckdbs_file_is_true_of_the_installed_duckdb() -> None:
    """The builtins of its version are what DuckDB itself lists, all of them and no others."""
    version = ".".join(duckdb.__version__.split(".")[:2])
    objects = await SystemRegistry().system_objects("duckdb", version)
    listed = {
        (fact.section, fact.name, fact.signature.split(" -> ")[0] if fact.section != "types" else "")
        for fact in gen_builtins.duckdb_facts()
    }
    names = {"function": "functions", "operator": "operators", "aggregate": "aggregates"}

    def shown(node: BuiltinNode) -> tuple[str, str, str]:
        arguments = node.signature.removeprefix(node.name).split(" -> ")[0]
        return names.get(node.sort, f"{node.sort}s"), node.name, arguments

    assert {shown(node) for node in objects.builtins} == listed


@pytest.mark.parametrize(
    ("kind", "version", "name", "is_there"),
    [
        ("postgres", "15.8", "any_value", False),
        ("postgres", "16", "any_value", True),
        ("postgres", "13.2", "date_bin", False),
        ("postgres", "14", "date_bin", True),
        ("spark", "3.5.1", "parse_json", False),
        ("spark", "4.0.0", "parse_json", True),
        ("duckdb", "2.0.0", "date_trunc", True),
    ],
)
async def test_functions_appear_in_the_versions_that_have_them(
    kind: str, version: str, name: str, is_there: bool
) -> None:
    """Functions that a release brought are there from it on, as its release notes say."""
    objects = await SystemRegistry().system_objects(kind, version)
    assert any(node.name == name for node in objects.builtins) == is_there
