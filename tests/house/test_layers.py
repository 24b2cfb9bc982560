"""The import order holds, and the checker that says so can fail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.house.allowances import LAZY_IMPORTS
from tests.house.layers import (
    ORDER,
    circles,
    first_party_imports,
    heavy_at_module_level,
    in_functions,
    mutual_pairs,
    upward,
)
from tests.house.source_tree import Module, library, none_of, parse, within


def tree(**files: str) -> Sequence[Module]:
    """A made-up package: ``io__store="import x"`` is ``lakehouse/io/store.py``."""
    sources = {"__init__": "", **files}
    return [
        parse(
            f"lakehouse/{name.replace('__', '/', 1)}.py" if name != "__init__" else "lakehouse/__init__.py",
            text,
        )
        for name, text in sources.items()
    ]


def test_imports_follow_the_order() -> None:
    """Each part of the package imports only parts above it."""
    none_of(upward(library()), "imports against the order of docs/architecture.md:")


def test_no_circles() -> None:
    """No module imports itself through others."""
    none_of(circles(library()), "modules that import each other in a circle:")


def test_no_mutual_pairs() -> None:
    """No two parts of the package import each other, for type checkers neither."""
    none_of(mutual_pairs(library()), "parts that import each other:")


def test_no_imports_of_our_own_in_functions() -> None:
    """Our own modules are imported at the top, where the order can be seen."""
    within(in_functions(library()), LAZY_IMPORTS, "imports of our own inside functions:")


def test_heavy_packages_are_imported_late() -> None:
    """Optional and slow packages are imported inside the functions that need them."""
    none_of(heavy_at_module_level(library()), "heavy packages imported at module level:")


def test_the_order_names_each_part_once() -> None:
    """The order is an order."""
    assert len(set(ORDER)) == len(ORDER)


def test_the_checker_reads_imports() -> None:
    """The scan sees the imports of the real package; an empty list would prove nothing."""
    assert len(first_party_imports(library())) > 10


@pytest.mark.parametrize(
    "statement",
    [
        "import lakehouse.storage",
        "import lakehouse.storage as s",
        "from lakehouse import storage",
        "from lakehouse.storage import x",
        "from ..storage import x",
        "from .. import storage",
        "try:\n    import lakehouse.storage\nexcept ImportError:\n    pass",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lakehouse.storage import x",
        "def f():\n    from lakehouse.storage import x",
        "import importlib\nimportlib.import_module('lakehouse.storage')",
        "HOMES = {'scan': 'lakehouse.storage'}",
    ],
)
def test_the_checker_finds_an_upward_import(statement: str) -> None:
    """An import against the order is found however it is written."""
    made_up = tree(io__paths=statement, storage____init__="x = 1")
    assert [row for row in upward(made_up) if "io stands above storage" in row]


def test_the_checker_accepts_a_downward_import() -> None:
    """An import along the order is no offence."""
    assert not list(upward(tree(storage__scan="from lakehouse.io.store import S", io__store="S = 1")))


def test_the_checker_finds_a_part_without_a_place() -> None:
    """A new part of the package has to be given its place first."""
    assert "lakehouse/novelty: not in the import order" in "".join(upward(tree(novelty__x="")))


def test_the_facade_stands_below_the_engine() -> None:
    """Importing a name from ``lakehouse`` itself is an import of the facade."""
    made_up = tree(__init__="connect = 1", io__x="from lakehouse import connect")
    assert [row for row in upward(made_up) if "io stands above lakehouse" in row]
    assert not list(upward(tree(__init__="connect = 1", cli__x="from lakehouse import connect")))


def test_the_checker_finds_a_circle() -> None:
    """A circle is found however many modules it goes through."""
    made_up = tree(
        io__a="from lakehouse.io.b import x",
        io__b="import lakehouse.io.c",
        io__c="from lakehouse.io import a",
    )
    (row,) = circles(made_up)
    around = [name.removeprefix("lakehouse.io.") for name in row.split(" -> ")]
    assert "".join(around) in ("abca", "bcab", "cabc")


def test_types_make_no_circle() -> None:
    """Modules of one part may know each other's types."""
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lakehouse.io.a import x"
    assert not list(circles(tree(io__a="import lakehouse.io.b", io__b=guarded)))


def test_the_checker_finds_a_mutual_pair() -> None:
    """Two parts that know each other's types are one part."""
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lakehouse.index.a import x"
    made_up = tree(index__a="import lakehouse.cache.b", cache__b=guarded)
    assert list(mutual_pairs(made_up)) == ["cache and index import each other"]


def test_the_checker_finds_a_lazy_import() -> None:
    """An import inside a function, method or lambda's body is found; one at module level is none."""
    made_up = tree(
        storage__a="class C:\n    async def f(self):\n        from lakehouse.io import b\n",
        storage__c="from lakehouse.io import b\n",
        io__b="",
    )
    assert list(in_functions(made_up)) == [
        ("lakehouse/storage/a.py", "lakehouse/storage/a.py:3 imports lakehouse.io.b inside a function")
    ]


def test_the_checker_finds_a_computed_import() -> None:
    """An import whose target is not written down is found; one of a named stranger is none of ours."""
    made_up = tree(io__a="import importlib\nimportlib.import_module(x)\nimportlib.import_module('obstore')\n")
    assert list(in_functions(made_up)) == [
        ("lakehouse/io/a.py", "lakehouse/io/a.py:2 imports a module whose name is computed")
    ]


def test_an_allowance_that_is_not_needed_fails() -> None:
    """Allow-lists shrink: what is listed and no longer there is an offence too."""
    with pytest.raises(AssertionError, match="lower it"):
        within([], {"lakehouse/x.py": (1, "once needed")}, "rule")
    with pytest.raises(AssertionError, match="second"):
        within([("p", "first"), ("p", "second")], {"p": (1, "one is fine")}, "rule")
    within([("p", "first")], {"p": (1, "one is fine")}, "rule")


@pytest.mark.parametrize("statement", ["import duckdb", "from pyspark.sql import X", "import pandas as pd"])
def test_the_checker_finds_heavy_packages(statement: str) -> None:
    """A heavy package at module level is found outside its home, and only there."""
    assert list(heavy_at_module_level(tree(io__a=statement)))
    assert not list(heavy_at_module_level(tree(io__a=f"def f():\n    {statement}")))
    guarded = f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {statement}"
    assert not list(heavy_at_module_level(tree(io__a=guarded)))


def test_a_heavy_package_is_at_home_in_its_part() -> None:
    """sql is about DuckDB and may import it; pyspark it may not."""
    assert not list(heavy_at_module_level(tree(sql__a="import duckdb")))
    assert list(heavy_at_module_level(tree(sql__a="import pyspark")))
